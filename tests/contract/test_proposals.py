"""Proposals: kept once, listed, named by their ids, stale when a memory says something else, and forgotten."""

from __future__ import annotations

import pytest

from ormahd.actions.purge import purge
from ormahd.actions.views import iso
from ormahd.api import PurgeParams
from ormahd.errors import Ambiguous, BadRequest, Conflict, NotFound, OrmahError
from ormahd.model.decision import FOLDER
from ormahd.model.node import ProposalType
from ormahd.state import proposals as book
from tests.contract import jobs_house
from tests.contract.jobs_house import ME, House, ask, asking, open_house
from tests.contract.proposing import lines as _lines
from tests.contract.proposing import only, propose, resolve, say, statuses

house = jobs_house.house


# Kept once


def test_what_is_listed(house: House) -> None:
    one, two = house.several(2)
    head, before = house.head, house.files()
    assert propose(house, one, two) == 1
    assert (house.head, house.files()) == (head, before), "a proposal changes nothing"
    found = only(house)
    assert (found.type, found.status, found.source_nodes, found.resolved_by) == (
        ProposalType.MERGE,
        "pending",
        [one, two],
        None,
    )
    assert (found.proposed_action, found.reason) == ("Tag “Memory number 00” as asked", "they look alike")
    assert (found.preview, found.evidence) == ("tags: asked", {"cosine": 0.81})
    assert (found.created, found.resolved, found.op) == (iso(house.now), None, None)
    assert [node.id for node in found.nodes] == [one, two]


def test_never_doubled(house: House) -> None:
    one, two, three = house.several(3)
    assert propose(house, one, two) == 1
    assert propose(house, two, one, word="the other way round") == 0
    assert propose(house, one, three) == 1
    assert propose(house, one, two, type=ProposalType.CONFLICT) == 1, "another thing to do with the same two"
    say(house, three, tags=["green"])
    assert propose(house, one, three) == 0, "they say what they said"
    say(house, three, content="Something else")
    assert propose(house, one, three) == 1
    assert statuses(house).count("pending") == 3


def test_newest_first_of_a_status_and_type(house: House) -> None:
    one, two, three = house.several(3)
    for ids, kind in (
        ((one, two), ProposalType.MERGE),
        ((two, three), ProposalType.CONFLICT),
        ((three,), ProposalType.DECAY),
    ):
        house.go(minutes=1)
        propose(house, *ids, type=kind)
    assert [one.type for one in house.proposals.list().proposals] == ["decay", "conflict", "merge"]
    assert [one.type for one in house.proposals.list(limit=1).proposals] == ["decay"]
    assert [one.type for one in house.proposals.list(type="conflict").proposals] == ["conflict"]
    assert house.proposals.list(status="rejected").proposals == []
    with pytest.raises(BadRequest, match="status is 'open'"):
        house.proposals.list(status="open")
    with pytest.raises(BadRequest, match="type is 'link'"):
        house.proposals.list(type="link")


def test_as_many_as_a_person_can_look_at() -> None:
    with open_house() as house:
        house.proposals_at_a_time = 2
        ids = house.several(25)
        for node_id in ids[:5]:
            house.go(minutes=1)
            propose(house, node_id)
        found = house.proposals.list()
        assert [one.source_nodes for one in found.proposals] == [[ids[1]], [ids[0]]], "the oldest come first"
        assert (found.pending, found.behind) == (5, 3)
        house.proposals.resolve(found.proposals[0].id, "rejected", ME)
        assert [one.source_nodes for one in house.proposals.list().proposals] == [[ids[2]], [ids[0]]]
        (ran,) = house.runs(asking(*(ask(house.ormah, one) for one in ids[5:])))
        assert (ran.asked, ran.more) == (16, True), "20 wait: the job stops there"
        assert "too many proposals wait" in ran.dropped[-1]


# Stale


def test_a_memory_that_says_something_else_makes_it_stale_and_back_again_fresh(house: House) -> None:
    one, two = house.several(2)
    propose(house, one, two)
    proposal, head = only(house).id, None
    house.go(minutes=1)
    say(house, two, content="It says something else")
    head = house.head
    with pytest.raises(Conflict, match="is stale: one of its memories says something else by now") as caught:
        house.proposals.resolve(proposal, "approved", ME)
    assert caught.value.data["status"] == "stale"
    assert (house.head, statuses(house), house.tags(one)) == (head, ["stale"], ())
    say(house, two, content="Memory number 01")
    assert statuses(house) == ["pending"]


# Ids


def test_ids(house: House) -> None:
    one, two = house.several(2)
    for number, ids in enumerate(((one, two), (one,), (two,))):
        node_id = f"abcd{number // 2}{number}00-0000-4000-8000-000000000000"
        book.keep(
            house.ormah.state,
            book.StoredProposal(
                node_id, ProposalType.MERGE, "pending", str(number), ids, "a", "r", "", {}, {}, "run", house.now
            ),
        )
    for prefix, error in (
        ("abc", BadRequest), ("abcd*", BadRequest), ("../../etc", BadRequest), ("%%%%", BadRequest), ("", BadRequest),
        ("beef", NotFound), ("abcd", Ambiguous), ("ABCD0", Ambiguous),
    ):  # fmt: skip
        with pytest.raises(error):
            house.proposals.resolve(prefix, "approved", ME)
    with pytest.raises(OrmahError) as caught:
        house.proposals.resolve("abcd0", "approved", ME)
    assert len(caught.value.data["ids"]) == 2
    with pytest.raises(BadRequest, match="action is 'maybe'"):
        house.proposals.resolve("abcd1", "maybe", ME)
    assert book.find(house.ormah.state, "ABCD1").nodes == (two,)


# Lines that somebody wrote, and a purge


def test_a_line_that_cannot_be_read_is_named_and_left(house: House) -> None:
    one, two = house.several(2)
    propose(house, one, two)
    resolve(house, "rejected")
    file = next((house.vault / FOLDER).glob("*.jsonl"))
    file.write_text(file.read_text() + "not ours\n")
    house.ormah.reconciler.scan()
    assert house.proposals.bad_lines() == [(f"{FOLDER}/2026-11.jsonl", 2, "it is no JSON")]
    assert statuses(house) == ["rejected"]
    propose(house, one)
    resolve(house, "rejected")
    assert file.read_text().endswith("not ours\n")


def test_a_purge_leaves_no_word_of_what_was_decided(house: House) -> None:
    one, two, three = house.several(3)
    for ids in ((one, two), (two, three)):
        house.go(minutes=1)
        propose(house, *ids)
        resolve(house, "rejected")
    propose(house, one)
    purge(house.ormah, PurgeParams(node_id=one), ME, lambda *_: None)
    assert [line["nodes"] for line in _lines(house)] == [sorted([two, three])]
    found = house.proposals.list(status="all").proposals
    assert [shown.source_nodes for shown in found] == [[two, three]]
    assert one not in house.git("log", "--all", "-p")
    with house.ormah.state.transaction() as db:
        assert not any(one in line for line in db.iterdump())
    house.sound()
