"""Export all memories as lines that `import` can read, for backup or migration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ormahd.actions.views import iso
from ormahd.api import ExportResult
from ormahd.errors import BadRequest
from ormahd.note.note import parse

if TYPE_CHECKING:
    from ormahd.index.rows import EdgeRow, NodeRow
    from ormahd.ormah import Ormah

MAX_PAGE = 2_000


def export(ormah: Ormah, *, after: str | None, limit: int) -> ExportResult:
    """Return a page of memories in the order of their ids, after the id `after`. `next` is None on the last page."""
    if not 1 <= limit <= MAX_PAGE:
        raise BadRequest(f"limit must be between 1 and {MAX_PAGE}, it is {limit}")
    ids = [node_id for node_id in sorted(ormah.index.ids()) if after is None or node_id > after]
    page = ids[:limit]
    rows = ormah.index.notes(page, connections=False)
    written: dict[str, list[EdgeRow]] = {}
    for edge in ormah.index.edges_of(page):
        if not edge.body:  # a wikilink is part of the exported body
            written.setdefault(edge.source, []).append(edge)
    items = []
    for node_id, row in rows.items():
        edges = [
            {
                "target": edge.target,
                "edge": edge.edge.value,
                "weight": edge.weight,
                "created": iso(edge.created),
                "reason": edge.reason,
            }
            for edge in written.get(node_id, [])
        ]
        items.append(_item(row) | {"connections": edges} | ({"global": True} if _everywhere(ormah, row) else {}))
    return ExportResult(items, page[-1] if len(ids) > limit else None)


def _everywhere(ormah: Ormah, row: NodeRow) -> bool:
    """Whether the note says explicitly that the memory is global; only the note records this."""
    data = ormah.vault.read(row.path) if row.space is None else None
    return data is not None and b"global:" in data and parse(data, row.path).everywhere


def _item(row: NodeRow) -> dict[str, Any]:
    return {
        "id": row.id, "short_id": row.short_id, "type": row.type.value, "tier": row.tier.value, "space": row.space,
        "title": row.title, "content": row.content, "tags": list(row.tags), "source": row.source,
        "confidence": row.confidence, "created": iso(row.created), "updated": iso(row.updated),
        "valid_until": iso(row.valid_until), "outdated_reason": row.outdated_reason, "path": row.path,
    }  # fmt: skip
