"""What is remembered between two changes answers as the index itself does."""

import random
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from ormahd.index import embedding_cache, query_cache, reader, rows
from ormahd.index import write as full_text
from ormahd.index.index import Index
from ormahd.index.rows import Filter
from ormahd.model.node import EdgeType, NodeType, Strength, Tier
from ormahd.note.values import NoteLink
from tests.contract.index_notes import NOW, apply, node_id, note, open_index

WORDS = ["boat", "garden", "kettle", "sqlite", "sqlites", "v1.2", "c++", "東京", "naïve", "tram"]
FILTERS = (
    Filter(), Filter(alive_at=NOW), Filter(alive_at=NOW, types=(NodeType.GOAL,)), Filter(spaces=("web", "global"), alive_at=NOW),
    Filter(tags=("red",)), Filter(tiers=()), Filter(created_after=NOW, alive_at=NOW + timedelta(days=3)),
)  # fmt: skip


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    made = open_index(tmp_path / "index", attach=True)
    yield made
    made.close()


def some(number: int, chance: random.Random, *, words: int | None = None) -> bytes:
    """A note; of one number and the same `words` it always says the same."""
    saying = chance if words is None else random.Random(f"{number} {words}")
    return note(
        number, " ".join(saying.choices(WORDS, weights=range(1, 11), k=saying.randint(2, 9))), title=saying.choice(WORDS),
        tags=saying.choice([[], ["Red"]]), type=chance.choice([NodeType.FACT, NodeType.GOAL]),
        space=chance.choice([None, "web", "other"]), tier=chance.choice(list(Tier)),
        valid_until=chance.choice([None, None, NOW, NOW + timedelta(days=1)]), created=NOW - timedelta(days=chance.randint(0, 2)),
        links=[NoteLink(chance.choice(list(EdgeType)), node_id(chance.randrange(60))) for _ in range(chance.randint(0, 3))],
    )  # fmt: skip


def asked(index: Index, terms: Sequence[str], limit: int, chosen: Filter) -> list[tuple[str, float]]:
    with index.database.read() as connection:
        return full_text.search(connection, terms, limit, chosen, full_text.Frequencies())


def check(index: Index, chance: random.Random) -> None:
    for chosen in FILTERS:
        for _ in range(3):  # the first time it is read, from the second or third on remembered
            terms = chance.sample(WORDS, chance.randint(0, 4))
            limit = chance.choice([1, 3, 10, 500])
            found, wanted = index.search_text(terms, limit, chosen), asked(index, terms, limit, chosen)
            assert [one for one, _ in found] == [one for one, _ in wanted]
            assert [score for _, score in found] == pytest.approx([score for _, score in wanted], rel=1e-12)
        with index.database.read() as connection:
            assert index.count(chosen) == reader.count(connection, chosen)
        vector = index.embed_ahead([(None, " ".join(chance.sample(WORDS, 3)))])
        assert vector is not None
        near = index.search_vectors(vector[0], 7, chosen)
        exact = index.cosines(vector[0], index.ids(chosen))
        assert [score for _, score in near] == pytest.approx(sorted(exact.values(), reverse=True)[:7], abs=2e-6)
        assert dict(near) == pytest.approx({one: exact[one] for one, _ in near}, abs=2e-6)
    ids = [node_id(number) for number in range(60)]
    with index.database.read() as connection:
        assert index.candidates(ids) == reader.candidates(connection, ids, index.strength)
    check_tokens(index, chance.sample(ids, 40), chance.choice([1, 2, 4]))
    for _ in range(2):
        check_edges(index, chance.choices(ids, k=chance.choice([1, 7, 40])))


def check_edges(index: Index, ids: Sequence[str]) -> None:
    with index.database.read() as connection:
        assert index.edges_of(ids) == rows.edges(connection, sorted(set(ids)))


def check_tokens(index: Index, ids: Sequence[str], pieces: int) -> None:
    found, meaning = index.tokens(ids, pieces=pieces), index.indexer.active
    assert found is not None
    assert meaning is not None
    with index.database.read() as connection:
        read = embedding_cache.tokens(connection, meaning.number, meaning.best_pieces(ids, None, pieces))
    wanted = embedding_cache.token_vectors(
        {one: read[one] for one in ids if one in read}, meaning.embedder.late_dimensions
    )
    assert (found.ids, found.offsets.tolist()) == (wanted.ids, wanted.offsets.tolist())
    assert (found.packed == wanted.packed).all()


@pytest.fixture(autouse=True)
def old_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Words are remembered right after a change."""
    monkeypatch.setattr(query_cache, "YOUNG_S", 0.0)


def test_right_after_a_change_no_words_are_learned(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query_cache, "YOUNG_S", 3600.0)
    chance = random.Random(4)
    apply(index, {f"{number}.md": some(number, chance) for number in range(30)})
    assert index.wait_filled(30)
    check(index, chance)
    assert not index._kept._postings
    index._kept._since -= 3601
    check(index, chance)
    assert index._kept._postings


def test_what_ranking_asks_of_the_others_stays(tmp_path: Path) -> None:
    index = open_index(tmp_path / "index")  # without a model nothing is learned ahead
    chance = random.Random(5)
    apply(index, {f"{number}.md": some(number, chance) for number in range(30)})
    ids = [node_id(number) for number in range(32)]
    before = index.candidates(ids)
    apply(index, {"7.md": some(7, chance), "31.md": some(31, chance)}, ["8.md"])
    assert not index._kept.candidates.keys() & {node_id(7), node_id(8), node_id(31)}
    after = index.candidates(ids)
    assert all(after[node_id(number)] is before[node_id(number)] for number in range(30) if number not in {7, 8})
    assert node_id(8) not in after
    with index.database.read() as connection:
        assert after == reader.candidates(connection, ids, index.strength)
    index.close()


@pytest.mark.parametrize("bound", [(), ("SMALL",), ("SMALL", "SCORED")])
def test_it_answers_as_the_index_does(index: Index, monkeypatch: pytest.MonkeyPatch, bound: Sequence[str]) -> None:
    for name in bound:  # as in a larger index: the rarest words choose, and common ones are learned little by little
        for module in (full_text, query_cache):
            monkeypatch.setattr(module, name, 5 if name == "SMALL" else 40)
    chance = random.Random(1)
    apply(index, {f"{number}.md": some(number, chance) for number in range(50)} | {"plain.md": b"boat and garden"})
    apply(index, {"copy of 3.md": some(3, chance)})
    assert index.wait_filled(30)
    check(index, chance)
    for _ in range(6):
        numbers = chance.sample(range(60), 5)
        apply(
            index,
            {f"{number}.md": some(number, chance) for number in numbers[:3]},
            [f"{one}.md" for one in numbers[3:]],
        )
        assert index.wait_filled(30)
        check(index, chance)


def test_where_no_word_changed_it_keeps_the_words(index: Index) -> None:
    chance = random.Random(3)
    apply(
        index,
        {f"{number}.md": some(number, chance, words=0) for number in range(50)} | {"plain.md": b"boat and garden"},
    )
    apply(index, {"copy of 3.md": some(3, chance, words=0)})
    assert index.wait_filled(30)
    check(index, chance)
    learned = dict(index._kept._postings)
    assert learned
    for _ in range(12):
        numbers = chance.sample(range(50), 4)
        apply(index, {f"{number}.md": some(number, chance, words=0) for number in numbers})
        assert all(index._kept._postings[word] is posting for word, posting in learned.items())
        check(index, chance)
    assert index.verify() == []
    apply(index, {"7.md": some(7, chance, words=1)})
    assert not index._kept._postings
    assert index.wait_filled(30)
    check(index, chance)


def test_use_counts_at_once(index: Index) -> None:
    apply(index, {"a.md": note(1, "boat")})
    assert index.candidates([node_id(1)])[node_id(1)].strength == Strength()
    index.set_strength({node_id(1): Strength(access_count=3)})
    assert index.candidates([node_id(1)])[node_id(1)].strength.access_count == 3


def test_what_is_remembered_is_bounded(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(2)
    apply(index, {f"{number}.md": some(number, chance) for number in range(40)})
    monkeypatch.setattr(query_cache, "POSTINGS", 60)
    for word in WORDS * 2:
        for chosen in FILTERS:
            assert index.search_text([word], 5, chosen) == asked(index, [word], 5, chosen)
        assert index._kept._posted <= 60
        assert sum(len(one.numbers) for one in index._kept._postings.values()) == index._kept._posted
    monkeypatch.setattr(query_cache, "PASSING", 60)
    (vector,) = index.embed_ahead([(None, "boat")]) or [None]
    assert vector is not None
    for chosen in FILTERS:
        index.search_vectors(vector, 5, chosen)
        assert sum(map(len, index._kept._passing.values())) == index._kept._passed <= 60
    assert not [chosen for chosen in index._kept._passing if chosen != replace(chosen, alive_at=None)]


def test_remembered_tokens_are_bounded_and_no_others_are_taken_for_them(
    index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(6)
    long = " ".join(f"word{number}" for number in range(2000))
    apply(index, {f"{number}.md": some(number, chance) for number in range(40)} | {"50.md": note(50, long)})
    assert index.wait_filled(30)
    ids = [node_id(number) for number in (*range(40), 50)]
    for pieces in (1, 4, 2, 2):
        check_tokens(index, ids, pieces)
    known = index._kept
    assert known._bytes == sum(len(one[2]) for one in known._tokens.values()) > 0
    apply(index, {"7.md": some(7, chance), "50.md": note(50, "short")}, ["8.md"])
    assert index._kept._tokens.keys() == known._tokens.keys() - {node_id(7), node_id(8), node_id(50)}
    assert index.wait_filled(30)
    monkeypatch.setattr(query_cache, "TOKENS", known._bytes // 4)
    check_tokens(index, ids, 2)
    for _ in range(20):
        check_tokens(index, chance.sample(ids, 30), 2)
        known = index._kept
        assert known._bytes == sum(len(one[2]) for one in known._tokens.values()) <= query_cache.TOKENS
    monkeypatch.setattr(query_cache, "CHANGED", 3)
    apply(index, {f"{number}.md": some(number, chance) for number in range(4)})
    assert not index._kept._tokens, "after bulk work the memory is wanted back"
    assert index.wait_filled(30)
    check_tokens(index, ids, 2)


def test_a_note_that_comes_may_be_what_others_link_to(index: Index) -> None:
    apply(index, {"1.md": note(1, "See [[Boat]]."), "2.md": note(2, "garden")})
    assert index.edges_of([node_id(1), node_id(3)]) == []
    apply(index, {"3.md": note(3, "floats", title="Boat")})
    (edge,) = index.edges_of([node_id(1)])
    assert (edge.source, edge.target) == (node_id(1), node_id(3))
    assert index.edges_of([node_id(3)]) == [edge]


@pytest.mark.parametrize("most", [2000, 10, 1])
def test_a_comparison_reads_memories_as_they_are_now(index: Index, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(query_cache, "STATED", most)
    apply(index, {
        "1.md": note(1, "The API listens on port 8080.", title="API"), "2.md": note(2, "The API listens on port 9090.", title="API"),
    })  # fmt: skip
    pair = (node_id(1), node_id(2), 0.8)
    for _ in range(2):
        assert index.replacing([pair])[pair[:2]].new == "9090"
    apply(index, {"2.md": note(2, "The API listens on port 7070.", title="API")})
    assert index.replacing([pair])[pair[:2]].new == "7070"
    apply(index, {"2.md": note(2, "Bees sleep in winter.")})
    assert index.replacing([pair]) == {}
    apply(index, {}, ["2.md"])
    assert index.replacing([pair]) == {}
