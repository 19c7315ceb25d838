"""Positions of memories in a picture of the graph: computed once, kept in the index, so that every picture is the same.

Spaces are placed beside each other, connected memories near each other. New memories are placed near their neighbours,
and those that were placed before do not move. Only if more than half are new are all of them placed anew.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

Points = NDArray[np.float64]
Ints = NDArray[np.int64]

SEED = 20261121
STEPS = 100
"""Number of steps when all memories are placed anew. More steps change little."""
FEW_STEPS = 40
"""Number of steps when new memories are placed among those that have a position already."""
APART = 1.0
"""Distance below which two memories push each other away. It is the unit of the positions."""
ATTRACTED = 0.6
"""Share of the steps in which connections pull; afterwards memories are only moved apart."""
COMPARED = 6
"""Number of memories with which each memory is compared in a step: those that follow it in its strip (see `_apart`)."""
SPREAD = 0.6 * APART
"""The memories of a space are first placed in a circle. Its radius is `SPREAD` times the square root of their
number."""
GOLDEN = np.pi * (3 - np.sqrt(5))


class Placeable(Struct, frozen=True):
    """A memory that gets a position in pictures of the graph: its id and its space."""

    id: str
    space: str | None


class _Graph(Struct):
    at: Points
    free: NDArray[np.bool_]
    """Whether each point may move."""
    anchors: Points
    """The centre of the space of each point."""
    source: Ints
    target: Ints
    weight: NDArray[np.float64]


def arrange(
    nodes: Sequence[Placeable], edges: Sequence[tuple[str, str, float]], known: Mapping[str, tuple[float, float]],
    pause: Callable[[], None] = lambda: None,
) -> dict[str, tuple[float, float]]:  # fmt: skip
    """Return node id -> (x, y) for each of `nodes`. `edges`: (node id, node id, weight). `known`: node id ->
    position; these nodes are not moved.

    The result depends only on the arguments, not on their order. `pause` is called between the steps.
    """
    nodes = sorted(nodes, key=lambda one: one.id)
    new = sum(one.id not in known for one in nodes)
    if not new:
        return {one.id: known[one.id] for one in nodes}
    whole = 2 * new > len(nodes)
    graph = _graph(nodes, edges, {} if whole else known)
    rng = np.random.default_rng(SEED)
    steps = STEPS if whole else FEW_STEPS
    for step in range(steps):
        pause()
        _step(graph, max(0.0, 1 - step / (ATTRACTED * steps)), rng)
    found = np.round(graph.at, 3)
    return {one.id: (float(x), float(y)) for one, (x, y) in zip(nodes, found, strict=True)}


def _graph(nodes: Sequence[Placeable], edges: Sequence[tuple[str, str, float]], known: Mapping[str, tuple[float, float]]) -> _Graph:  # fmt: skip
    number = {one.id: at for at, one in enumerate(nodes)}
    inside = sorted((number[a], number[b], weight) for a, b, weight in edges if a in number and b in number and a != b)
    ends = np.array([(a, b) for a, b, _ in inside], np.int64).reshape(-1, 2)
    free = np.array([one.id not in known for one in nodes])
    at = np.array([known.get(one.id, (0.0, 0.0)) for one in nodes], np.float64).reshape(-1, 2)
    anchors = _anchors(nodes, at, free)
    graph = _Graph(at, free, anchors, ends[:, 0], ends[:, 1], np.array([weight for *_, weight in inside], np.float64))
    _begin(nodes, graph)
    return graph


def _anchors(nodes: Sequence[Placeable], at: Points, free: NDArray[np.bool_]) -> Points:
    """Return, for each node, the centre of its space: the mean position of those nodes of the space that have a
    position already; if there are none, a point chosen outside of all positions. `free`: whether each node has no
    position yet."""
    spaces = sorted({one.space or "" for one in nodes})
    sizes = dict.fromkeys(spaces, 0)
    for one in nodes:
        sizes[one.space or ""] += 1
    of = np.array([spaces.index(one.space or "") for one in nodes])
    radius = float(np.hypot(*at[~free].T).max(initial=0.0))
    centres, taken = np.zeros((len(spaces), 2)), 0
    for turn, space in enumerate(sorted(spaces, key=lambda one: (-sizes[one], one))):
        mine = of == spaces.index(space)
        placed = at[mine & ~free]
        if len(placed):
            centres[spaces.index(space)] = placed.mean(axis=0)
        else:  # the largest in the middle, the others around it in a spiral
            far = radius + SPREAD * (np.sqrt(taken) + (np.sqrt(sizes[space]) if taken or radius else 0.0))
            centres[spaces.index(space)] = far * np.cos(turn * GOLDEN), far * np.sin(turn * GOLDEN)
        taken += sizes[space]
    anchors: Points = centres[of]
    return anchors


def _begin(nodes: Sequence[Placeable], graph: _Graph) -> None:
    """Give each free point a first position: near the mean of its neighbours that are not free; if it has none, in
    the circle of its space."""
    total, count = np.zeros_like(graph.at), np.zeros(len(nodes))
    for here, there in ((graph.source, graph.target), (graph.target, graph.source)):
        placed = graph.free[here] & ~graph.free[there]
        np.add.at(total, here[placed], graph.at[there[placed]])
        np.add.at(count, here[placed], 1)
    members: dict[str | None, int] = {}
    for one in nodes:
        members[one.space] = members.get(one.space, 0) + 1
    for at in map(int, np.flatnonzero(graph.free)):
        one = nodes[at]
        drawn = hashlib.sha256(one.id.encode()).digest()
        angle = int.from_bytes(drawn[:8]) / 2**64 * 2 * np.pi
        far = np.sqrt(int.from_bytes(drawn[8:16]) / 2**64)
        if count[at]:
            middle, reach = total[at] / count[at], APART
        else:
            middle, reach = graph.anchors[at], SPREAD * np.sqrt(members[one.space])
        graph.at[at] = middle + reach * far * np.array([np.cos(angle), np.sin(angle)])


def _step(graph: _Graph, heat: float, rng: np.random.Generator) -> None:
    """Move the free points by one step: towards connected points, away from close points, and slightly towards the
    centre of their space.

    `heat` falls from 1 to 0; at 0 the points are only moved away from each other.
    """
    at, move = graph.at, np.zeros_like(graph.at)
    if len(graph.source):
        gap = at[graph.target] - at[graph.source]
        far = np.hypot(*gap.T)[:, None] + 1e-9
        pull = gap / far * np.maximum(far - APART, 0) * (0.4 * heat * graph.weight)[:, None]
        ends = np.concatenate([graph.source, graph.target])
        share = np.concatenate([pull, -pull]) / np.sqrt(np.bincount(ends, minlength=len(at)))[ends, None]
        move += np.column_stack([np.bincount(ends, share[:, axis], len(at)) for axis in (0, 1)])
    move += _apart(at, rng)
    move += 0.01 * heat * (graph.anchors - at)
    length = np.hypot(*move.T)[:, None] + 1e-9
    move *= np.minimum(1.0, (0.3 + 2.0 * heat) / length)
    graph.at[graph.free] += move[graph.free]


def _apart(at: Points, rng: np.random.Generator) -> Points:
    """Return, for each point, the vector by which the points closer than `APART` push it away.

    In each step the plane is cut into strips of a random direction and offset, and a point is compared only with its
    neighbours along its strip. So every close pair is compared sooner or later, without comparing all pairs.
    """
    angle, offset = rng.uniform(0, np.pi), rng.uniform(0, APART)
    along = at @ np.array([np.cos(angle), np.sin(angle)])
    across = at @ np.array([-np.sin(angle), np.cos(angle)])
    order = np.lexsort((along, np.floor((across + offset) / APART)))
    sorted_at, push = at[order], np.zeros_like(at)
    for shift in range(1, min(COMPARED, len(at) - 1) + 1):
        gap = sorted_at[shift:] - sorted_at[:-shift]
        far = np.hypot(*gap.T)[:, None] + 1e-9
        force = gap / far * np.maximum(APART - far, 0) * 0.5
        push[:-shift] -= force
        push[shift:] += force
    push[order] = push.copy()
    return push
