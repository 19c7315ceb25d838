"""Of two memories on one thing the newer comes first and the older one is marked, at once and by ranking alone."""

from __future__ import annotations

import pytest

from ormahd.actions.amend import PERSON, Caller
from ormahd.actions.lookup import get
from ormahd.actions.recall import recall, search
from ormahd.actions.views import replaced_today
from ormahd.api import NodeParams, RecallHit, RecallParams
from ormahd.jobs.conflicts.job import ConflictDetector
from ormahd.jobs.runner import Runner
from ormahd.model.node import SearchQuery
from ormahd.state import whispers
from ormahd.state.whispers import Considered
from ormahd.whisper.greet import greet
from ormahd.whisper.review import pick_review
from tests.contract.conftest import unlinked
from tests.jobs_house import JobsHouse

OLD, NEW = "Deploys of the shop happen on Fridays", "Deploys of the shop happen on Tuesdays now"
QUESTION = "deploys of the shop happen on fridays"
"""The older memory's own words, so that the newer one would be second."""


house = unlinked


def hits(house: JobsHouse, limit: int = 5, query: str = QUESTION) -> list[RecallHit]:
    return search(house.ormah, SearchQuery(query=query, limit=limit), space="shop").results


def two(house: JobsHouse, **more: object) -> tuple[str, str]:
    """(newer, older)."""
    older = house.remember(OLD, space="shop", **more)
    house.go(days=10)
    return house.remember(NEW, space="shop"), older


def test_the_newer_one_stands_first_and_the_older_one_is_marked(house: JobsHouse) -> None:
    house.remember("The shop sells tea and cups", space="shop")
    newer, older = two(house)
    found = hits(house)
    assert [(hit.id, hit.older_than) for hit in found[:2]] == [(newer, None), (older, newer)]
    assert found[0].score >= found[1].score
    assert f"older than {newer[:8]}" in search(house.ormah, SearchQuery(query=QUESTION), space="shop").text


def test_the_newer_one_is_brought_in_where_the_limit_left_it_out(house: JobsHouse) -> None:
    newer, _ = two(house)
    assert [hit.id for hit in hits(house, limit=1)] == [newer]


def test_what_holds_beside_it_is_not_marked(house: JobsHouse) -> None:
    house.remember("Deploys of the shop happen on Fridays", space="shop")
    house.go(days=10)
    house.remember("Deploys of the bakery happen on Tuesdays", space="shop")
    assert [hit.older_than for hit in hits(house)] == [None, None]


def test_another_space_replaces_nothing(house: JobsHouse) -> None:
    house.remember(OLD, space="shop")
    house.go(days=10)
    house.remember(NEW, space="bakery")
    assert [hit.older_than for hit in hits(house)] == [None, None]


def test_a_rejected_conflict_is_no_reason_to_mark(house: JobsHouse) -> None:
    newer, older = two(house)
    house.run(ConflictDetector())
    runner = Runner(house.ormah, [ConflictDetector()])
    (shown,) = runner.proposals.list().proposals
    runner.proposals.resolve(shown.id, "rejected", Caller(PERSON))
    assert {hit.id: hit.older_than for hit in hits(house)} == {newer: None, older: None}
    house.undo(house.head)
    assert {hit.id: hit.older_than for hit in hits(house)} == {newer: None, older: newer}


def test_an_edit_is_seen_at_once(house: JobsHouse) -> None:
    newer, older = two(house)
    house.update(newer, content="Deploys of the bakery happen on Tuesdays")
    assert {hit.id: hit.older_than for hit in hits(house)} == {newer: None, older: None}


CHAIN = ("The API listens on port 8080.", "The API listens on port 9090 now.", "The API listens on port 7070 now.")


@pytest.mark.parametrize("asked", CHAIN)
def test_of_three_the_one_in_between_is_marked_too(house: JobsHouse, asked: str) -> None:
    """What the last two say of each other leaves it open; that both replaced the first one's value does not."""
    ids = []
    for text in CHAIN:
        ids.append(house.remember(text, space="shop"))
        house.go(days=10)
    found = {hit.id: hit.older_than for hit in hits(house, query=asked)}
    assert found == {ids[0]: ids[2], ids[1]: ids[2], ids[2]: None}
    assert [replaced_today(house.ormah, [one]).get(one) for one in ids] == [ids[2], ids[2], None]


EDITED = "Deploys of the shop happen on Thursdays"


@pytest.mark.parametrize("by", ["agent", "person"])
def test_what_was_edited_since_is_the_newer_one(house: JobsHouse, by: str) -> None:
    made_last, made_first = two(house)
    house.go(days=10)
    if by == "agent":
        house.update(made_first, content=EDITED)
    else:
        house.type_into(made_first, OLD, EDITED)
    assert {hit.id: hit.older_than for hit in hits(house)} == {made_first: None, made_last: made_first}
    assert hits(house)[0].id == made_first
    house.go(days=10)
    house.update(made_last, content="Deploys of the shop happen on Mondays now")
    assert {hit.id: hit.older_than for hit in hits(house)} == {made_first: made_last, made_last: None}


def test_an_edit_that_is_not_about_the_matter_makes_nothing_newer(house: JobsHouse) -> None:
    newer, older = two(house)
    house.go(days=10)
    house.update(older, content=OLD + ".")
    house.update(older, tier="core")
    house.update(older, tags=["deploys"])
    assert {hit.id: hit.older_than for hit in hits(house)} == {newer: None, older: newer}


def test_an_edit_that_was_taken_back_makes_nothing_newer(house: JobsHouse) -> None:
    newer, older = two(house)
    house.go(days=10)
    house.update(older, content=EDITED)
    house.undo(house.ormah.history.ops()[0].op or "")
    assert {hit.id: hit.older_than for hit in hits(house)} == {newer: None, older: newer}


def test_as_of_a_time_only_the_edits_until_then_count(house: JobsHouse) -> None:
    def then(commit: str) -> dict[str, str | None]:
        found = recall(house.ormah, RecallParams(query=QUESTION, as_of=commit, space="shop"), Caller()).results
        return {hit.id: hit.older_than for hit in found}

    made_last, made_first = two(house)
    before = house.head
    house.go(days=10)
    house.update(made_first, content=EDITED)
    edited = house.head
    house.go(days=10)
    house.update(made_last, content="Deploys of the shop happen on Mondays now")
    assert then(before) == {made_first: made_last, made_last: None}
    assert then(edited) == {made_first: None, made_last: made_first}
    assert then(house.head) == {made_first: made_last, made_last: None}


def test_show_and_greeting_mark_it_and_the_review_leaves_it_alone(house: JobsHouse) -> None:
    newer, older = two(house, tier="core")
    shown = get(house.ormah, NodeParams(node_id=older))
    assert shown.older_than == newer
    assert f"older than {newer[:8]}, which seems to replace it" in shown.text
    assert get(house.ormah, NodeParams(node_id=newer)).older_than is None
    said = greet(house.ormah, space="shop", known=())
    assert f"older than {newer[:8]}" in said.text
    for held in (older, newer):
        vector = house.ormah.index.embed_query("how do we deploy the payment service")
        assert vector is not None
        whispers.record(
            house.ormah.state, prompt="how do we deploy the payment service", outcome="gate", milliseconds=1.0, vector=vector.vector,
            model="hashing", candidates=[Considered(held, 0.6, 0.6)], space="shop", session_id="s",
        )  # fmt: skip
    asked = [pick_review(house.ormah, "shop", now=house.now, besides=besides) for besides in ((), (newer,))]
    assert [None if one is None else one.node_id for one in asked] == [newer, None]
