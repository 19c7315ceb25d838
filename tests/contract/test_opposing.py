"""Evolution and tension: what each does to the notes, what it refuses, that it can be taken back, that recall follows."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ormahd.actions.amend import PERSON, Caller
from ormahd.actions.connect import connect
from ormahd.actions.lookup import insights
from ormahd.api import ConnectParams, InsightsParams
from ormahd.errors import BadRequest, Conflict, NotFound
from ormahd.jobs.conflicts.change import conflict_change
from ormahd.jobs.job import PlannedChange, apply
from ormahd.model.node import EdgeType
from tests.contract.conftest import unlinked
from tests.jobs_house import AGENT, JobsHouse

house = unlinked


def two(house: JobsHouse, days: float = 10) -> tuple[str, str]:
    """(newer, older)."""
    older = house.remember("Deploys happen on Fridays", title="Deploy day", space="work")
    house.go(days=days)
    return house.remember("Deploys happen on Tuesdays", title="Day of deploys", space="work"), older


def does(house: JobsHouse, change: PlannedChange) -> str:
    done = apply(house.ormah, change, AGENT, run=None)
    assert done is not None
    assert done.op is not None
    return done.op


def replaced(house: JobsHouse, newer: str, older: str, **more: object) -> PlannedChange:
    return conflict_change(
        house.ormah, newer, older, "evolution", reason="the day moved", body="the day moved\n\nseen", **more
    )  # type: ignore[arg-type]


def test_the_older_belief_is_superseded_and_stays_reachable(house: JobsHouse) -> None:
    newer, older = two(house)
    head = house.head
    does(house, replaced(house, newer, older))
    assert house.git("rev-list", "--count", f"{head}..HEAD") == "1"
    (edge,) = house.ormah.index.edges(newer)[0]
    assert (edge.edge, edge.target, edge.weight, edge.reason) == (EdgeType.EVOLVED_FROM, older, 0.9, "the day moved")
    row = house.row(older)
    assert row.valid_until == house.ormah.moment()
    assert row.outdated_reason == f"superseded by Day of deploys ({newer[:8]})"
    assert house.found("deploys happen") == [newer]
    said = house.git("show", "-s", "--format=%B")
    assert said.startswith("Superseded: Deploy day, by: Day of deploys\n\nthe day moved\n\nseen\n")
    assert "Ormah-Kind: conflict\n" in said
    assert newer in said
    assert older in said


def test_a_tension_leaves_both_as_they_are_and_recall_says_that_they_conflict(house: JobsHouse) -> None:
    newer, older = two(house)
    does(house, conflict_change(house.ormah, older, newer, "tension", reason="two days", body=""))
    (edge,) = house.ormah.index.edges(newer)[0]
    assert (edge.edge, edge.target, edge.weight) == (EdgeType.CONTRADICTS, older, 0.9)
    assert house.git("show", "-s", "--format=%s") == "Contradiction: Day of deploys / Deploy day"
    assert {house.row(newer).valid_until, house.row(older).valid_until} == {None}
    hits = house.recall("Day of deploys").results
    assert [(hit.id, hit.source) for hit in hits] == [(newer, "search"), (older, "conflict")]


@pytest.mark.parametrize("take_back", [lambda house, op: house.undo(op), lambda house, op: house.revert()])
@pytest.mark.parametrize(
    "make", [replaced, lambda house, a, b: conflict_change(house.ormah, a, b, "tension", reason="r", body="")]
)
def test_taken_back_all_is_as_it_was(
    house: JobsHouse, make: Callable[..., PlannedChange], take_back: Callable[[JobsHouse, str], object]
) -> None:
    newer, older = two(house)
    tree = house.tree
    op = does(house, make(house, newer, older))
    take_back(house, op)
    assert house.tree == tree
    assert house.ormah.index.edges(newer) == ([], [])
    assert set(house.found("deploys happen")) == {newer, older}


def test_what_is_said_already_is_not_said_again(house: JobsHouse) -> None:
    newer, older = two(house)
    does(house, replaced(house, newer, older))
    assert apply(house.ormah, replaced(house, newer, older), AGENT, run=None) is None
    a, b = house.remember("The wall is red"), house.remember("The wall is blue")
    does(house, conflict_change(house.ormah, a, b, "tension", reason="", body=""))
    assert (
        apply(house.ormah, conflict_change(house.ormah, b, a, "tension", reason="", body=""), AGENT, run=None) is None
    )


def test_what_makes_no_sense_is_refused(house: JobsHouse) -> None:
    newer, older = two(house)
    me, nobody = house.ormah.vault.self_id, "00000000-0000-4000-8000-000000000000"
    tree = house.tree
    for make in (replaced, lambda house, a, b: conflict_change(house.ormah, a, b, "tension", reason="", body="")):
        with pytest.raises(NotFound):
            make(house, newer, nobody)
        with pytest.raises(BadRequest, match="itself"):
            make(house, newer, newer)
        for ends in ((newer, me), (me, older)):
            with pytest.raises(BadRequest, match="self node"):
                make(house, *ends)
    with pytest.raises(BadRequest, match="before"):
        replaced(house, older, newer)
    assert house.tree == tree
    does(house, replaced(house, older, newer, by_person=True))
    assert house.row(newer).outdated_reason == f"superseded by Deploy day ({older[:8]})"


def test_within_a_day_the_dates_do_not_say_who_came_first(house: JobsHouse) -> None:
    newer, older = two(house, days=0.5)
    does(house, replaced(house, older, newer))
    assert house.row(newer).valid_until is not None


def test_a_belief_does_not_evolve_from_its_successor(house: JobsHouse) -> None:
    first, second, third = (house.remember(f"The limit is {number}") for number in (10, 20, 30))
    does(house, replaced(house, second, first))
    does(house, replaced(house, third, second))
    with pytest.raises(Conflict, match="evolved from"):
        replaced(house, first, third)
    with pytest.raises(Conflict, match="evolved_from"):
        conflict_change(house.ormah, first, second, "tension", reason="", body="")
    prepared = conflict_change(house.ormah, first, third, "tension", reason="", body="")
    assert prepared.edits(), "a chain's ends may be said to contradict each other"


def test_only_a_person_replaces_who_the_user_is(house: JobsHouse) -> None:
    older = house.remember("Lives in Dublin", about_self=True)
    house.go(days=9)
    newer = house.remember("Lives in Berlin")
    also = house.remember("Lives in Berlin, it seems", about_self=True)
    with pytest.raises(BadRequest, match="about the user"):
        replaced(house, newer, older)
    change = replaced(house, also, older)
    does(house, change)
    row = house.row(older)
    assert row.about_self
    assert any(edge.edge is EdgeType.DEFINES for edge in house.ormah.index.edges(older)[1]), "it stays what it was"


@pytest.mark.parametrize(
    "reason", ["a\nb\0c\ud800d", "ghp_" + "a1B2c3D4e5" * 3 + "f6G7h8", "x" * 5000, "", "<<<<<<< ours\nx"]
)
def test_whatever_a_judge_writes_makes_no_harm(house: JobsHouse, reason: str) -> None:
    newer, older = two(house)
    does(house, conflict_change(house.ormah, newer, older, "evolution", reason=reason, body=f"{reason}\n\nmore"))
    (edge,) = house.ormah.index.edges(newer)[0]
    assert len(edge.reason or "") <= 500
    assert "ghp_" not in house.git("show", "HEAD")
    assert house.ormah.verify() == []


def test_insights_are_newest_first_and_know_what_is_settled(house: JobsHouse) -> None:
    newer, older = two(house)
    does(house, replaced(house, newer, older))
    house.go(days=1)
    a, b = house.remember("The wall is red"), house.remember("The wall is blue")
    does(house, conflict_change(house.ormah, a, b, "tension", reason="two colours", body=""))
    house.go(days=1)
    c = house.remember("The wall is green")
    connect(house.ormah, ConnectParams(source_id=c, target_id=a, edge=EdgeType.CONTRADICTS, weight=0.5), Caller(PERSON))
    connect(house.ormah, ConnectParams(source_id=a, target_id=c, edge=EdgeType.CONTRADICTS, weight=0.5), Caller(PERSON))
    found = insights(house.ormah, InsightsParams(limit=10))
    assert [(one.newer.id, one.older.id, one.reason) for one in found.evolutions] == [(newer, older, "the day moved")]
    assert found.evolutions[0].older.outdated_reason is not None
    assert [{one.a.id, one.b.id} for one in found.tensions] == [{a, c}, {a, b}], "said from both sides it is one"
    assert not any(one.settled for one in found.tensions)
    assert "two colours" in found.text
    house.update(c, valid_until=house.ormah.moment())
    house.go(seconds=1)
    assert [one.settled for one in insights(house.ormah, InsightsParams(limit=10)).tensions] == [True, False]
    assert len(insights(house.ormah, InsightsParams(limit=1)).tensions) == 1
    assert insights(house.ormah, InsightsParams(limit=10, space="work")).tensions == []
    assert insights(house.ormah, InsightsParams(limit=10, space="global")).evolutions == []
