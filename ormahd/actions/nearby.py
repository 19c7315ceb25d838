"""Memories that exist already and are close in meaning to one that was just written, and what to say if it replaces one."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from ormahd.actions.views import NearView, headline, iso

if TYPE_CHECKING:
    from ormahd.index.rows import NodeRow
    from ormahd.ormah import Ormah

CLOSE = 0.55
"""Least cosine of a memory that is named: below it, most pairs speak of different things."""
MOST = 3
"""Memories that are named at most: an agent reads them between two steps of its work."""
BEGINNING = 160
"""Characters of a memory that are shown."""


def nearby(
    ormah: Ormah, near: Sequence[tuple[str, float]], space: str | None, *, but: Collection[str] = ()
) -> list[NearView]:
    """Return the closest living memories of this space and of no space, best first; `near`: (id, cosine), best first."""
    chosen = [(node_id, cosine) for node_id, cosine in near if cosine >= CLOSE and node_id not in but]
    rows = ormah.index.notes([node_id for node_id, _ in chosen], connections=False)
    now = ormah.moment()
    views = [
        _view(rows[node_id], cosine)
        for node_id, cosine in chosen
        if node_id in rows and node_id != ormah.vault.self_id and not rows[node_id].expired(now)
        and (space is None or rows[node_id].space in (space, None))
    ]  # fmt: skip
    return views[:MOST]


def told(near: Sequence[NearView], newer: str) -> list[str]:
    """Return lines for an agent: what exists, and what to do if the memory `newer` (short id) replaces one of them."""
    if not near:
        return []
    lines = ["Close to what is known already:"]
    lines += [f"- {one.content} ({one.short_id}, {one.created[:10]})" for one in near]
    return [*lines, f"If the new memory replaces one of them: ormahctl outdated {near[0].short_id} --by {newer}"]


def _view(row: NodeRow, cosine: float) -> NearView:
    return NearView(
        row.id, row.short_id, row.title, row.type.value, row.space, headline(None, row.content, BEGINNING),
        iso(row.created) or "", round(cosine, 3),
    )  # fmt: skip
