"""Names among near twins, asked with the real model: what stands there letter by letter comes first (README, "Names")."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ormahd.embedding.embedder import Embedder
from ormahd.model.node import SearchQuery
from ormahd.search.blend import PART
from ormahd.search.gather import Trace
from ormahd.search.search import Rules, rank
from tests.contract.index_notes import NOW
from tests.quality.facts import half_of
from tests.quality.sets import Question, Text, rows
from tests.quality.test_floors import Stand

ROWS = rows(Path(__file__).with_name("names.tsv"))
TEXTS = [Text(row[1], row[2] or None, row[3]) for row in ROWS if row[0] == "memory"]
ASKED = [(row[1], Question(row[3], row[2])) for row in ROWS if row[0] == "asked"]


@pytest.fixture(scope="module")
def stand(tmp_path_factory: pytest.TempPathFactory, model: Embedder) -> Iterator[Stand]:
    made = Stand(tmp_path_factory.mktemp("names"), model, TEXTS)
    yield made
    made.index.close()


@pytest.mark.parametrize(("half", "first"), [("dev", 1.0), ("held", 0.95)])
def test_the_exact_one_is_first(stand: Stand, half: str, first: float) -> None:
    wrong = []
    some = [(kind, question) for kind, question in ASKED if half_of(question.text) == half]
    assert len(some) >= 20
    for kind, question in some:
        found = stand.ranked(question.text)
        if found[:1] != [stand.ids[question.gold]]:
            keys = {node_id: key for key, node_id in stand.ids.items()}
            wrong.append((kind, question.text, [keys[one] for one in found[:3]]))
    assert 1 - len(wrong) / len(some) >= first, wrong if half == "dev" else len(wrong)


def test_the_numbers_of_every_candidate_add_up(stand: Stand) -> None:
    """Of the results and of what was dropped: the score from the numbers, and the logit from its parts."""
    seen = 0
    for _, question in ASKED:
        found = rank(
            stand.index, SearchQuery(query=question.text), embed=stand.model.embed_query, space=None, now=NOW,
            rules=Rules(),
        )  # fmt: skip
        for shown in [*(hit.trace for hit in found.results), *found.trace["dropped"]]:
            numbers = {name: value for name, value in shown.items() if isinstance(value, float)}
            assert Trace(shown["node_id"], numbers).recompute() == pytest.approx(shown["score"], abs=1e-6), (
                question.text
            )
            if "logit" in numbers:
                parts = sum(value for name, value in numbers.items() if name.startswith(PART))
                assert parts + numbers["base"] == pytest.approx(numbers["logit"], abs=1e-6), question.text
                seen += 1
    assert seen >= 1_000
