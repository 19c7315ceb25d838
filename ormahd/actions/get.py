"""One memory in full, with its connections. Looking at a memory counts as using it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ormahd.actions.views import NodeView, node_view

if TYPE_CHECKING:
    from ormahd.ormah import Ormah


def get(ormah: Ormah, node_id: str, *, session_id: str | None = None, touch: bool = True) -> NodeView:
    """The node that `node_id` (full id or unique prefix of 4 or more characters) names; with `touch` this counts as using it.

    Raises:
        NotFound, Ambiguous, BadRequest: the id.
    """
    row = ormah.index.note(ormah.index.resolve(node_id))
    if touch:
        ormah.state.touch([row.id], how="get", session_id=session_id)
    return node_view(ormah, row)
