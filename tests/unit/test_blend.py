"""The learned blend: its contributions add up, and each piece of evidence means what it says."""

from collections.abc import Sequence

import numpy as np
import pytest

from ormahd.index.rows import CandidateRow
from ormahd.model.node import NodeType, Strength, Tier
from ormahd.search.blend import LONG, PART, PIECES, Blend, StageEvidence, fitted, pieces, recompute
from ormahd.text.traits import asks_for_time, traits


def row(number: int, text: str = "") -> CandidateRow:
    return CandidateRow(
        f"n{number}",
        NodeType.FACT,
        Tier.WORKING,
        None,
        None,
        len(text),
        False,
        1.0,
        number,
        traits(text, text[-40:]),
        Strength(),
    )


def witness(
    matches: Sequence[Sequence[float]], near: Sequence[Sequence[bool]] | None = None, tokens: int = 20
) -> StageEvidence:
    some = np.array(matches, np.float32)
    size, width = some.shape
    return StageEvidence(
        np.zeros(size), np.full(size, 0.5), some, np.full(width, 1 / max(width, 1), np.float32), np.full(size, tokens),
        np.eye(size, dtype=bool) if near is None else np.array(near),
    )  # fmt: skip


def test_the_contributions_of_a_thousand_random_candidates_add_up() -> None:
    random = np.random.default_rng(7)
    numbers = fitted().weigh({name: random.normal(scale=2.0, size=1_000) for name in PIECES})
    for at in range(1_000):
        one = {name: float(values[at]) for name, values in numbers.items()}
        assert sum(one[PART + name] for name in PIECES) + one["base"] == pytest.approx(one["logit"], abs=1e-6)
        assert recompute(one) == pytest.approx(one["likely"], abs=1e-6)
        assert 0.0 < one["likely"] < 1.0


def test_the_shipped_table_has_a_weight_for_each_piece_of_the_right_sign() -> None:
    blend = fitted()
    assert set(blend.weights) == set(PIECES)
    assert all(
        weight <= 0.0 if name in ("asks", "other_named") else weight >= 0.0 for name, weight in blend.weights.items()
    )
    assert blend.weights["earlier"] > 0.0
    assert blend.made
    assert blend.sets


def test_more_of_one_piece_moves_the_score_by_its_weight() -> None:
    blend = Blend("2026-01-01", {}, -1.0, dict.fromkeys(PIECES, 0.0) | {"time": 2.0})
    with_it, without = blend.weigh({name: np.array([float(name == "time"), 0.0]) for name in PIECES})["logit"]
    assert (with_it, without) == (1.0, -1.0)


def test_a_very_good_text_leaves_room_for_boosts() -> None:
    """The boosts of names and titles are powers: from a score near 1 everything would tie at 1."""
    best = fitted().weigh(
        {name: np.array([0.75 if name == "earlier" else 0.9 * (name in ("company", "long"))]) for name in PIECES}
    )
    assert best["logit"][0] > 5.0
    assert 0.5 < best["likely"][0] < 0.85


def test_a_named_head_counts_for_its_note_and_against_others() -> None:
    rows = [row(0, "Ana: the boat is blue"), row(1, "Ben: the boat is red"), row(2, "The boat is green")]
    found = pieces("what colour is the boat that Ana has", rows, witness([[0.5]] * 3))
    assert found["named"].tolist() == [1.0, 0.0, 0.0]
    assert found["other_named"].tolist() == [0.0, 1.0, 0.0]
    nobody = pieces("what colour is the boat", rows, witness([[0.5]] * 3))
    assert not nobody["named"].any()
    assert not nobody["other_named"].any()


def test_in_a_long_note_the_head_and_the_question_count_less() -> None:
    rows = [row(0, "Ana: where is the boat?")]
    short, long = (pieces("Ana", rows, witness([[0.5]], tokens=tokens)) for tokens in (10, int(4 * LONG)))
    assert (short["named"][0], short["asks"][0], short["long"][0]) == (1.0, 1.0, 0.0)
    assert (long["named"][0], long["asks"][0]) == (0.25, 0.25)
    assert long["long"][0] > 0.0


def test_company_adds_what_the_conversation_says() -> None:
    near = [[True, True, False], [True, True, False], [False, False, True]]
    found = pieces("harbor light", [row(at) for at in range(3)], witness([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]], near))
    assert found["company"].tolist() == pytest.approx([1.0, 1.0, np.sqrt(0.5)])


def test_nothing_to_compare_is_no_evidence() -> None:
    nothing = np.zeros((0, 0), np.float32)
    none = StageEvidence(
        np.zeros(0), np.zeros(0), nothing, np.zeros(0, np.float32), np.zeros(0, np.int64), nothing.astype(bool)
    )
    assert all(values.tolist() == [] for values in pieces("harbor", [], none).values())
    assert pieces("…", [row(0)], witness(np.zeros((1, 0)).tolist()))["company"].tolist() == [0.0]


@pytest.mark.parametrize(("text", "head", "asks", "time"), [
    ("Ana: I moved yesterday", {"ana"}, False, True),
    ("Ana Maria: und du?", {"ana", "maria"}, True, False),
    ("We chose PostgreSQL.", set(), False, False),
    ("Did we choose PostgreSQL? (Ana)", set(), False, False),
    ("你好吗？", set(), True, False),
    ("seit März 2024", set(), False, True),
    ("https://example.org: the page", set(), False, False),
    ("", set(), False, False),
])  # fmt: skip
def test_traits(text: str, head: set[str], asks: bool, time: bool) -> None:
    found = traits(text, text[-40:])
    assert (set(found.head), found.asks, found.tells_time) == (head, asks, time)


@pytest.mark.parametrize(("text", "asks"), [
    ("When did Ana move?", True),
    ("how long does a lease last", True),
    ("Seit wann ist das so?", True),
    ("什么时候发布？", True),
    ("what happens whenever it fails", False),
    ("Which database is it?", False),
])  # fmt: skip
def test_questions_for_a_time(text: str, asks: bool) -> None:
    assert asks_for_time(text) is asks
