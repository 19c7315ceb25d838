"""The graph of memories, for a picture: nodes with positions, and edges. Looking at it does not count as a use."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence

from ormahd import api
from ormahd.actions.lookup import filter_for, get
from ormahd.actions.views import headline, iso, of_row
from ormahd.index import graph as pictures
from ormahd.index.graph import PictureRow
from ormahd.index.index import Index
from ormahd.index.rows import EdgeRow, Filter, moment, moment_or_none
from ormahd.model.node import ABOUT_SELF, Narrowing, Strength, short_id
from ormahd.ormah import Ormah

NEAR = 2
"""Greatest number of connections from a memory to those in its surroundings."""
NODE_COLUMNS = ("id", "type", "tier", "title", "x", "y", "degree")
TITLE = 120
"""Maximum number of characters of a title, or of the beginning of a text that has none."""


def graph(ormah: Ormah, params: api.GraphParams) -> api.GraphResult:
    """Return the memories that match, with the edges between them.

    If more than `limit` match, the result has the memories nearest to `near`. Without `near` it has the self node, then
    those with the most connections, then the newest.

    Raises:
        NotFound, Ambiguous, BadRequest: an id is unknown, not unique, or invalid.
    """
    # The memories to show, best first: around one of them, or all
    lacking, index, self_id = ormah.lacking(), ormah.index, ormah.vault.self_id
    chosen = filter_for(Narrowing.of(params))
    distances = Counter[str]()
    if params.near is None:
        rows, degrees = pictures.rows(index, chosen), index.degrees()
    else:
        start = _node_result(ormah, params.near).id
        distances.update(_distances(index, start, params.to and _node_result(ormah, params.to).id))
        rows = pictures.rows(index, chosen, list(distances))
        degrees = Counter(end for edge in index.edges_of(list(distances)) for end in (edge.source, edge.target))
    rows.sort(key=lambda row: (distances[row.id], row.id != self_id, -degrees.get(row.id, 0), -row.created, row.id))
    nodes = _nodes(ormah, rows[: params.limit], degrees, placed=params.placed)

    # The edges between them. Reading all edges is faster than many single ones
    position = {one.id: at for at, one in enumerate(nodes)}
    edges = index.edges_of(None if len(position) > max(1_000, len(rows) // 2) else list(position))  # which is faster
    edges = [edge for edge in edges if edge.source in position and edge.target in position]

    # As objects, or as columns, which are smaller
    result = api.GraphResult(nodes=[], edges=[], user_node_id=self_id, total=len(rows), degraded=lacking)
    if not params.columns:
        result.nodes, result.edges = nodes, [_edge_view(edge) for edge in edges]
        return result
    result.columns = api.GraphColumns(
        **{name: [getattr(node, name) for node in nodes] for name in NODE_COLUMNS},
        created=[node.created[:10] for node in nodes],
        source=[position[edge.source] for edge in edges],
        target=[position[edge.target] for edge in edges],
        edge_type=[edge.edge.value for edge in edges],
    )
    return result


def _distances(index: Index, start: str, end: str | None) -> dict[str, int]:
    """Return {id: number of edges from `start`} for the memories that are at most `NEAR` edges away. With `end`: for
    the memories of a shortest path from `start` to `end`, empty if there is none."""
    before, distances, ring = dict[str, str](), {start: 0}, [start]
    while ring and (end is None or end not in distances) and (end or distances[ring[0]] < NEAR):
        pairs = [(edge.source, edge.target) for edge in index.edges_of(ring)]
        inside = set(ring)
        for one, other in sorted(pairs + [(target, source) for source, target in pairs]):
            if one in inside and other not in distances:
                before[other], distances[other] = one, distances[one] + 1
        ring = [one for one in distances if distances[one] == distances[ring[0]] + 1]
    if end is None:
        return distances
    chain = [end] if end in distances else []
    while chain and chain[-1] != start:
        chain.append(before[chain[-1]])
    return {one: distances[one] for one in chain}


def graph_node(ormah: Ormah, params: api.GraphNodeParams) -> api.GraphNodeResult:
    """Return one memory with its edges and their other ends.

    Raises:
        NotFound, Ambiguous, BadRequest: the id is unknown, not unique, or invalid.
    """
    node = _node_result(ormah, params.node_id)
    edges = ormah.index.edges_of([node.id])
    ends = {end for edge in edges for end in (edge.source, edge.target)} - {node.id}
    rows = pictures.rows(ormah.index, Filter(), sorted(ends))
    return api.GraphNodeResult(
        node=node, edges=[_edge_view(edge) for edge in edges], neighbors=_nodes(ormah, rows, ormah.index.degrees())
    )


def _node_result(ormah: Ormah, node_id: str) -> api.NodeResult:
    """Return the memory as `get` returns it. Does not count as an access."""
    return get(ormah, api.NodeParams(node_id=node_id, touch=False))


def _nodes(
    ormah: Ormah, rows: Sequence[PictureRow], degrees: Mapping[str, int], *, placed: bool = True
) -> list[api.GraphNode]:
    """Return the graph's nodes for `rows`. `degrees`: {id: number of edges}.

    `placed`: nodes without a position get one. They are left out if the memory was forgotten or stored a moment ago.
    """
    positions = pictures.positions(ormah.index, [row.id for row in rows] if placed else [])
    nodes = []
    for row in rows if not placed else [row for row in rows if row.id in positions]:
        x, y = positions.get(row.id, (0.0, 0.0))
        strength = ormah.index.strength.get(row.id, Strength())
        node = api.GraphNode(
            id=row.id,
            short_id=short_id(row.id),
            type=row.type,
            tier=row.tier,
            space=row.space,
            title=headline(row.title, row.content, TITLE),
            x=x,
            y=y,
            degree=degrees.get(row.id, 0),
            access_count=strength.access_count,
            importance=round(strength.importance, 4),
            about_self=ABOUT_SELF in json.loads(row.tags),
            created=iso(moment(row.created)) or "",
            valid_until=iso(moment_or_none(row.valid_until)),
            path=row.path,
        )
        nodes.append(node)
    return nodes


def _edge_view(edge: EdgeRow) -> api.GraphEdge:
    """Return the edge as the protocol has it."""
    return of_row(api.GraphEdge, edge, source_id=edge.source, target_id=edge.target, edge_type=edge.edge.value)
