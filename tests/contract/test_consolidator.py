"""The consolidator's runs: which memories are shown to a judge, what is asked again, and that it ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from ormahd.actions.connect import connect
from ormahd.actions.outdated import outdated
from ormahd.api import ConnectParams, OutdatedParams
from ormahd.judge.port import JudgeGone, ShownMemory, Summary
from ormahd.model.node import EdgeType, NodeType, Tier
from tests.contract.consolidating import JOB, Says, deploys, near, united
from tests.jobs_house import AGENT, JobsHouse
from tests.jobs_judge import ScriptedJudge
from tests.tables import rows

# ---------------------------------------------------------------- what is planned


LONG = near("b")["content"] + " again" * 3000
CASES = [
    *rows(__file__, "cases"),
    ("not longer than a judge reads", [{"title": "a"}, {"title": "b", "content": LONG}], []),
]


@pytest.mark.parametrize(("memories", "shown"), [one[1:] for one in CASES], ids=[one[0] for one in CASES])
def test_given_these_memories_these_are_shown(
    house: JobsHouse, memories: list[dict[str, Any]], shown: list[list[str]]
) -> None:
    for memory in memories:
        house.remember(**near(**memory))
    judge = Says()
    house.run(JOB, judge)
    assert sorted(sorted(titles) for _, titles in judge.asked) == shown


def test_of_more_than_five_that_are_near_five_are_shown(house: JobsHouse) -> None:
    for name in "abcdef":
        house.remember(**near(name))
    judge = Says()
    house.run(JOB, judge)
    assert {len(set(titles)) for _, titles in judge.asked} == {5}, "which five is a matter of a hair's breadth"


def test_what_is_outdated_contradicted_or_replaced_is_left_alone(house: JobsHouse) -> None:
    ids = {name: house.remember(**near(name)) for name in "abcd"}
    outdated(house.ormah, OutdatedParams(node_id=ids["a"], reason="moved"), AGENT)
    for source, edge, target in (("b", EdgeType.CONTRADICTS, "c"), ("d", EdgeType.EVOLVED_FROM, "b")):
        connect(house.ormah, ConnectParams(source_id=ids[source], target_id=ids[target], edge=edge, weight=0.9), AGENT)
    judge = Says()
    assert house.run(JOB, judge).proposals == 0
    assert judge.asked == []
    connect(
        house.ormah,
        ConnectParams(source_id=ids["b"], target_id=ids["c"], edge=EdgeType.CONTRADICTS, weight=0.9, remove=True),
        AGENT,
    )  # settled: now they may be one, but not with what one of them replaced
    house.run(JOB, judge)
    shown = [set(titles) for _, titles in judge.asked]
    assert shown
    assert all({"b", "c"} <= titles or {"c", "d"} <= titles for titles in shown)
    assert all({"b", "d"} - titles for titles in shown)


def test_without_a_judge_nothing_is_planned(house: JobsHouse) -> None:
    deploys(house)
    ran = house.run(JOB)
    assert (ran.proposals, ran.applied, ran.error) == (0, 0, None)


def test_the_self_node_is_never_shown(house: JobsHouse) -> None:
    me = house.row(house.ormah.vault.self_id)
    ids = {house.remember(me.content + end, title=me.title) for end in (" Yes.", " No.")}
    shown: set[str] = set()
    house.update(me.id, tier=Tier.WORKING)
    house.run(JOB, Says(says=lambda cluster: shown.update(one.id for one in cluster)))
    assert shown == ids


# ---------------------------------------------------------------- it ends, and says so


def test_runs_until_nothing_is_left_end(house: JobsHouse) -> None:
    for space in ("one", "two", "three"):
        for name in "abcdefg":
            house.remember(**near(f"{name}{space}", space=space))
    house.remember("Miso the cat likes tuna.")
    judge = ScriptedJudge()
    runs = house.until_nothing_is_left(JOB, judge)
    assert {house.row(one).space for one in united(house)} == {"one", "two", "three"}
    assert sum(ran.applied for ran in runs) == len(united(house)) >= 3
    asked = len(judge.asked)
    assert house.run(JOB, judge).proposals == 0
    assert len(judge.asked) == asked, "nothing is asked twice"
    assert house.ormah.verify() == []


def test_what_is_denied_is_remembered_and_what_is_open_is_asked_again(house: JobsHouse) -> None:
    ids = deploys(house)
    judge = Says()
    for _ in range(2):
        house.run(JOB, judge)
    assert len(judge.asked) == 2, "once a run: nobody answered"
    judge.says = lambda cluster: Summary(None, None, NodeType.FACT, "different things")
    for _ in range(2):
        house.run(JOB, judge)
    assert len(judge.asked) == 3
    house.update(ids[0], content="Deploys of the payments service run every Tuesday at 15:00.")
    house.run(JOB, judge)
    assert len(judge.asked) == 4, "another text is another question"


def test_a_judge_that_goes_away_ends_the_asking_and_nothing_else(house: JobsHouse) -> None:
    deploys(house)

    def gone(_: Sequence[ShownMemory]) -> Summary:
        raise JudgeGone("the lid was closed")

    ran = house.run(JOB, Says(says=gone))
    assert (ran.proposals, ran.error) == (0, None)

    class Short(ScriptedJudge):
        def summaries(self, clusters: Sequence[Sequence[ShownMemory]]) -> Sequence[Summary | None]:
            return []

    assert house.run(JOB, Short()).error is None
    assert house.run(JOB, ScriptedJudge()).applied == 1
