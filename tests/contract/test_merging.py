"""Two memories become one: what of them stays, where links lead then, and that it can be taken back (real git)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from ormahd.actions.amend import Caller
from ormahd.actions.connect import connect
from ormahd.actions.looking_back import merges
from ormahd.actions.outdated import outdated
from ormahd.api import ConnectParams, MergesParams, OutdatedParams
from ormahd.errors import BadRequest, InvalidNote, NotFound
from ormahd.jobs.duplicates.change import from_payload, keeper, merge
from ormahd.jobs.duplicates.job import taken_back
from ormahd.jobs.job import PlannedChange, apply
from ormahd.model.node import ABOUT_SELF, EdgeType, Tier
from ormahd.note.edit import edit
from ormahd.note.read import parse
from ormahd.note.values import NoteLink
from tests.jobs_house import AGENT, JobsHouse, open_jobs_house

JOB = Caller("job:duplicate_merger")


def unite(house: JobsHouse, keep: str, gone: str, **how: Any) -> PlannedChange:
    """Return the change that merges two memories, by their ids."""
    rows = [house.ormah.index.note(node_id) for node_id in (keep, gone)]
    return merge(house.ormah, *rows, **({"title": None, "content": None, "body": "", "across": False} | how))


@dataclass
class Kitchen:
    """Two tellings of one thing, and memories around them."""

    house: JobsHouse
    keep: str
    gone: str
    others: dict[str, str]

    def link(self, source: str, edge: EdgeType, target: str, weight: float = 0.5, reason: str | None = None) -> None:
        self.house.go(minutes=1)
        connect(
            self.house.ormah,
            ConnectParams(source_id=source, target_id=target, edge=edge, weight=weight, reason=reason),
            AGENT,
        )

    def merge(self, **how: Any) -> str:
        """The op."""
        self.house.go(minutes=1)
        change = unite(self.house, self.keep, self.gone, body="they say the same\ncosine 0.97", **how)
        done = apply(self.house.ormah, change, JOB, run="run1")
        assert done is not None
        assert done.op is not None
        assert self.house.ormah.verify() == []
        return done.op

    def edges(self) -> set[tuple[str, str, str, float, str | None]]:
        names = {node: name for name, node in self.others.items()} | {self.keep: "keep", self.gone: "gone"}
        names[self.house.ormah.vault.self_id] = "me"
        return {  # the hashing model links some by itself
            (names[edge.source], edge.edge.value, names[edge.target], edge.weight, edge.reason)
            for edge in self.house.ormah.index.edges_of() if {edge.source, edge.target} <= set(names)
        }  # fmt: skip

    def links(self, node_id: str) -> set[tuple[str, str, bool]]:
        return {(one.edge.value, one.target, one.body) for one in parse(self.house.data(node_id), "x.md").links}

    def name(self, node_id: str) -> str:
        return self.house.path(node_id).stem


@pytest.fixture
def kitchen() -> Iterator[Kitchen]:
    with open_jobs_house() as house:
        keep = house.remember("The kettle in the kitchen is blue and holds two litres.", title="Kettle", tags=["blue"])
        gone = house.remember("The kitchen's kettle is blue.", title="Blue kettle", tags=["Blue", "tea"])
        others = {
            name: house.remember(f"A {name} stands there", title=name.capitalize()) for name in ("stove", "cup", "tap")
        }
        yield Kitchen(house, keep, gone, others)


def test_a_merge_that_changes_nothing_of_the_keeper_names_both() -> None:
    with open_jobs_house() as house:
        gone = house.remember("Boil enough water for both cups.")
        keep = house.remember("The kettle holds two litres.")
        before = house.data(keep)
        apply(house.ormah, unite(house, keep, gone, body="the same"), JOB, run="run1")
        assert house.data(keep) == before
        (row,) = merges(house.ormah, MergesParams(limit=5)).merges
        assert (row.kept, row.kept_title, row.removed) == (keep, "The kettle holds two litres.", gone)
        house.undo(row.id)
        assert taken_back(house.ormah) == {frozenset({keep, gone})}, "so it is not merged again"


def test_the_keeper_stays_and_takes_in_tags_tier_and_certainty(kitchen: Kitchen) -> None:
    house = kitchen.house
    house.update(kitchen.keep, confidence=0.6, tier=Tier.ARCHIVAL)
    before, path = house.row(kitchen.keep), house.path(kitchen.keep)
    op = kitchen.merge()
    after = house.row(kitchen.keep)
    assert (after.id, after.created, house.path(kitchen.keep)) == (before.id, before.created, path)
    assert (after.title, after.content, after.source) == (before.title, before.content, before.source)
    assert (after.tags, after.tier, after.confidence) == (("blue", "tea"), Tier.WORKING, 1.0)
    assert after.updated > before.updated
    with pytest.raises(NotFound):
        house.row(kitchen.gone)
    said = house.git("show", "-s", "--format=%B", "HEAD")
    assert said.startswith("Merge: “Blue kettle” into “Kettle”\n\nthey say the same\ncosine 0.97\nKept ")
    assert f"Ormah-Op: {op}\nOrmah-Kind: merge\nOrmah-Source: job:duplicate_merger\nOrmah-Run: run1\n" in said
    assert f"Ormah-Nodes: {kitchen.keep} {kitchen.gone}" in said
    assert house.git("rev-list", "--count", "HEAD~1..HEAD") == "1"


def test_a_title_is_taken_over_where_there_was_none(kitchen: Kitchen) -> None:
    kitchen.house.update(kitchen.keep, title=None)
    kitchen.merge()
    assert kitchen.house.row(kitchen.keep).title == "Blue kettle"


def test_edges_of_both_are_united_in_both_directions(kitchen: Kitchen) -> None:
    stove, cup, tap = (kitchen.others[name] for name in ("stove", "cup", "tap"))
    kitchen.link(kitchen.keep, EdgeType.PART_OF, stove, 0.3, "old")
    kitchen.link(
        kitchen.gone, EdgeType.PART_OF, stove, 0.9, "new"
    )  # the same edge twice: the larger weight, the first reason
    kitchen.link(kitchen.gone, EdgeType.DEPENDS_ON, tap, 0.8, "water")
    kitchen.link(cup, EdgeType.SUPPORTS, kitchen.gone, 0.7, "pours")
    kitchen.link(cup, EdgeType.SUPPORTS, kitchen.keep, 0.2)
    kitchen.link(tap, EdgeType.PART_OF, kitchen.gone, 0.6)
    kitchen.link(kitchen.gone, EdgeType.SUPPORTS, kitchen.keep, 0.9)  # would lead to itself
    kitchen.link(kitchen.keep, EdgeType.RELATED_TO, kitchen.gone, 0.9)
    created = {
        edge.target: edge.created for edge in kitchen.house.ormah.index.edges_of([kitchen.keep]) if edge.weight == 0.3
    }
    kitchen.merge()
    assert kitchen.edges() == {
        ("keep", "part_of", "stove", 0.9, "old"), ("keep", "depends_on", "tap", 0.8, "water"),
        ("cup", "supports", "keep", 0.7, "pours"), ("tap", "part_of", "keep", 0.6, None),
    }  # fmt: skip
    (one,) = [edge for edge in kitchen.house.ormah.index.edges_of([stove]) if edge.target == stove]
    assert one.created == created[stove], "the earlier creation"


def test_links_in_texts_lead_to_the_keeper_and_read_as_before(kitchen: Kitchen) -> None:
    house, gone, keep = kitchen.house, kitchen.name(kitchen.gone), kitchen.name(kitchen.keep)
    house.type_into(
        kitchen.others["cup"], "A cup", f"See [[{gone}]], [[{gone}#Use|its use]] and [[Blue kettle]]. A cup"
    )
    house.type_into(kitchen.keep, "The kettle", f"As [[{gone}]] or [[{gone}|it]] says, the kettle")
    house.type_into(kitchen.gone, "is blue", f"is blue like [[{kitchen.name(kitchen.others['stove'])}]]")
    kitchen.merge()
    assert (
        f"See [[{keep}]], [[{keep}#Use|its use]] and [[{keep}|Blue kettle]]. A cup"
        in house.data(kitchen.others["cup"]).decode()
    )
    assert house.row(kitchen.keep).content.startswith("As Blue kettle or it says, the kettle")
    assert kitchen.edges() == {("cup", "related_to", "keep", 0.5, None), ("keep", "related_to", "stove", 0.5, None)}
    assert house.ormah.index.unresolved() == []


def test_what_defines_the_user_goes_on_defining_them(kitchen: Kitchen) -> None:
    house = kitchen.house
    gone = house.remember("Drinks tea at four from the kettle", about_self=True, tags=["tea"], space=None)
    keep = house.remember("Drinks tea at four o'clock from the blue kettle", space=None)
    kitchen.keep, kitchen.gone = keep, gone
    assert ("me", "defines", "gone", 1.0, None) in kitchen.edges()
    kitchen.merge()
    assert ("me", "defines", "keep", 1.0, None) in kitchen.edges()
    assert set(house.row(keep).tags) == {"tea", ABOUT_SELF}
    assert house.ormah.vault.self_id in house.git("show", "-s", "--format=%B", "HEAD"), "neighbours are named"


@pytest.mark.parametrize("by", ["undo", "revert"])
def test_it_can_be_taken_back_with_edits_in_between(kitchen: Kitchen, by: str) -> None:
    house, cup = kitchen.house, kitchen.others["cup"]
    kitchen.link(cup, EdgeType.SUPPORTS, kitchen.gone, 0.7, "pours")
    kitchen.link(kitchen.gone, EdgeType.PART_OF, kitchen.others["stove"], 0.4)
    before = {node: house.data(node) for node in (kitchen.keep, kitchen.gone, cup)}
    tree = house.tree
    op = kitchen.merge(title="The blue kettle")
    commit = house.head
    (row,) = merges(house.ormah, MergesParams(limit=5)).merges
    assert (row.kept, row.removed, row.removed_title, row.undone_by) == (
        kitchen.keep,
        kitchen.gone,
        "Blue kettle",
        None,
    )
    assert row.reason.startswith("they say the same\ncosine 0.97")
    house.type_into(cup, "A cup", "A small cup")
    house.type_into(kitchen.keep, "two litres.", "two litres.\n\nA later word of mine.")
    if by == "undo":
        house.undo(op)
    else:
        house.revert(commit)
    assert house.data(kitchen.gone) == before[kitchen.gone]
    assert house.data(cup) == before[cup].replace(b"A cup", b"A small cup")
    assert house.data(kitchen.keep) == before[kitchen.keep].replace(b"litres.", b"litres.\n\nA later word of mine.")
    house.type_into(cup, "A small cup", "A cup")
    house.type_into(kitchen.keep, "\n\nA later word of mine.", "")
    assert house.tree == tree
    (row,) = merges(house.ormah, MergesParams(limit=5)).merges
    assert row.undone_by is not None


def test_what_cannot_be_one(kitchen: Kitchen) -> None:
    house = kitchen.house
    me = house.ormah.vault.self_id
    elsewhere = house.remember("The kettle is blue", space="office")
    old = house.remember("The kettle is red, of old")
    outdated(house.ormah, OutdatedParams(node_id=old, reason="painted"), AGENT)
    kitchen.link(kitchen.others["cup"], EdgeType.CONTRADICTS, kitchen.keep)
    kitchen.link(kitchen.keep, EdgeType.EVOLVED_FROM, kitchen.others["tap"])
    head = house.head
    for keep, gone, why in (
        (kitchen.keep, me, "self node"), (me, kitchen.keep, "self node"), (kitchen.keep, kitchen.keep, "one memory"),
        (kitchen.keep, elsewhere, "two spaces"), (kitchen.keep, old, "outdated"), (old, kitchen.keep, "outdated"),
        (kitchen.keep, kitchen.others["cup"], "contradict"), (kitchen.others["tap"], kitchen.keep, "before it changed"),
    ):  # fmt: skip
        with pytest.raises(BadRequest, match=why):
            unite(house, keep, gone)
    with pytest.raises(NotFound):
        unite(house, kitchen.keep, "97acbe8e-6d0a-4c1e-9a55-0a52b0f4f9d1")
    with pytest.raises(BadRequest, match="without text"):
        unite(house, kitchen.keep, kitchen.gone, content=" \n")
    assert house.head == head


def test_a_neighbour_that_cannot_be_edited_safely_drops_the_merge(kitchen: Kitchen) -> None:
    house, cup = kitchen.house, kitchen.others["cup"]
    link = f'supports: &a ["[[{kitchen.name(kitchen.gone)}]]"]'
    house.type_into(cup, "source:", f"{link}\nalso: *a\nsource:")  # the anchor is used elsewhere
    assert ("cup", "supports", "gone", 0.5, None) in kitchen.edges()
    head = house.head
    change = unite(house, kitchen.keep, kitchen.gone)
    with pytest.raises(InvalidNote, match="would no longer be a readable note"):
        apply(house.ormah, change, JOB, run=None)
    assert house.head == head


def test_an_approved_proposal_may_cross_spaces(kitchen: Kitchen) -> None:
    house = kitchen.house
    elsewhere = house.remember("The kettle is blue", space="office")
    change = from_payload(
        house.ormah, {"keep_id": kitchen.keep, "remove_id": elsewhere, "title": None, "content": None}
    )
    assert apply(house.ormah, change, Caller("person"), run=None) is not None


def test_which_is_kept(kitchen: Kitchen) -> None:
    house = kitchen.house
    row = house.row
    a, b = house.remember("Short one, it is"), house.remember("Longer text, it really is")
    assert keeper(row(a), row(b))[0].id == b
    house.update(a, tier=Tier.CORE)
    assert keeper(row(a), row(b))[0].id == a
    c, d = house.remember("Equal 1"), house.remember("Equal 2")
    assert keeper(row(c), row(d))[0].id == d, "later updated"
    house.update(c, confidence=0.5)
    assert keeper(row(c), row(d))[0].id == c
    assert keeper(row(d), row(c))[0].id == c


def test_links_that_lead_nowhere_yet_are_kept(kitchen: Kitchen) -> None:
    house = kitchen.house
    path = house.path(kitchen.gone)
    path.write_bytes(
        edit(path.read_bytes(), "x.md", link=[NoteLink(EdgeType.SUPPORTS, "Not there yet", 0.8, None, "soon")])
    )
    house.ormah.reconciler.scan()
    kitchen.merge()
    assert ("supports", "Not there yet", False) in kitchen.links(kitchen.keep)
