"""What a judge says has a form that can be relied on."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from ormahd.judge.careful import REASON, Careful
from ormahd.judge.port import Contrast, Duplicate, JudgeGone, Linked, Pair, ShownMemory, Summary
from ormahd.model.node import EdgeType, NodeType

ONE = ShownMemory("id", NodeType.FACT, None, None, "Text.", datetime(2026, 11, 21, tzinfo=UTC))
PAIRS = [Pair(ONE, ONE, 0.9)] * 2


class Says:
    """Gives the same answers to everything."""

    name = "says"

    def __init__(self, *answers: Any) -> None:
        self.answers = answers

    def duplicates(self, _: Sequence[Pair]) -> Sequence[Any]:
        return self.answers

    links = conflicts = summaries = duplicates


@pytest.mark.parametrize("answers", [(), (None,), (None, None, None)])
def test_another_number_of_answers_is_no_answer(answers: tuple[Any, ...]) -> None:
    judge = Careful(Says(*answers))
    assert judge.name == "says"
    for ask in (judge.duplicates, judge.links, judge.conflicts):
        with pytest.raises(JudgeGone, match="to 2 questions"):
            ask(PAIRS)
    with pytest.raises(JudgeGone):
        judge.summaries([[ONE], [ONE]])


def test_what_is_no_verdict_stays_open() -> None:
    assert Careful(Says("yes", Linked(None, "no"))).duplicates(PAIRS) == [None, None]
    assert Careful(Says("yes", Linked(None, "no"))).links(PAIRS) == [None, Linked(None, "no")]


def test_reasons_can_be_stored_and_read() -> None:
    bad = "half \ud800 of\n\x1b[31m a  character\0"
    good = "half \N{REPLACEMENT CHARACTER} of ␛[31m a character␀"
    assert Careful(Says(Duplicate(True, "\ud800", "\0", bad), None)).duplicates(PAIRS) == [
        Duplicate(True, "\ud800", "\0", good), None,
    ]  # fmt: skip
    assert Careful(Says(Contrast("none", bad), None)).conflicts(PAIRS)[0] == Contrast("none", good)
    assert Careful(Says(Linked(EdgeType.SUPPORTS, "x" * 10_000), None)).links(PAIRS)[0] is not None
    (said, _) = Careful(Says(Summary(None, None, NodeType.FACT, "x " * 10**6), None)).summaries([[ONE], [ONE]])
    assert said is not None
    assert len(said.reason) <= REASON
