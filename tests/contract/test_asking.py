"""What a judge says has a form that can be relied on, and what is no verdict stays open."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from ormahd.jobs.questions import REASON, Asking, MemoryGroup
from ormahd.judge.model_judge import CONFLICTS, DUPLICATES, LINKS, SUMMARIES
from ormahd.judge.port import Contrast, Duplicate, Group, Linked, Summary, Task
from ormahd.model.node import NodeType
from tests.jobs_house import JobsHouse

BAD = "half \ud800 of\n\x1b[31m a  character\0"
GOOD = "half \N{REPLACEMENT CHARACTER} of ␛[31m a character␀"


class Says:
    """Gives the same answers to everything."""

    name = "says"

    def __init__(self, *answers: Any) -> None:
        self.answers = answers

    def answer(self, task: Task, groups: Sequence[Group]) -> Sequence[Any]:
        return self.answers


def verdicts(house: JobsHouse, task: Task, *answers: Any) -> tuple[list[Any], str | None]:
    """Return the verdicts on two questions, and what is said of those that stay open."""
    ids = [house.remember(f"Text number {number}.") for number in range(3)]
    rows = [house.row(node_id) for node_id in ids]
    turn = house.turn(Says(*answers))
    asking: Asking[MemoryGroup] = Asking(turn, task, None)
    found = asking.answers([MemoryGroup((rows[0], row), 0.9) for row in rows[1:]])
    return [verdict for _, verdict in found], turn.asked.left_open()


@pytest.mark.parametrize("answers", [(), (None,), (None, None, None)])
@pytest.mark.parametrize("task", [DUPLICATES, LINKS, CONFLICTS, SUMMARIES])
def test_another_number_of_answers_is_no_answer(house: JobsHouse, task: Task, answers: tuple[Any, ...]) -> None:
    found, left = verdicts(house, task, *answers)
    why = f"{len(answers)} answers to 2 questions"
    assert (found, left) == ([], f"the judge left 2 of 2 questions open: {why} (ormahctl status)")


@pytest.mark.parametrize(
    ("task", "answers", "expected"),
    [
        (DUPLICATES, ("yes", Linked("none", "no")), []),
        (LINKS, ("yes", Linked("none", "no")), [Linked("none", "no")]),
        (DUPLICATES, (Duplicate(True, "\ud800", "\0", BAD), None), [Duplicate(True, "\ud800", "\0", GOOD)]),
        (CONFLICTS, (None, Contrast("none", BAD)), [Contrast("none", GOOD)]),
    ],
)  # fmt: skip
def test_what_is_no_verdict_stays_open(
    house: JobsHouse, task: Task, answers: Sequence[Any], expected: list[Any]
) -> None:
    found, left = verdicts(house, task, *answers)
    assert found == expected
    assert left == f"the judge left {2 - len(expected)} of 2 questions open (ormahctl status)"


def test_a_reason_is_short(house: JobsHouse) -> None:
    found, _ = verdicts(house, SUMMARIES, Summary(None, None, NodeType.FACT, "x " * 10**6), None)
    assert len(found[0].reason) <= REASON
