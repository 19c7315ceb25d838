"""Ranking on a real index (hashed words instead of a model): what is found, what never is, and numbers that add up."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ormahd.model.node import EdgeType, NodeType, SearchQuery, Strength, Tier
from ormahd.note.values import NoteLink
from ormahd.search.fuse import MAX_PER_SEED
from ormahd.search.gather import Trace
from ormahd.search.search import Hit, Ranked, Rules, rank
from tests.contract.index_notes import NOW, apply, node_id, note, open_index

LONG_AGO = NOW - timedelta(days=400)
TEXT_ONLY = "harbor light?"
"""A question: there the fused rank, which parts notes of equal text by their ids, has no say."""


class House:
    """An index, and a short way to ask it."""

    def __init__(self, directory: Path) -> None:
        self.index = open_index(directory, attach=True)
        self.files: dict[str, bytes] = {}

    def put(self, number: int, content: str, *, links: Sequence[NoteLink] = (), **fields: Any) -> str:
        self.files[f"n{number}_{node_id(number)[:8]}.md"] = note(number, content, links=links, **fields)
        return node_id(number)

    def settle(self) -> None:
        apply(self.index, self.files)
        self.index.wait_filled(30.0)

    def ask(self, query: str, *, words_only: bool = False, space: str | None = None, now: datetime = NOW, rules: Rules | None = None, **how: Any) -> Ranked:  # fmt: skip
        embedder = self.index.embedder
        assert embedder is not None
        return rank(
            self.index, SearchQuery(query=query, **how), embed=lambda text: None if words_only else embedder.embed_query(text),
            space=space, now=now, rules=rules or Rules(),
        )  # fmt: skip


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    made = House(tmp_path)
    yield made
    made.index.close()


def ids(ranked: Ranked) -> list[str]:
    return [hit.node_id for hit in ranked.results]


def numbers_add_up(hit: Hit | dict[str, Any]) -> None:
    shown = hit.trace if isinstance(hit, Hit) else hit
    again = Trace(shown["node_id"], {name: value for name, value in shown.items() if isinstance(value, float)})
    assert again.recompute() == shown["score"]


def test_the_score_follows_from_the_trace_alone(house: House) -> None:
    edge = NoteLink(EdgeType.SUPPORTS, node_id(1), weight=0.9)
    house.put(0, "the harbor cache keeps old avatars for an hour", title="Harbor cache", links=[edge], tier=Tier.CORE)
    house.put(1, "pictures are scaled in the worker", space="web", confidence=0.5)
    for number in range(2, 30):
        house.put(number, f"note {number} on the harbor and something else", space="web" if number % 2 else None)
    house.settle()
    house.index.strength = {node_id(0): Strength(access_count=9, use_count=7, last_accessed=NOW - timedelta(days=3))}
    for words_only in (False, True):
        found = house.ask("harbor cache", space="web", limit=5, words_only=words_only)
        assert found.results[0].node_id == node_id(0)
        for one in [*found.results, *found.trace["dropped"]]:
            numbers_add_up(one)
        assert all(one["dropped"] for one in found.trace["dropped"])
        assert all(0.0 < hit.score <= 1.0 for hit in found.results)
    assert {hit.source for hit in found.results} <= {"search", "activated"}


def test_without_vectors_words_answer_and_say_so(house: House) -> None:
    house.put(0, "the deployment runs on Fridays")
    house.put(1, "tea instead of coffee")
    house.settle()
    found = house.ask("deployment", words_only=True)
    assert ids(found) == [node_id(0)]
    assert found.degraded == ["vectors"]
    assert not {"cosine", "late"} & found.results[0].numbers.keys()
    full = house.ask("deployment")
    assert full.degraded == []
    assert {"cosine", "late"} <= full.results[0].numbers.keys()


def test_every_word_only_match_is_kept(house: House) -> None:
    for number in range(8):
        house.put(number, f"harbor {'lorem ' * number}")
    house.settle()
    assert len(house.ask("harbor", words_only=True).results) == 8


def test_a_filter_never_starves(house: House) -> None:
    for number in range(400):
        house.put(number, f"harbor light number {number}", space="big")
    few = [
        house.put(number, f"harbor, though with much else around it {number}", space="small") for number in (900, 901)
    ]
    alone = house.put(902, "harbor without a project")
    tagged = house.put(903, "harbor that is tagged", space="big", tags=["Blue"], type=NodeType.GOAL, tier=Tier.CORE)
    house.settle()
    assert sorted(ids(house.ask("harbor light", spaces=["small"]))) == sorted(few)
    assert ids(house.ask("harbor light", spaces=["global"])) == [alone]
    assert ids(house.ask("harbor light", tags=["red", "blue"])) == [tagged]
    assert ids(house.ask("harbor light", types=[NodeType.GOAL])) == [tagged]
    assert ids(house.ask("harbor light", tiers=[Tier.CORE])) == [tagged]
    assert house.ask("harbor light", spaces=[]).results == []


def test_time_bounds_are_times_and_the_expired_are_gone(house: House) -> None:
    old = house.put(0, "harbor once", created=LONG_AGO)
    new = house.put(1, "harbor now", created=NOW - timedelta(hours=1))
    house.put(2, "harbor that is no longer true", valid_until=NOW - timedelta(seconds=1))
    later = house.put(3, "harbor that ends tomorrow", created=LONG_AGO, valid_until=NOW + timedelta(days=1))
    house.settle()
    assert set(ids(house.ask("harbor"))) == {old, new, later}
    assert ids(house.ask("harbor", created_after=NOW - timedelta(days=1))) == [new]
    assert set(ids(house.ask("harbor", created_before="2026-11-20"))) == {old, later}


def test_what_a_question_names_the_kind_of_is_a_little_favoured(house: House) -> None:
    """ "What did we decide" prefers decisions, in a time and about a thing; it leaves nothing else out."""
    last_week = NOW - timedelta(days=9)
    seen = house.put(1, "the kettle in the kitchen", type=NodeType.OBSERVATION, created=last_week + timedelta(hours=1))
    decided = house.put(2, "the kettle in the kitchen", type=NodeType.DECISION, created=last_week)
    better = house.put(3, "the blue kettle in the kitchen beside the stove", type=NodeType.FACT, created=LONG_AGO)
    house.settle()
    alone = house.ask("what did we decide last week?")
    assert ids(alone) == [decided, seen]
    assert ids(house.ask("what happened last week?")) == [seen, decided]
    assert ids(house.ask("what did we decide last week?", types=[NodeType.OBSERVATION])) == [seen]
    plain, about = house.ask("the kettle in the kitchen"), house.ask("which decision was it, the kettle in the kitchen")
    assert [one for one in ids(plain) if one != better] == [seen, decided], "of equal texts the newer one first"
    assert [one for one in ids(about) if one != better] == [decided, seen]
    for hit in about.results:
        numbers_add_up(hit)
    assert ids(house.ask("decision on the blue kettle beside the stove"))[0] == better, "what fits better stays first"


def test_a_question_for_a_time_alone_gets_the_newest(house: House) -> None:
    for number in range(5):
        house.put(number, f"thing {number}", created=NOW - timedelta(days=number, hours=30))
    house.settle()
    found = house.ask("what did we do yesterday?")
    assert [(hit.node_id, hit.source) for hit in found.results] == [(node_id(0), "temporal")]
    # With a topic the period only favours: what happened long ago is still found.
    house.put(9, "the harbor was closed", created=LONG_AGO)
    house.settle()
    assert node_id(9) in ids(house.ask("why was the harbor closed last week?"))


def test_room_in_a_window_is_filled_with_the_newest(house: House) -> None:
    house.put(0, "harbor", created=NOW - timedelta(hours=5))
    house.put(1, "quite another thing", created=NOW - timedelta(hours=1))
    house.settle()
    found = house.ask("harbor", created_after=NOW - timedelta(days=1), limit=5)
    assert [(hit.node_id, hit.source) for hit in found.results] == [(node_id(0), "search"), (node_id(1), "temporal")]


def test_the_space_one_works_in_is_favoured_unless_spaces_are_named(house: House) -> None:
    for number, space in enumerate(("here", "there", None)):
        house.put(number, "harbor light", space=space)
    house.settle()
    score = {hit.node_id: hit.score for hit in house.ask(TEXT_ONLY, space="here").results}
    assert score[node_id(1)] == pytest.approx(0.6 * score[node_id(0)], abs=1e-5)
    assert score[node_id(2)] == score[node_id(0)]
    named = {hit.node_id: hit.score for hit in house.ask(TEXT_ONLY, space="here", spaces=["here", "there"]).results}
    assert named[node_id(1)] == named[node_id(0)]


def test_equal_notes_are_ordered_newest_first_then_by_id(house: House) -> None:
    for number in range(6):
        house.put(number, "harbor light", created=NOW - timedelta(days=number % 3), space=f"s{number}")
    house.settle()
    later = NOW + timedelta(days=3000)  # nothing is recent
    found = ids(house.ask(TEXT_ONLY, now=later))
    assert found == sorted(found, key=lambda one: ([node_id(n) for n in range(6)].index(one) % 3, one))
    assert found == ids(house.ask(TEXT_ONLY, now=later))


def test_what_was_found_often_is_no_better_for_it_and_what_was_used_is(house: House) -> None:
    for number in range(3):
        house.put(number, "harbor light", space=f"s{number}")
    house.settle()
    plain = {hit.node_id: hit.score for hit in house.ask(TEXT_ONLY).results}
    house.index.strength = {node_id(1): Strength(access_count=900), node_id(2): Strength(access_count=9, use_count=9)}
    scores = {hit.node_id: hit.score for hit in house.ask(TEXT_ONLY).results}
    assert scores[node_id(0)] == scores[node_id(1)] == plain[node_id(1)]
    assert scores[node_id(2)] > scores[node_id(1)]


def test_memories_of_one_conversation_vouch_for_each_other(house: House) -> None:
    talk = NOW - timedelta(days=100)
    best = house.put(0, "the harbor festival opens with fireworks", space="s", created=talk)
    beside = house.put(1, "we leave at nine because of the festival", space="s", created=talk + timedelta(minutes=5))
    apart = house.put(2, "we leave at nine because of the festival", space="s", created=talk + timedelta(days=2))
    house.settle()
    found = house.ask("harbor festival fireworks")
    assert ids(found)[:3] == [best, beside, apart]
    trace = {hit.node_id: hit.trace for hit in found.results}
    assert trace[beside]["own"] == pytest.approx(trace[apart]["own"], abs=1e-5)
    assert trace[beside]["moment"] > trace[apart]["moment"]


def test_activation_follows_edges_both_ways_and_respects_what_is_chosen(house: House) -> None:
    links = [
        NoteLink(EdgeType.SUPPORTS, node_id(1), weight=1.0),
        NoteLink(EdgeType.CONTRADICTS, node_id(2), weight=1.0),
        NoteLink(EdgeType.SUPPORTS, node_id(3), weight=1.0),
        NoteLink(EdgeType.SUPPORTS, node_id(4), weight=1.0),
    ]
    seed = house.put(0, "harbor light", links=links, space="s")
    house.put(1, "quite another thing", space="s")
    house.put(2, "nothing alike at all", space="s")
    house.put(3, "was true until yesterday", space="s", valid_until=NOW - timedelta(days=1))
    house.put(4, "of a different project", space="other")
    house.put(5, "points at it", space="s", links=[NoteLink(EdgeType.RELATED_TO, seed, weight=1.0)])
    house.settle()
    found = {hit.node_id: hit for hit in house.ask("harbor light", spaces=["s"]).results}
    seeded = found[seed].score
    assert {node: hit.source for node, hit in found.items()} == {
        seed: "search", node_id(1): "activated", node_id(2): "conflict", node_id(5): "activated",
    }  # fmt: skip
    assert found[node_id(1)].score == pytest.approx(seeded * 0.5, abs=1e-5)
    assert found[node_id(5)].score == pytest.approx(seeded * 0.35, abs=1e-5)
    assert found[node_id(2)].score == pytest.approx(seeded * 0.2, abs=1e-5)
    assert len(house.ask("harbor light", limit=1).results) == 1
    for number in range(6, 6 + MAX_PER_SEED):  # they are nearer than the contradiction
        house.put(
            number, "points at it too", space="s", links=[NoteLink(EdgeType.SUPPORTS, seed, weight=1.0 - number / 100)]
        )
    house.settle()
    fewer = [hit.node_id for hit in house.ask("harbor light", spaces=["s"]).results]
    assert fewer == [seed, node_id(1), *(node_id(number) for number in range(6, 5 + MAX_PER_SEED))]


def test_the_user_is_found_by_i_and_me(house: House) -> None:
    house.put(0, "Alex lives in Utrecht", tags=["about_self"])
    house.put(1, "the server lives in a cellar")
    house.settle()
    assert ids(house.ask("where do I live", words_only=True))[0] == node_id(0)
