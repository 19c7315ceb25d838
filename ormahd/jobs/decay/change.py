"""Make the change that moves a memory to another tier: to the archive, back from it, or out of core. Each is one commit.

Nothing is deleted and no text changes. Search still finds an archived memory if no other memory fits as well, and opening it
brings it back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ormahd.actions.amend import see
from ormahd.actions.views import headline
from ormahd.errors import BadRequest, Conflict
from ormahd.jobs.job import Change, Edit, nothing
from ormahd.model.change import Kind
from ormahd.model.node import Tier, short_id
from ormahd.note import note as codec

if TYPE_CHECKING:
    from ormahd.index.rows import NodeRow
    from ormahd.ormah import Ormah


def fade(ormah: Ormah, node_id: str, *, reason: str, body: str = "", done: Callable[[], None] = nothing) -> Change:
    """Return the change that moves a memory from working to archival.

    `node_id`: a full id. The commit's body is `reason`, then `body`. `done` is called after the commit.

    Raises:
        NotFound: the id is unknown. BadRequest: it is the self node. Conflict: the memory is not in working.
    """
    return _moved(ormah, node_id, Tier.WORKING, Tier.ARCHIVAL, Kind.DECAY, "Fade", reason, body, done)


def bring_back(
    ormah: Ormah, node_id: str, *, reason: str, body: str = "", done: Callable[[], None] = nothing
) -> Change:
    """Return the change that moves a memory from archival to working. Parameters and errors as for `fade`."""
    return _moved(ormah, node_id, Tier.ARCHIVAL, Tier.WORKING, Kind.PROMOTE, "Bring back", reason, body, done)


def leave_core(
    ormah: Ormah, node_id: str, *, reason: str, body: str = "", done: Callable[[], None] = nothing
) -> Change:
    """Return the change that moves a memory from core to working. Parameters and errors as for `fade`."""
    return _moved(ormah, node_id, Tier.CORE, Tier.WORKING, Kind.DECAY, "Leave core", reason, body, done)


def _moved(
    ormah: Ormah, node_id: str, was: Tier, becomes: Tier, kind: Kind, verb: str, reason: str, body: str,
    done: Callable[[], None],
) -> Change:  # fmt: skip
    row = ormah.index.note(node_id)
    name = headline(row.title, row.content)
    if row.id == ormah.vault.self_id:
        raise BadRequest(f"“{name}” is the self node, which stays in core", hint="choose another memory")
    _stands(row.tier, row, was)

    def edits() -> Sequence[Edit]:
        seen = see(ormah, row.id)
        _stands(seen.note.tier, row, was)
        data = codec.edit(seen.data, seen.path, set={"tier": becomes, "updated": ormah.moment()})
        return [Edit(row.id, seen.path, data, seen.digest)]

    said = "\n".join(part for part in (reason, body) if part)
    return Change(kind, f"{verb}: {name}", said, edits, {row.id: row.digest}, done=done)


def _stands(tier: Tier, row: NodeRow, wanted: Tier) -> None:
    if tier is not wanted:
        raise Conflict(
            f"{short_id(row.id)} “{headline(row.title, row.content)}” is {tier.value}, not {wanted.value}",
            hint="nothing needs to be done",
        )
