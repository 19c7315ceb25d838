"""List how beliefs changed and which contradict each other, read from `evolved_from` and `contradicts` edges."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ormahd.actions.views import headline, iso
from ormahd.api import Belief, Evolution, InsightsResult, Tension
from ormahd.model.node import EdgeType

if TYPE_CHECKING:
    from datetime import datetime

    from ormahd.index.rows import EdgeRow, NodeRow
    from ormahd.ormah import Ormah


def insights(ormah: Ormah, *, limit: int, space: str | None = None) -> InsightsResult:
    """Return the newest `limit` of each kind, newest first. `space`: only that space ("global": memories without one)."""
    wanted = {EdgeType.EVOLVED_FROM, EdgeType.CONTRADICTS}
    edges = [edge for edge in ormah.index.edges_of() if edge.edge in wanted]
    rows = ormah.index.notes([end for edge in edges for end in (edge.source, edge.target)], connections=False)
    edges = [
        edge for edge in edges
        if {edge.source, edge.target} <= rows.keys()
        and (space is None or space in {rows[end].space or "global" for end in (edge.source, edge.target)})
    ]  # fmt: skip
    edges.sort(key=lambda edge: (_time(edge, rows), edge.source, edge.target), reverse=True)
    now = ormah.ranking_clock()
    evolutions = [
        Evolution(_belief(rows[edge.source]), _belief(rows[edge.target]), iso(_time(edge, rows)) or "", edge.reason, edge.weight)
        for edge in edges if edge.edge is EdgeType.EVOLVED_FROM
    ]  # fmt: skip
    tensions: dict[frozenset[str], Tension] = {}
    for edge in edges:
        if edge.edge is EdgeType.CONTRADICTS:  # edges in both directions are one contradiction
            one, two = rows[edge.source], rows[edge.target]
            tensions.setdefault(frozenset((one.id, two.id)), Tension(
                _belief(one), _belief(two), iso(_time(edge, rows)) or "", edge.reason, edge.weight,
                one.expired(now) or two.expired(now),
            ))  # fmt: skip
    found = evolutions[:limit], list(tensions.values())[:limit]
    return InsightsResult(_prose(*found), *found)


def _time(edge: EdgeRow, rows: dict[str, NodeRow]) -> datetime:
    return edge.created or rows[edge.source].created


def _belief(row: NodeRow) -> Belief:
    return Belief(
        row.id, row.short_id, row.type.value, row.space, headline(row.title, row.content), row.content,
        iso(row.created) or "", iso(row.valid_until), row.outdated_reason,
    )  # fmt: skip


def _prose(evolutions: list[Evolution], tensions: list[Tension]) -> str:
    lines = []
    if evolutions:
        lines.append("Beliefs that changed:")
        lines += [
            f"- {one.time[:10]}: {one.newer.title} (id: {one.newer.id}) replaced {one.older.title} (id: {one.older.id})"
            f"{_why(one.reason)}"
            for one in evolutions
        ]
    if tensions:
        lines += ["", "Contradictions:"] if lines else ["Contradictions:"]
        lines += [
            f"- {one.time[:10]}: {one.a.title} (id: {one.a.id}) against {one.b.title} (id: {one.b.id})"
            f"{' [settled]' if one.settled else ''}{_why(one.reason)}"
            for one in tensions
        ]
    return "\n".join(lines) or "No belief has changed, and none contradicts another."


def _why(reason: str | None) -> str:
    return f": {' '.join(reason.split())}" if reason else ""
