"""The data for a picture of the graph: some columns of each memory, and its position, which is stored in the index, so
that every picture is the same.

Spaces are placed beside each other, connected memories near each other. New memories are placed near their neighbours,
and those that were placed before do not move. Only if more than half are new are all of them placed anew.
"""

from __future__ import annotations

import hashlib
import threading
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from ormahd.index.index import Index
from ormahd.index.rows import Filter
from ormahd.process import priority, sql

Points = NDArray[np.float64]
Ints = NDArray[np.int64]

BEGINNING = 200
"""Number of characters at the beginning of a memory's text that are read, to name a memory without a title."""
PER_UNIT = 1000
"""Positions are stored as integers, in thousandths of the layout's unit."""
_COLUMNS = (
    f"n.id, n.type, n.tier, n.space, n.title, substr(t.content, 1, {BEGINNING}), n.tags, n.created, n.valid_until, f.path",
)
_FROM = "FROM node n JOIN text t USING (number) JOIN file f USING (number)"
_placing = threading.Lock()

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
"""Number of memories with which each memory is compared in a step: those that follow it in its strip (see `_pushes`)."""
SPREAD = 0.6 * APART
"""The memories of a space are first placed in a circle. Its radius is `SPREAD` times the square root of their
number."""
GOLDEN = np.pi * (3 - np.sqrt(5))


class PictureRow(Struct, frozen=True):
    """The fields of a memory that a picture of the graph needs. Times are microseconds since 1970; `tags` is JSON;
    `content` has at most `BEGINNING` characters."""

    id: str
    type: str
    tier: str
    space: str | None
    title: str | None
    content: str
    tags: str
    created: int
    valid_until: int | None
    path: str


def rows(index: Index, chosen: Filter, ids: Sequence[str] | None = None) -> list[PictureRow]:
    """Return the rows of the memories that pass the filter; of `ids` alone, if given. Unknown ids are left out."""
    where, values = chosen.sql()
    priority.give()
    found = []
    with index.database.ask() as connection:
        for chunk in [()] if ids is None else sql.sets(ids):
            inside = "" if ids is None else f" AND n.id IN ({sql.marks(chunk)})"
            found += sql.table(connection, _COLUMNS, f"{_FROM} WHERE {where}{inside}", [*values, *chunk])
    return [PictureRow(*row) for row in found]


def positions(index: Index, wanted: Sequence[str]) -> dict[str, tuple[float, float]]:
    """Return {node id: (x, y)}: the positions in pictures of the graph of the `wanted` memories, and of all others that
    have one. If a wanted memory has none, all memories without one get a position now, which is stored.

    Positions of deleted memories are kept for a while. If an undo restores such a memory, it has its old position.
    """
    with _placing:
        with index.database.read() as connection:
            stored = sql.table(connection, ("id", "x", "y"), "FROM position", ())
            known = {id_: (x / PER_UNIT, y / PER_UNIT) for id_, x, y in stored}
            if known.keys() >= set(wanted):
                return known
            ids = sql.table(connection, ("n.id", "n.space"), "FROM node n WHERE n.held = 1", ())
        nodes = [Placeable(id_, space) for id_, space in ids]
        edges = [(edge.source, edge.target, edge.weight) for edge in index.edges_of()]
        found = arrange(nodes, edges, known)
        changed = [
            (id_, round(x * PER_UNIT), round(y * PER_UNIT)) for id_, (x, y) in found.items() if known.get(id_) != (x, y)
        ]
        removed = known.keys() - found.keys()
        with index.database.write() as connection:
            if len(removed) > len(found):
                sql.among(connection, "DELETE FROM position WHERE id IN", sorted(removed))
            sql.put(connection, "INSERT OR REPLACE INTO position", changed)
    return found


class Placeable(Struct, frozen=True):
    """A memory that gets a position in pictures of the graph: its id and its space."""

    id: str
    space: str | None


class _Graph(Struct):
    """The points of a layout, one for each memory, and the connections between them. Points are referred to by their
    number."""

    at: Points
    free: NDArray[np.bool_]
    """Whether each point may move."""
    anchors: Points
    """The centre of the space of each point."""
    source: Ints
    target: Ints
    weight: NDArray[np.float64]


def arrange(
    nodes: Sequence[Placeable], edges: Sequence[tuple[str, str, float]], known: Mapping[str, tuple[float, float]]
) -> dict[str, tuple[float, float]]:
    """Return {node id: (x, y)} for each of `nodes`. `edges`: (node id, node id, weight). `known`: node id -> position.
    Nodes in `known` are not moved, unless more than half of the nodes are new: then all are placed.

    The result depends only on the arguments, not on their order. Waiting requests run first between the steps.
    """
    nodes = sorted(nodes, key=lambda node: node.id)
    new = sum(node.id not in known for node in nodes)
    if not new:
        return {node.id: known[node.id] for node in nodes}
    whole = 2 * new > len(nodes)
    placed: Mapping[str, tuple[float, float]] = {} if whole else known

    # Number the nodes, and give each that is not placed a first position.
    number = {node.id: at for at, node in enumerate(nodes)}
    inside = sorted((number[a], number[b], weight) for a, b, weight in edges if a in number and b in number and a != b)
    ends = np.array([(a, b) for a, b, _ in inside], np.int64).reshape(-1, 2)
    free = np.array([node.id not in placed for node in nodes])
    at = np.array([placed.get(node.id, (0.0, 0.0)) for node in nodes], np.float64).reshape(-1, 2)
    weights = np.array([weight for *_, weight in inside], np.float64)
    graph = _Graph(
        at=at,
        free=free,
        anchors=_space_centres(nodes, at, free),
        source=ends[:, 0],
        target=ends[:, 1],
        weight=weights,
    )
    _place_first(nodes, graph)

    # Move them step by step.
    rng = np.random.default_rng(SEED)
    steps = STEPS if whole else FEW_STEPS
    for step in range(steps):
        priority.give()
        _move(graph, max(0.0, 1 - step / (ATTRACTED * steps)), rng)
    rounded = np.round(graph.at, 3)
    return {node.id: (float(x), float(y)) for node, (x, y) in zip(nodes, rounded, strict=True)}


def _space_centres(nodes: Sequence[Placeable], at: Points, free: NDArray[np.bool_]) -> Points:
    """Return the centre of each node's space, float64[nodes, 2]. It is the mean position of the nodes of the space that
    are placed already. If none is, it is a point outside of all positions. `at`: positions; `free`: whether each node
    has no position yet."""
    sizes = Counter(node.space or "" for node in nodes)
    spaces = sorted(sizes)
    of = np.array([spaces.index(node.space or "") for node in nodes])
    radius = float(np.hypot(*at[~free].T).max(initial=0.0))
    centres, taken = np.zeros((len(spaces), 2)), 0
    for rank, space in enumerate(sorted(spaces, key=lambda space: (-sizes[space], space))):
        mine = of == spaces.index(space)
        placed = at[mine & ~free]
        if len(placed):
            centres[spaces.index(space)] = placed.mean(axis=0)
        else:  # the largest in the middle, the others around it in a spiral
            far = radius + SPREAD * (np.sqrt(taken) + (np.sqrt(sizes[space]) if taken or radius else 0.0))
            centres[spaces.index(space)] = far * np.cos(rank * GOLDEN), far * np.sin(rank * GOLDEN)
        taken += sizes[space]
    anchors: Points = centres[of]
    return anchors


def _place_first(nodes: Sequence[Placeable], graph: _Graph) -> None:
    """Give each free point a first position: near the mean of its placed neighbours, or in the circle of its space if
    it has none."""
    total, count = np.zeros_like(graph.at), np.zeros(len(nodes))
    for end, other in ((graph.source, graph.target), (graph.target, graph.source)):
        placed = graph.free[end] & ~graph.free[other]
        np.add.at(total, end[placed], graph.at[other[placed]])
        np.add.at(count, end[placed], 1)
    members = Counter(node.space for node in nodes)
    for at in map(int, np.flatnonzero(graph.free)):
        node = nodes[at]
        drawn = hashlib.sha256(node.id.encode()).digest()
        angle = int.from_bytes(drawn[:8]) / 2**64 * 2 * np.pi
        far = np.sqrt(int.from_bytes(drawn[8:16]) / 2**64)
        if count[at]:
            middle, reach = total[at] / count[at], APART
        else:
            middle, reach = graph.anchors[at], SPREAD * np.sqrt(members[node.space])
        graph.at[at] = middle + reach * far * np.array([np.cos(angle), np.sin(angle)])


def _move(graph: _Graph, heat: float, rng: np.random.Generator) -> None:
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
    move += _pushes(at, rng)
    move += 0.01 * heat * (graph.anchors - at)
    length = np.hypot(*move.T)[:, None] + 1e-9
    move *= np.minimum(1.0, (0.3 + 2.0 * heat) / length)
    graph.at[graph.free] += move[graph.free]


def _pushes(at: Points, rng: np.random.Generator) -> Points:
    """Return the vectors by which close points (nearer than `APART`) push each other away, float64[points, 2].

    In each step the plane is cut into strips of a random direction and offset. Each point is compared only with its
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
