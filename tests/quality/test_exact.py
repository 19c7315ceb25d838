"""Exact things among near twins, asked with the real model: the memory in which the very thing stands comes first
(README, "Exact things")."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from ormahd.embedding.embedder import Embedder
from tests.quality.sets import Text
from tests.quality.test_floors import Stand

ROWS = [
    line.split("\t")
    for line in Path(__file__).with_name("exact.tsv").read_text("utf-8").splitlines()
    if line and not line.startswith("#")
]
TEXTS = [Text(row[3], row[4] or None, row[5]) for row in ROWS if row[0] == "memory"]
ASKED = [row[1:] for row in ROWS if row[0] == "asked"]


@pytest.fixture(scope="module")
def stand(tmp_path_factory: pytest.TempPathFactory, model: Embedder) -> Iterator[Stand]:
    made = Stand(tmp_path_factory.mktemp("exact"), model, TEXTS)
    yield made
    made.index.close()


def test_the_exact_one_is_first(stand: Stand) -> None:
    keys = {node_id: key for key, node_id in stand.ids.items()}
    right: Counter[tuple[str, str]] = Counter()
    every: Counter[tuple[str, str]] = Counter()
    wrong = []
    for half, kind, gold, question in ASKED:
        found = stand.ranked(question)
        every[half, kind] += 1
        if found[:1] == [stand.ids[gold]]:
            right[half, kind] += 1
        else:
            wrong.append((half, kind, question, gold, [keys[one] for one in found[:3]]))
    assert sum(every.values()) >= 300
    print(*wrong, sep="\n")
    for half in ("dev", "held"):
        share = sum(n for (one, _), n in right.items() if one == half) / sum(
            n for (one, _), n in every.items() if one == half
        )
        assert share >= 0.95, (half, share, [one for one in wrong if one[0] == "dev"])
    for (half, kind), number in every.items():
        assert right[half, kind] / number >= 0.8, (half, kind, right[half, kind], number)
