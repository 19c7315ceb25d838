"""Show one memory in full, with its connections. This counts as using it."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from ormahd.actions.as_of import looking_back
from ormahd.actions.older import replaced_today
from ormahd.actions.views import node_view
from ormahd.api import NodeResult
from ormahd.errors import NotFound
from ormahd.vault.revisions import readable

if TYPE_CHECKING:
    from ormahd.actions.as_of import Progress
    from ormahd.ormah import Ormah


def get(ormah: Ormah, node_id: str, *, session_id: str | None = None, touch: bool = True) -> NodeResult:
    """Return the node that `node_id` names (full id, or a unique prefix of at least 4 characters). `touch`: count
    this as a use.

    Raises:
        NotFound, Ambiguous, BadRequest: the id.
    """
    row = ormah.index.note(ormah.index.resolve(node_id))
    if touch:
        now = ormah.ranking_clock()
        ormah.state.asked(now)
        ormah.state.touch([row.id], how="get", session_id=session_id, at=now)
    return node_view(ormah.index, row, older_than=replaced_today(ormah, [row.id]).get(row.id))


def get_as_of(ormah: Ormah, node_id: str, as_of: str, *, progress: Progress) -> NodeResult:
    """Return the node as it was at a time or commit, even if it was forgotten since. Does not count as a use.

    Raises:
        NotFound, Ambiguous, BadRequest: the id, or the time.
    """
    with looking_back(ormah, as_of, progress) as (past, told, _):
        try:
            row = past.note(past.resolve(node_id))
        except NotFound as exc:
            raise NotFound(
                f"no memory had the id {node_id.strip()!r} then ({readable(datetime.fromisoformat(told.now))}, commit {told.commit[:8]})",
                hint=f"`ormahctl history {node_id.strip()}` tells when it came",
            ) from exc
        return node_view(past, row, told)
