"""Uses folded into the vault, importance, and core at its size: one commit a run, and nothing counted twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from ormahd.actions.amend import Caller, core_notes
from ormahd.actions.lookup import get
from ormahd.actions.outdated import forget, outdated
from ormahd.actions.recall import search
from ormahd.actions.remember import store_memory
from ormahd.api import ForgetParams, NodeParams, OutdatedParams
from ormahd.jobs.decay.job import ImportanceScorer
from ormahd.jobs.job import PlannedChange, apply
from ormahd.model import strength
from ormahd.model.node import CreateNodeRequest, EdgeType, LinkRequest, SearchQuery, Tier
from ormahd.model.strength import INITIAL_STABILITY_DAYS, STRENGTH_FILE, importance
from tests.jobs_house import AGENT, JobsHouse, open_jobs_house

SCORER = Caller("job:importance_scorer")


def planned(house: JobsHouse, run: str) -> list[PlannedChange]:
    steps = list(ImportanceScorer().plan(house.turn(run=run)))
    assert all(isinstance(step, PlannedChange) for step in steps)
    return [step for step in steps if isinstance(step, PlannedChange)]


def strength_file(house: JobsHouse) -> Path:
    return house.ormah.vault.root / STRENGTH_FILE


# Folding


def test_uses_become_strength_in_one_commit(house: JobsHouse) -> None:
    kettle, lamp = house.remember("A blue kettle"), house.remember("A tall lamp")
    house.go(days=3)
    get(house.ormah, NodeParams(node_id=kettle))
    get(house.ormah, NodeParams(node_id=kettle))
    search(house.ormah, SearchQuery(query="tall lamp", limit=1), space=None)
    notes, at = {path: path.read_bytes() for path in house.ormah.vault.root.rglob("*.md")}, house.head
    dry = house.run(ImportanceScorer(), dry=True)
    assert (dry.planned, house.head) == (["Strength: 3 uses of 2 memories, 3 memories scored anew"], at)
    ran = house.run(ImportanceScorer())
    assert (ran.proposals, ran.applied, ran.skipped) == (1, 1, 0)
    assert house.git("rev-list", f"{at}..HEAD").split() == ran.commits
    assert house.git("show", "--format=", "--name-only").split() == [strength.ACTIVE_DAYS_FILE, STRENGTH_FILE]
    said = house.git("show", "-s", "--format=%B")
    assert said.startswith("Strength: 3 uses of 2 memories, 3 memories scored anew\n\n")
    assert "Ormah-Kind: strength\n" in said
    assert "Ormah-Source: job:importance_scorer\n" in said
    assert "Ormah-Nodes" not in said
    assert {path: path.read_bytes() for path in house.ormah.vault.root.rglob("*.md")} == notes

    opened, found = house.row(kettle).strength, house.row(lamp).strength
    assert (opened.access_count, found.access_count) == (2, 1)
    assert (opened.use_count, found.use_count) == (2, 0)
    assert opened.stability > INITIAL_STABILITY_DAYS
    assert (found.stability, found.last_review) == (0.0, None)
    assert opened.importance == importance(2, 0, 0)
    assert house.row(house.ormah.vault.self_id).strength.importance == importance(0, 0, 3)
    assert house.ormah.state.accesses() == []
    assert house.run(ImportanceScorer()).proposals == 0


def test_time_alone_moves_importance_and_small_moves_are_not_worth_a_commit(house: JobsHouse) -> None:
    node_id = house.remember("A blue kettle")
    assert house.run(ImportanceScorer()).applied == 1
    house.go(hours=6)
    assert house.run(ImportanceScorer()).proposals == 0
    house.go(days=14)
    assert house.run(ImportanceScorer()).applied == 1
    assert house.row(node_id).strength.importance == pytest.approx(0.165, abs=0.003)


def test_uses_of_what_is_gone_are_forgotten(house: JobsHouse) -> None:
    node_id = house.remember("A blue kettle")
    house.ormah.state.asked(house.now)
    house.run(ImportanceScorer())
    before = strength_file(house).read_bytes()
    get(house.ormah, NodeParams(node_id=node_id))
    forget(house.ormah, ForgetParams(node_id=node_id), Caller("person"))
    assert house.run(ImportanceScorer()).proposals == 0
    assert house.ormah.state.accesses() == []
    assert strength_file(house).read_bytes() == before


def test_killed_after_the_commit_nothing_is_counted_twice(house: JobsHouse) -> None:
    node_id = house.remember("A blue kettle")
    get(house.ormah, NodeParams(node_id=node_id))
    (change,) = planned(house, "run-1")
    assert apply(house.ormah, change, SCORER, run="run-1") is not None  # and `change.done` is never heard
    get(house.ormah, NodeParams(node_id=node_id))
    assert len(house.ormah.state.accesses()) == 2
    assert house.run(ImportanceScorer()).applied == 1
    assert house.row(node_id).strength.access_count == 2
    assert house.ormah.state.accesses() == []


def test_killed_before_the_commit_everything_is_counted_once(house: JobsHouse) -> None:
    node_id = house.remember("A blue kettle")
    get(house.ormah, NodeParams(node_id=node_id))
    (change,) = planned(house, "run-1")
    assert change.edits()  # decided, marked, and then the power went
    assert house.ormah.state.unfinished_foldings() == ["run-1"]
    assert house.run(ImportanceScorer()).applied == 1
    assert house.row(node_id).strength.access_count == 1
    assert house.ormah.state.unfinished_foldings() == []
    assert house.run(ImportanceScorer()).proposals == 0


def test_a_use_while_the_commit_is_made_waits_for_the_next(house: JobsHouse) -> None:
    node_id = house.remember("A blue kettle")
    get(house.ormah, NodeParams(node_id=node_id))
    (change,) = planned(house, "run-1")
    get(house.ormah, NodeParams(node_id=node_id))
    assert apply(house.ormah, change, SCORER, run="run-1") is not None
    change.done()
    assert house.row(node_id).strength.access_count == 1
    assert len(house.ormah.state.accesses()) == 1
    house.run(ImportanceScorer())
    assert house.row(node_id).strength.access_count == 2


@pytest.mark.parametrize("how", ["undo", "revert"])
def test_taken_back_the_numbers_are_as_they_were(house: JobsHouse, how: str) -> None:
    node_id = house.remember("A blue kettle")
    house.run(ImportanceScorer())
    before = strength_file(house).read_bytes()
    get(house.ormah, NodeParams(node_id=node_id))
    (commit,) = house.run(ImportanceScorer()).commits
    house.type_into(node_id, "blue", "red")
    house.undo(commit) if how == "undo" else house.revert(commit)
    assert strength_file(house).read_bytes() == before
    assert house.row(node_id).strength.access_count == 0
    assert house.row(node_id).content == "A red kettle"


def test_lines_of_another_machine_are_left_alone(house: JobsHouse) -> None:
    node_id = house.remember("A blue kettle")
    foreign = (
        f'{{"id": "{node_id}@other", "node": "{node_id}", "machine": "other", "access_count": 7, '
        '"last_access": "2026-11-20T00:00:00Z", "stability": 40.0, "last_review": "2026-11-20T00:00:00Z"}'
    )
    strength_file(house).write_text(foreign + "\n")
    house.ormah.reconciler.scan()
    get(house.ormah, NodeParams(node_id=node_id))
    house.run(ImportanceScorer())
    lines = strength_file(house).read_text().splitlines()
    assert foreign in lines
    assert len([line for line in lines if node_id in line]) == 2
    assert house.row(node_id).strength.access_count == 8
    assert house.row(node_id).strength.stability > 40


# Core


def into_core(house: JobsHouse, node_id: str) -> None:
    """As a person does it, in an editor: nobody looks at the cap."""
    house.type_into(node_id, "tier: working", "tier: core")


def in_core(house: JobsHouse) -> set[str]:
    return {row.id for row in core_notes(house.ormah)}


def test_the_least_important_leaves_core() -> None:
    with open_jobs_house(**{"tiers.core_cap": 4}) as house:
        me = house.ormah.vault.self_id
        mine = house.remember("Lives in Dublin", about_self=True)
        used, plain, linked, third = (
            house.remember(f"A thing, the {word}") for word in ("first", "second", "fourth", "third")
        )
        for node_id in (mine, used, plain, linked, third):
            into_core(house, node_id)
        get(house.ormah, NodeParams(node_id=used))
        house.remember("Something on it", connections=[LinkRequest(target=linked, edge=EdgeType.SUPPORTS)])
        house.go(days=2)
        at = house.head
        dry = house.run(ImportanceScorer(), dry=True)
        assert sorted(dry.planned[1:]) == ["Leave core: A thing, the second", "Leave core: A thing, the third"]
        assert house.head == at
        ran = house.run(ImportanceScorer())
        assert in_core(house) == {me, mine, used, linked}
        assert len(ran.commits) == 3
        said = house.git("show", "-s", "--format=%B")
        assert said.startswith("Leave core: A thing, the ")
        assert "Core holds 6 memories, and 4 is its cap (tiers.core_cap)." in said
        assert "Ormah-Kind: decay\n" in said
        assert house.run(ImportanceScorer()).proposals == 0


@pytest.mark.parametrize("gone", ["replaced", "replaced from working", "outdated", "none"])
def test_what_no_longer_holds_has_no_seat_in_core(gone: str) -> None:
    with open_jobs_house(**{"tiers.core_cap": 3}) as house:
        first, second = (house.remember(f"A thing, the {word}", tier=Tier.CORE) for word in ("first", "second"))
        if gone == "outdated":
            outdated(house.ormah, OutdatedParams(node_id=first, reason="sold"), AGENT)
        house.go(seconds=1)
        request = CreateNodeRequest(content="A thing, the third, bought for the boat", tier=Tier.CORE)
        older = {"replaced": [first], "replaced from working": [house.remember("Of oak")]}.get(gone, [])
        done = store_memory(house.ormah, request, AGENT, replaces=older)
        held = {house.ormah.vault.self_id, second, done.node_id}
        assert in_core(house) == held or (gone in {"none", "replaced from working"} and done.demoted == [first])
        assert len(in_core(house)) == 3


def test_what_is_about_the_user_leaves_last_and_the_self_node_never() -> None:
    with open_jobs_house(**{"tiers.core_cap": 1}) as house:
        me = house.ormah.vault.self_id
        mine = house.remember("Lives in Dublin", about_self=True)
        house.go(days=30)
        fresh = house.remember("A thing, fresh and used")
        for node_id in (mine, fresh):
            into_core(house, node_id)
        get(house.ormah, NodeParams(node_id=fresh))
        ran = house.run(ImportanceScorer())
        assert ran.planned[1:] == ["Leave core: A thing, fresh and used", "Leave core: Lives in Dublin"]
        assert in_core(house) == {me}
        assert house.run(ImportanceScorer()).proposals == 0
