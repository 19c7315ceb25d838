"""Questions for several things: where they are cut, and how what was found for each is joined."""

from __future__ import annotations

import pytest

from ormahd.search.gather import parts
from ormahd.search.search import Hit, Ranked, join_results
from tests.tables import rows


@pytest.mark.parametrize(("text", "found"), rows(__file__, "a_question_for_two_things_is_cut"))
def test_a_question_for_two_things_is_cut(text: str, found: list[str]) -> None:
    assert list(parts(text)) == found


@pytest.mark.parametrize(
    "text", [*rows(__file__, "other_texts_stay_whole"), "what does the log say and where is it kept? " + "x" * 400]
)
def test_other_texts_stay_whole(text: str) -> None:
    assert parts(text) == ()


def _ranked(**scores: float) -> Ranked:
    return Ranked([Hit(name, score, "search", {}) for name, score in scores.items()], trace={"question": True})


def test_the_best_of_each_part_comes_first_and_every_memory_once() -> None:
    whole = _ranked(a=0.6, c=0.5, b=0.2)
    found = join_results(whole, [_ranked(a=0.9, c=0.7), _ranked(b=0.4, d=0.3)], ("one?", "two?"), 3)
    assert [(hit.node_id, hit.score) for hit in found.results] == [("a", 0.9), ("b", 0.4), ("c", 0.7)]
    assert found.trace == {"question": True, "parts": ["one?", "two?"]}


def test_a_part_that_finds_nothing_and_one_that_is_degraded() -> None:
    found = join_results(_ranked(a=0.6), [Ranked([], ["vectors"]), _ranked(b=0.5)], ("one?", "two?"), 10)
    assert [hit.node_id for hit in found.results] == ["b", "a"]
    assert found.degraded == ["vectors"]
