"""Find existing memories similar to one just written, and suggest what to do if it replaces one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from ormahd.actions.views import headline, iso
from ormahd.api import Near
from ormahd.errors import Unavailable
from ormahd.model.node import NodeType
from ormahd.text.standing import Compared, Relation, compare
from ormahd.text.statement import Statement, read

if TYPE_CHECKING:
    from ormahd.index.rows import NodeRow
    from ormahd.ormah import Ormah

CLOSE = 0.55
"""Minimum cosine of a memory that is listed without further evidence: pairs below it mostly have different topics."""
FAR = 0.2
"""Minimum cosine of a memory that is listed because the texts show that the new one replaces it."""
MOST = 3
"""Maximum number of memories listed."""
BEGINNING = 160
"""Characters shown of a memory."""


def nearby(
    ormah: Ormah,
    near: Sequence[tuple[str, float]],
    written: tuple[str | None, str, NodeType],
    space: str | None,
    *,
    but: Collection[str] = (),
) -> list[Near]:
    """Return living memories of this space, or global ones, that are close to the memory just `written` (title, content, type).

    Memories that it seems to replace come first, then the nearest. `near`: (id, cosine), best first. `but`: ids to
    leave out.
    """
    chosen = [(node_id, cosine) for node_id, cosine in near if cosine >= FAR and node_id not in but]
    rows = ormah.index.notes([node_id for node_id, _ in chosen], connections=False)
    now = ormah.moment()
    statement: Statement | None = None
    views: list[Near] = []
    for node_id, cosine in chosen:
        row = rows.get(node_id)
        if row is None or node_id == ormah.vault.self_id or row.expired(now):
            continue
        if space is not None and row.space not in (space, None):
            continue
        statement = statement or read(*written)
        found = compare(read(row.title, row.content, row.type), statement, cosine)
        if cosine >= CLOSE or found.verdict is Relation.REPLACED:
            views.append(_view(row, cosine, found))
    return sorted(views, key=lambda one: one.standing != Relation.REPLACED)[:MOST]


def at_best(look: Callable[[], list[Near]]) -> list[Near]:
    """Return the result of `look`; empty while the index is being rebuilt, because the change itself is already stored."""
    try:
        return look()
    except Unavailable:
        return []


def told(near: Sequence[Near], newer: str) -> list[str]:
    """Return lines for an agent: what exists, and what to do if the memory `newer` (short id) replaces one of them."""
    if not near:
        return []
    first = near[0]
    lines = ["Close to what is known already:"]
    lines += [f"- {one.content} ({one.short_id}, {one.created[:10]})" for one in near]
    if first.standing == Relation.REPLACED:
        return [*lines, f"It seems to replace {first.short_id}. If so: ormahctl outdated {first.short_id} --by {newer}"]
    return [*lines, f"If the new memory replaces one of them: ormahctl outdated {first.short_id} --by {newer}"]


def _view(row: NodeRow, cosine: float, found: Compared) -> Near:
    return Near(
        row.id, row.short_id, row.title, row.type.value, row.space, headline(None, row.content, BEGINNING),
        iso(row.created) or "", round(cosine, 3), found.verdict.value,
    )  # fmt: skip
