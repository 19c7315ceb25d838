"""A memory that replaces another: said while it is stored, or afterwards; memories close to a new one are named."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ormahd.actions.amend import PERSON, Caller
from ormahd.actions.connect import connect
from ormahd.actions.outdated import outdated
from ormahd.actions.remember import store_memory
from ormahd.actions.update import update
from ormahd.api import ConnectParams, OutdatedParams, RememberResult, UpdateParams, WriteResult
from ormahd.errors import BadRequest, Conflict, NotFound
from ormahd.jobs.conflicts.change import conflict_change
from ormahd.jobs.job import apply
from ormahd.model.node import CreateNodeRequest, EdgeType
from tests.jobs_house import AGENT, JobsHouse, open_jobs_house

OLD, NEW = "Node 18 is required to build the shop.", "Node 22 is required to build the shop."


@pytest.fixture(scope="module")
def kept() -> Iterator[JobsHouse]:
    with open_jobs_house() as found:
        yield found


@pytest.fixture
def house(kept: JobsHouse) -> Iterator[JobsHouse]:
    """The module's house, emptied again after each test."""
    yield kept
    kept.empty()


def store(house: JobsHouse, content: str, *replaces: str, **more: object) -> RememberResult:
    house.go(seconds=1)
    request = CreateNodeRequest(content=content, space="shop", **more)  # type: ignore[arg-type]
    return store_memory(house.ormah, request, AGENT, replaces=replaces)


def by(house: JobsHouse, older: str, newer: str, reason: str | None = None, revoke: bool = False) -> WriteResult:
    house.go(seconds=1)
    return outdated(house.ormah, OutdatedParams(node_id=older, reason=reason, revoke=revoke, by=newer), Caller(PERSON))


def superseded(house: JobsHouse, older: str, newer: str) -> bool:
    edges = {(edge.edge, edge.target) for edge in house.ormah.index.edges(newer)[0]}
    row = house.row(older)
    return (
        (EdgeType.EVOLVED_FROM, older) in edges
        and row.expired(house.now)
        and newer[:8] in (row.outdated_reason or "")
    )  # fmt: skip


def test_a_memory_close_to_the_new_one_is_named_with_the_command_that_replaces_it(house: JobsHouse) -> None:
    old = house.remember(OLD, space="shop")
    elsewhere = house.remember(OLD, space="lab")
    done = store(house, NEW)
    assert [one.id for one in done.near] == [old]
    assert done.near[0].content == OLD
    assert f"ormahctl outdated {old[:8]} --by {done.short_id}" in done.text
    assert elsewhere not in done.text
    assert not superseded(house, old, done.node_id)  # naming is all that is done
    unlike = store(house, "Lunch is at noon on Thursdays.")
    assert unlike.near == []
    assert "Close to" not in unlike.text


def test_what_the_new_memory_seems_to_replace_comes_first(house: JobsHouse) -> None:
    house.remember("The on-call phone of the shop rings at night, the on-call phone of the shop.", space="shop")
    old = house.remember("The on-call phone of the shop is with Ines.", space="shop")
    done = store(house, "The on-call phone of the shop is now with Tomek.")
    assert (done.near[0].id, done.near[0].standing) == (old, "replaced")
    assert f"It seems to replace {old[:8]}. If so: ormahctl outdated {old[:8]} --by {done.short_id}" in done.text


def test_an_outdated_memory_is_not_named_again(house: JobsHouse) -> None:
    old = house.remember(OLD, space="shop")
    outdated(house.ormah, OutdatedParams(node_id=old, reason="gone"), AGENT)
    house.go(seconds=1)
    assert store(house, NEW).near == []


def test_an_update_with_a_new_text_names_them_too(house: JobsHouse) -> None:
    old = house.remember(OLD, space="shop")
    other = store(house, "Lunch is at noon on Thursdays.")
    done = update(house.ormah, UpdateParams(node_id=other.node_id, content=NEW), AGENT)
    assert [one.id for one in done.near] == [old]
    assert f"ormahctl outdated {old[:8]} --by {other.short_id}" in done.text
    by(house, old, other.node_id)
    again = update(house.ormah, UpdateParams(node_id=other.node_id, content=NEW + " Or later."), AGENT)
    assert again.near == []
    assert update(house.ormah, UpdateParams(node_id=other.node_id, title="Node"), AGENT).near == []


def test_a_memory_is_stored_and_replaces_others_in_one_commit_that_undo_takes_back(house: JobsHouse) -> None:
    old, also = house.remember(OLD, space="shop"), house.remember("Node 18.19 builds the shop", space="shop")
    before, tree = house.head, house.tree
    done = store(house, NEW, old[:8], also, old)
    assert house.git("rev-list", "--count", f"{before}..HEAD") == "1"
    assert superseded(house, old, done.node_id)
    assert superseded(house, also, done.node_id)
    assert done.replaced == [old, also]
    assert done.near == []
    assert house.found("which node builds the shop", space="shop") == [done.node_id]
    assert done.op is not None
    house.undo(done.op)
    assert house.tree == tree
    assert set(house.found("which node builds the shop", space="shop")) == {old, also}


def test_a_text_that_is_known_already_replaces_others_all_the_same(house: JobsHouse) -> None:
    old, known = house.remember(OLD, space="shop"), store(house, NEW).node_id
    done = store(house, NEW, old)
    assert done.existing
    assert done.node_id == known
    assert done.commit is not None
    assert superseded(house, old, known)
    itself = store(house, NEW, known)
    assert itself.existing
    assert itself.commit is None
    assert not house.row(known).expired(house.now)


def test_what_replaces_a_memory_is_said_afterwards_in_one_commit(house: JobsHouse) -> None:
    old = house.remember(OLD, space="shop")
    new = store(house, NEW).node_id
    before, tree = house.head, house.tree
    done = by(house, old[:8], new[:8], "the build needs fetch")
    assert house.git("rev-list", "--count", f"{before}..HEAD") == "1"
    assert superseded(house, old, new)
    (edge,) = (edge for edge in house.ormah.index.edges(new)[0] if edge.edge is EdgeType.EVOLVED_FROM)
    assert edge.reason == "the build needs fetch"
    twice = by(house, old, new)
    assert not twice.changed
    assert twice.commit is None
    assert done.op is not None
    house.undo(done.op)
    assert house.tree == tree


def test_a_memory_that_was_outdated_before_keeps_its_first_reason(house: JobsHouse) -> None:
    old, new = house.remember(OLD, space="shop"), store(house, NEW).node_id
    outdated(house.ormah, OutdatedParams(node_id=old, reason="end of life"), AGENT)
    house.go(hours=1)
    first = house.row(old).valid_until
    assert by(house, old, new).changed  # the edge is new
    assert house.row(old).outdated_reason == "end of life"
    assert house.row(old).valid_until == first


@pytest.mark.parametrize("way", ["by", "remember", "known", "job"])
def test_the_newest_choice_of_what_replaces_a_memory_counts(house: JobsHouse, way: str) -> None:
    old, other = house.remember(OLD, space="shop"), store(house, "Node 20 is required to build the shop.").node_id
    by(house, old, other)
    since = house.row(old).valid_until
    if way == "remember":
        new = store(house, NEW, old).node_id
    else:
        new = store(house, NEW).node_id
    before = house.head
    if way == "by":
        done = by(house, old, new)
        assert f"({other[:8]}) no longer replaces it" in done.text
    elif way == "known":
        store(house, NEW, old)
    elif way == "job":
        house.go(seconds=1)
        apply(
            house.ormah,
            conflict_change(house.ormah, new, old, "evolution", reason="a newer release", body=""),
            AGENT,
            run=None,
        )
    assert superseded(house, old, new)
    assert house.row(old).valid_until == since, "it has been outdated from the first time on"
    assert evolved(house, other) == (set() if way == "by" else {old}), "one memory may be replaced by two"
    if way == "by":
        assert house.git("rev-list", "--count", f"{before}..HEAD") == "1"
        assert not by(house, old, new).changed
        assert by(house, old, other).changed
        assert superseded(house, old, other)
        assert evolved(house, new) == set()


def test_what_cannot_replace_is_refused_by_name_and_nothing_is_changed(house: JobsHouse) -> None:
    old = house.remember(OLD, space="shop")
    house.go(days=3)
    new = store(house, NEW).node_id
    me = house.ormah.vault.self_id
    head = house.head
    with pytest.raises(BadRequest, match="cannot replace itself"):
        by(house, old, old)
    with pytest.raises(BadRequest, match="exclude each other"):
        by(house, old, new, revoke=True)
    with pytest.raises(BadRequest, match="the self node"):
        by(house, me, new)
    with pytest.raises(BadRequest, match="the self node"):
        store(house, "The user is somebody else now.", me)
    with pytest.raises(BadRequest, match="it cannot have replaced it"):
        by(house, new, old)
    with pytest.raises(NotFound):
        by(house, old, "ffffffff")
    with pytest.raises(NotFound):
        store(house, "Node 24 is required.", "ffffffff")
    assert house.head == head
    by(house, old, new)
    with pytest.raises((BadRequest, Conflict)):
        by(house, new, old)


def again(house: JobsHouse, older: str) -> WriteResult:
    house.go(seconds=1)
    return outdated(house.ormah, OutdatedParams(node_id=older, revoke=True), AGENT)


def evolved(house: JobsHouse, newer: str) -> set[str]:
    return {edge.target for edge in house.ormah.index.edges(newer)[0] if edge.edge is EdgeType.EVOLVED_FROM}


@pytest.mark.parametrize("way", ["by", "by after a first mark", "remember", "job"])
def test_a_revoked_mark_takes_its_edge_back_in_one_commit(house: JobsHouse, way: str) -> None:
    old = house.remember(OLD, space="shop")
    if way == "remember":
        new = store(house, NEW, old).node_id
    elif way == "job":
        new = store(house, NEW).node_id
        apply(
            house.ormah,
            conflict_change(house.ormah, new, old, "evolution", reason="a newer release", body=""),
            AGENT,
            run=None,
        )
    else:
        if way == "by after a first mark":
            outdated(house.ormah, OutdatedParams(node_id=old, reason="end of life"), AGENT)
        new = store(house, NEW).node_id
        by(house, old, new)
    assert evolved(house, new) == {old}
    before = house.head
    done = again(house, old)
    assert house.git("rev-list", "--count", f"{before}..HEAD") == "1"
    assert f"({new[:8]}) no longer replaces it" in done.text
    assert evolved(house, new) == set()
    assert "evolved_from" not in house.path(new).read_text()
    assert not house.row(old).expired(house.now)
    assert not again(house, old).changed
    assert done.op is not None
    house.undo(done.op)
    assert evolved(house, new) == {old}
    assert house.row(old).expired(house.now)


def test_an_edge_that_was_connected_outlives_a_revoked_mark(house: JobsHouse) -> None:
    old, new = house.remember(OLD, space="shop"), store(house, NEW).node_id
    third = store(house, "Node 20 is required to build the shop.").node_id
    for source in (new, third):
        house.go(seconds=1)
        connect(
            house.ormah, ConnectParams(source_id=source, target_id=old, edge=EdgeType.EVOLVED_FROM, weight=0.9), AGENT
        )
    by(house, old, new)
    assert again(house, old).changed
    assert (evolved(house, new), evolved(house, third)) == ({old}, {old})
    assert not house.row(old).expired(house.now)
