"""Types of `ui.*`: what a page or another program needs to show the memories. Nothing counts as used."""

from __future__ import annotations

from ormahd.api.agent import NodeResult
from ormahd.api.base import Count, Params, Result


class GraphParams(Params):
    """Which memories the graph has. Of more than `limit`, those with the most connections are taken, then the newest."""

    spaces: list[str] | None = None
    """Only memories of these spaces; `global` means memories without a space."""
    types: list[str] | None = None
    tiers: list[str] | None = None
    created_before: str | None = None
    """Only memories made until this time, or until the end of this day."""
    near: str | None = None
    """Only memories at most two connections away from this one, the nearest first."""
    to: str | None = None
    """With `near`: only a shortest chain of connections from it to this memory, in its order; none if there is no chain."""
    limit: Count = 10_000
    placed: bool = True
    """Whether memories that have no position yet get one, which may take seconds; else they are at 0, 0."""
    columns: bool = False
    """Answer with `columns` in place of `nodes` and `edges`: about a quarter of the bytes."""


class GraphNode(Result):
    """A memory in a picture. `x` and `y`: its position, the same in every picture; connected memories are near each other,
    at distances of about 1."""

    id: str
    short_id: str
    type: str
    tier: str
    space: str | None
    title: str
    """Its title, else the beginning of its text."""
    x: float
    y: float
    degree: int
    """Number of its connections, also to memories that this graph does not have."""
    access_count: int
    importance: float
    about_self: bool
    created: str
    valid_until: str | None
    """A time in the past means that the memory is outdated."""
    path: str
    """Path of the note, relative to the vault."""


class GraphEdge(Result):
    source_id: str
    target_id: str
    edge_type: str
    weight: float
    created: str | None


class GraphColumns(Result):
    """The fields of `GraphNode` and `GraphEdge` that a picture needs, one list each. `source` and `target` are positions
    in the lists of the memories."""

    id: list[str]
    type: list[str]
    tier: list[str]
    title: list[str]
    x: list[float]
    y: list[float]
    degree: list[int]
    created: list[str]
    """The days, as `2026-11-28`."""
    source: list[int]
    target: list[int]
    edge_type: list[str]


class GraphResult(Result):
    nodes: list[GraphNode]
    edges: list[GraphEdge]
    """The connections whose two ends are among `nodes`."""
    user_node_id: str | None
    """The memory that stands for the person, also if it is not among `nodes`."""
    total: int
    """Number of memories that match; more than `nodes` has if `limit` was reached."""
    degraded: list[str] = []
    """`index` while the index may still lack memories of the vault: the answer is then not all of it."""
    columns: GraphColumns | None = None


class GraphNodeParams(Params):
    node_id: str


class GraphNodeResult(Result):
    node: NodeResult
    edges: list[GraphEdge]
    neighbors: list[GraphNode]
    """The memories at the other ends of `edges`."""


class UiSearchParams(Params):
    query: str
    limit: int = 20
    spaces: list[str] | None = None
    types: list[str] | None = None
    tiers: list[str] | None = None
    tags: list[str] | None = None
    created_after: str | None = None
    created_before: str | None = None
    explain: bool = False
    """Each result has the numbers of its score in `trace`."""
