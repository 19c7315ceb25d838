"""The boost is the seed's: `seeds/affinity`, "How Boost Is Computed"."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from ormahd.model.judgement import Int8Vector, Judgement
from ormahd.state.feedback import Judgements
from ormahd.whisper.affinity import boosts, is_judged

NOW = datetime(2026, 11, 21, 20, tzinfo=UTC)
MODEL = "m"
A, B, C = (f"{number:08x}-6d0a-4c1e-9a55-0a52b0f4f9d1" for number in (1, 2, 3))


def at(cosine: float, turn: int = 1) -> np.ndarray:
    """A unit vector with this cosine with the first axis."""
    made = np.zeros(16, np.float32)
    made[0], made[turn] = cosine, math.sqrt(1 - cosine * cosine)
    return made


PROMPT = at(1.0)


def row(node: str, signal: int, cosine: float, *, days: float = 0.0, source: str = "explicit", number: int = 0) -> Judgement:  # fmt: skip
    return Judgement(
        node, signal, source, NOW - timedelta(days=days), f"event{number:07}", MODEL, Int8Vector.of(at(cosine, 1 + number % 15)), "h"  # type: ignore[arg-type]
    )  # fmt: skip


def boost(rows: Sequence[Judgement], node: str = A) -> float | None:
    return boosts(PROMPT, [A, B, C], Judgements.of(rows, MODEL), now=NOW).get(node)


def seed(rows: Sequence[Judgement]) -> float | None:
    """The seed's own loop and numbers, over one memory's rows."""
    weighted_sum = weight_total = 0.0
    for one in rows:
        vector = one.vector.vector
        sim = float(vector @ PROMPT / np.linalg.norm(vector))
        if sim < 0.7:
            continue
        days_ago = max(0.0, (NOW - one.confirmed_at).total_seconds() / 86_400)
        recency = math.exp(-days_ago * math.log(2) / 30)
        source_weight = 0.8 if one.source == "implicit" else 1.0
        weight = sim * recency * source_weight
        weighted_sum += one.signal * weight
        weight_total += weight
    return weighted_sum / weight_total * 0.15 if weight_total else None


def test_it_is_the_seeds_formula() -> None:
    drawn = np.random.default_rng(7)
    for _ in range(200):
        rows = [
            row(A, int(drawn.choice([1, -1])), float(drawn.uniform(0.3, 1.0)), days=float(drawn.uniform(-5, 400)),
                source=str(drawn.choice(["explicit", "implicit"])), number=number)
            for number in range(int(drawn.integers(1, 9)))
        ]  # fmt: skip
        expected = seed(rows)
        assert boost(rows) == (None if expected is None else pytest.approx(expected, abs=1e-5))


def test_below_the_threshold_a_prompt_says_nothing() -> None:
    assert boost([row(A, 1, 0.69)]) is None
    assert boost([row(A, 1, 0.71)]) == pytest.approx(0.15)


def test_of_two_judgements_the_younger_and_the_one_that_was_meant_weigh_more() -> None:
    young, old = row(A, 1, 0.9, number=1), row(A, -1, 0.9, days=30, number=2)
    assert boost([young, old]) == pytest.approx((1 - 0.5) / (1 + 0.5) * 0.15, abs=1e-4)
    meant, inferred = row(A, 1, 0.9, number=1), row(A, -1, 0.9, source="implicit", number=2)
    assert boost([meant, inferred]) == pytest.approx((1 - 0.8) / (1 + 0.8) * 0.15, abs=1e-4)


def test_ages_beyond_all_numbers() -> None:
    old = [row(A, 1, 0.9, days=300_000, number=1), row(A, -1, 0.9, days=300_000, number=2)]
    assert boost(old) == pytest.approx(0.0, abs=1e-4)
    assert boost([*old, row(A, 1, 0.9, days=300_030, number=3)]) == pytest.approx(0.15 * 0.5 / 2.5, abs=1e-4)


def test_each_memory_has_its_own_and_others_none() -> None:
    rows = [row(B, -1, 0.9, number=1), row(A, 1, 0.9, number=2), row(B, -1, 0.8, number=3)]
    found = boosts(PROMPT, [A, B, C], Judgements.of(rows, MODEL), now=NOW)
    assert found == {A: pytest.approx(0.15), B: pytest.approx(-0.15)}
    assert boosts(PROMPT, [C], Judgements.of(rows, MODEL), now=NOW) == {}


def test_nothing_to_compare_with_is_no_boost() -> None:
    rows = [row(A, 1, 1.0)]
    assert boosts(None, [A], Judgements.of(rows, MODEL), now=NOW) == {}
    assert boosts(PROMPT[:8], [A], Judgements.of(rows, MODEL), now=NOW) == {}
    assert boosts(PROMPT, [A], Judgements(), now=NOW) == {}
    assert boosts(np.zeros(16, np.float32), [A], Judgements.of(rows, MODEL), now=NOW) == {}


def test_another_models_judgements_are_idle_until_their_prompts_are_embedded_anew() -> None:
    one, other = row(A, 1, 1.0), row(B, 1, 1.0, number=1)
    idle = Judgements.of([one, other], "another")
    assert (len(idle), idle.idle, idle.counts) == (0, (one, other), (2, 0))
    found = Judgements.of([one, other], "another", anew={other.id: Int8Vector.of(at(0.9))})
    assert boosts(PROMPT, [A, B], found, now=NOW).keys() == {B}
    assert found.idle == (one,)


def test_a_line_of_another_length_is_not_compared() -> None:
    odd = Judgement(B, 1, "explicit", NOW, "odd000000000", MODEL, Int8Vector.of(np.ones(3, np.float32)), "h")
    found = Judgements.of([row(A, 1, 1.0), row(A, 1, 1.0, number=2), odd], MODEL)
    assert found.idle == (odd,)
    assert boosts(PROMPT, [A, B], found, now=NOW).keys() == {A}


def test_whether_there_is_something_to_ask() -> None:
    found = Judgements.of([row(A, -1, 0.75), row(B, 1, 0.6, number=1)], MODEL)
    assert [is_judged(PROMPT, node, found) for node in (A, B, C)] == [True, False, False]
    assert not is_judged(None, A, found)
