"""The arithmetic of ranking: fusion, late interaction."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ormahd.embedding.token_vectors import pack, quantise, step
from ormahd.search.fuse import fuse, normalise
from ormahd.search.gather import Gathered, max_sim, token_weights


@dataclass
class Stored:
    ids: list[str]
    offsets: Any
    packed: Any


def unit(rows: Any) -> Any:
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


@given(st.integers(0, 2**32 - 1), st.lists(st.integers(1, 9), min_size=1, max_size=6))
@example(76020, [1, 7, 9, 9])  # rounded, a token is nearer to itself than 1
def test_max_sim_is_what_the_definition_says(seed: int, lengths: list[int]) -> None:
    random = np.random.default_rng(seed)
    question = unit(random.normal(size=(4, 8)))
    weights = token_weights(random.random(4).astype(np.float32))
    notes = {f"n{number}": quantise(unit(random.normal(size=(n, 8)))) for number, n in enumerate(lengths)}
    packed = np.frombuffer(b"".join(pack(one) for one in notes.values()), np.uint8).reshape(-1, 4)
    held = Stored(list(notes), np.cumsum([0, *lengths]), packed)
    asked = [*reversed(notes), "no vectors"]
    found = max_sim(question, weights, asked, held)
    for at, one in enumerate(asked[:-1]):
        best = np.array(
            [max(min(max(float(q @ t) * step(8), 0.0), 1.0) for t in notes[one].astype(np.float32)) for q in question]
        )
        assert found.rare[at] == pytest.approx(np.sqrt((best**2 @ weights) / weights.sum()), abs=1e-4)
        assert found.plain[at] == pytest.approx(np.sqrt((best**2).mean()), abs=1e-4)
        assert found.lengths[at] == len(notes[one])
    assert (found.rare[-1], found.lengths[-1]) == (0.0, 0)


def test_fusion_weighs_ranks() -> None:
    gathered = Gathered([("a", 9.0), ("b", 5.0)], [("c", 0.9), ("b", 0.8)], None, 100)
    fused = fuse(gathered, keep=10)
    assert [one.node_id for one in fused] == ["b", "c", "a"]
    assert [one.node_id for one in fuse(gathered, keep=2)] == ["b", "c"]
    assert [one.node_id for one in fuse(gathered, keep=2, exact=["a"])] == ["b", "c", "a"]


def test_normalising_does_not_blow_up_noise() -> None:
    assert normalise([1.0, 0.98], 0.05) == [1.0, 0.98]
    assert normalise([2.0, 1.5, 1.0], 0.05) == [1.0, 0.5, 0.0]
    assert normalise([], 0.05) == []
    assert normalise([0.0, 0.0], 0.05) == [0.0, 0.0]
