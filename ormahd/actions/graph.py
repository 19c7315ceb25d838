"""The graph of memories, for a picture: nodes with positions, and edges. Looking at it does not count as a use."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from ormahd.actions.lookup import get
from ormahd.actions.views import headline, iso
from ormahd.api import GraphEdge, GraphNode, GraphNodeResult, GraphResult
from ormahd.index import graph as pictures
from ormahd.index.rows import Filter, moment, moment_or_none
from ormahd.model.node import ABOUT_SELF, Strength, short_id

if TYPE_CHECKING:
    from ormahd.index.graph import PictureRow
    from ormahd.index.rows import EdgeRow
    from ormahd.model.node import Narrowing
    from ormahd.ormah import Ormah

TITLE = 120
"""Maximum number of characters of a title, or of the beginning of a text that has none."""


def graph(ormah: Ormah, narrowing: Narrowing, limit: int) -> GraphResult:
    """Return the memories that match `narrowing`, with the connections between them.

    If more than `limit` match: the self node, then those with the most connections, then the newest.
    """
    chosen = Filter(
        types=None if narrowing.types is None else tuple(narrowing.types),
        tiers=None if narrowing.tiers is None else tuple(narrowing.tiers),
        spaces=None if narrowing.spaces is None else tuple(narrowing.spaces),
    )
    lacking = ormah.lacking()
    rows, degrees, self_id = pictures.rows(ormah.index, chosen), ormah.index.degrees(), ormah.vault.self_id
    rows.sort(key=lambda row: (row.id != self_id, -degrees.get(row.id, 0), -row.created, row.id))
    nodes = _nodes(ormah, rows[:limit], degrees)
    there = {one.id for one in nodes}
    between = [_edge(one) for one in ormah.index.edges_of() if one.source in there and one.target in there]
    return GraphResult(nodes, between, self_id, len(rows), lacking)


def graph_node(ormah: Ormah, node_id: str) -> GraphNodeResult:
    """Return one memory with its connections and their other ends. Raises NotFound, Ambiguous, BadRequest: the id."""
    node = get(ormah, node_id, touch=False)
    edges = ormah.index.edges_of([node.id])
    ends = {end for edge in edges for end in (edge.source, edge.target)} - {node.id}
    rows = pictures.rows_of(ormah.index, sorted(ends))
    return GraphNodeResult(node, [_edge(edge) for edge in edges], _nodes(ormah, rows, ormah.index.degrees()))


def _nodes(ormah: Ormah, rows: Iterable[PictureRow], degrees: Mapping[str, int]) -> list[GraphNode]:
    """Return the graph's nodes for `rows`. Memories without a position in the picture are left out: they were
    forgotten or stored a moment ago."""
    at, strength = pictures.positions(ormah.index), ormah.index.strength
    return [
        _node(row, at[row.id], degrees.get(row.id, 0), strength.get(row.id, Strength())) for row in rows if row.id in at
    ]


def _node(row: PictureRow, at: tuple[float, float], degree: int, strength: Strength) -> GraphNode:
    return GraphNode(
        row.id, short_id(row.id), row.type, row.tier, row.space, headline(row.title, row.content, TITLE), *at, degree,
        strength.access_count, round(strength.importance, 4), ABOUT_SELF in json.loads(row.tags),
        iso(moment(row.created)) or "", iso(moment_or_none(row.valid_until)), row.path,
    )  # fmt: skip


def _edge(edge: EdgeRow) -> GraphEdge:
    return GraphEdge(edge.source, edge.target, edge.edge.value, edge.weight, iso(edge.created))
