"""Exact things among near twins, asked with the real model: the memory in which the very thing stands comes first
(README, "Exact things")."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from ormahd.embedding.embedder import Embedder
from ormahd.search.search import Rules
from ormahd.settings import WhisperSettings
from ormahd.whisper.gather import gather
from ormahd.whisper.types import Analysis, Asked, Intent
from tests.contract.index_notes import NOW
from tests.quality.sets import Text, rows
from tests.quality.test_floors import Stand

ROWS = rows(Path(__file__).with_name("exact.tsv"))
TEXTS = [Text(row[3], row[4] or None, row[5]) for row in ROWS if row[0] == "memory"]
ASKED = [row[1:] for row in ROWS if row[0] == "asked"]
UNKNOWN = [row for row in ROWS if row[0] == "unknown"]
GATE = WhisperSettings().injection_gate


@pytest.fixture(scope="module")
def stand(tmp_path_factory: pytest.TempPathFactory, model: Embedder) -> Iterator[Stand]:
    made = Stand(tmp_path_factory.mktemp("exact"), model, TEXTS)
    yield made
    made.index.close()


def relevances(stand: Stand, prompt: str) -> dict[str, float]:
    """The relevance of each candidate for a whisper, by node id."""
    heard = Analysis(prompt, frozenset({Intent.GENERAL}), None, prompt, False)
    found = gather(
        stand.index, heard, Asked(prompt, None), self_id="", embed=stand.model.embed_query, now=NOW, rules=Rules(),
        limit=30, preferences=False,
    )  # fmt: skip
    return {one.id: one.relevance for one in found.candidates}


def test_a_whisper_brings_the_memory_with_the_name_and_no_look_alike(stand: Stand) -> None:
    named = [row for row in ASKED if row[1] in {"identifier", "path", "version", "address", "code", "hash", "typo"}]
    brought = alone = 0
    for _, _, gold, prompt in named:
        found = relevances(stand, prompt)
        chosen = [node_id for node_id, value in found.items() if value >= GATE]
        brought += stand.ids[gold] in chosen
        alone += chosen == [stand.ids[gold]]
    assert brought >= 0.95 * len(named)
    assert alone >= 0.9 * len(named)
    spoken = [row[4] for row in UNKNOWN if max(relevances(stand, row[4]).values(), default=0.0) >= GATE]
    assert len(spoken) <= 0.08 * len(UNKNOWN), spoken


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
