"""Positions for pictures of the graph: the same each time, apart from each other, and kept when memories are added."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from ormahd.index.graph import Placeable, arrange

Edges = list[tuple[str, str, float]]


def some(count: int, seed: int = 1) -> tuple[list[Placeable], Edges]:
    """Memories of three spaces, in chains within each space."""
    draw = random.Random(seed)
    nodes = [Placeable(f"{draw.getrandbits(128):032x}", ("shop", "blog", None)[at % 3]) for at in range(count)]
    return nodes, [(one.id, other.id, 0.7) for one, other in zip(nodes, nodes[3:], strict=False)]


def far(one: tuple[float, float], other: tuple[float, float]) -> float:
    return float(np.hypot(one[0] - other[0], one[1] - other[1]))


@pytest.mark.parametrize("count", [0, 1, 2, 3, 200])
def test_every_memory_has_a_place_of_its_own_the_same_each_time(count: int) -> None:
    nodes, edges = some(count)
    found = arrange(nodes, edges, {})
    assert found.keys() == {one.id for one in nodes}
    assert arrange(nodes[::-1], edges[::-1], {}) == found
    assert np.isfinite([*found.values()]).all()
    closest = min((far(one, other) for one, other in itertools.combinations(found.values(), 2)), default=1.0)
    assert closest > 0.2


def test_connected_memories_are_near_and_spaces_apart() -> None:
    nodes, edges = some(300)
    found = arrange(nodes, edges, {})
    connected = np.mean([far(found[a], found[b]) for a, b, _ in edges])
    draw = random.Random(2)
    any_two = np.mean([far(*(found[one.id] for one in draw.sample(nodes, 2))) for _ in range(500)])
    assert connected < any_two / 3
    for space, other in itertools.combinations(("shop", "blog", None), 2):
        middles = [np.mean([found[one.id] for one in nodes if one.space == where], axis=0) for where in (space, other)]
        assert far(*middles) > 5


def test_new_memories_move_no_others_and_stand_near_their_neighbours() -> None:
    nodes, edges = some(200)
    known = arrange(nodes, edges, {})
    new = [Placeable("a" * 32, "shop"), Placeable("b" * 32, "elsewhere"), Placeable("c" * 32, None)]
    found = arrange([*nodes, *new], [*edges, ("a" * 32, nodes[0].id, 0.9)], known)
    assert {id_: at for id_, at in found.items() if id_ in known} == known
    assert far(found["a" * 32], known[nodes[0].id]) < 3
    outside = max(far(at, (0, 0)) for at in known.values())
    assert far(found["b" * 32], (0, 0)) > outside / 2, "a new space gets a place of its own"


def test_what_was_forgotten_takes_no_place_and_comes_back_to_its_own() -> None:
    nodes, edges = some(60)
    known = arrange(nodes, edges, {})
    fewer = arrange(nodes[1:], edges, known)
    assert nodes[0].id not in fewer
    assert arrange(nodes, edges, known) == known


def test_where_most_are_new_the_whole_is_arranged_again() -> None:
    nodes, edges = some(200)
    known = arrange(nodes[:20], edges, {})
    assert arrange(nodes, edges, known) == arrange(nodes, edges, {})


@pytest.mark.parametrize("edges", [[("x", "y", 1.0)], [("0", "0", 1.0)], [("0", "1", 0.0)], [("0", "1", 1.0)] * 5])
def test_odd_edges(edges: Edges) -> None:
    found = arrange([Placeable("0", None), Placeable("1", None)], edges, {})
    assert found["0"] != found["1"]
