"""Remove a memory's note. Git keeps it, so this can be undone; links to it in other notes are left unchanged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ormahd.actions.amend import amending, commit, see
from ormahd.actions.caller import Caller
from ormahd.actions.views import headline
from ormahd.api import WriteResult
from ormahd.errors import BadRequest
from ormahd.model.change import Kind
from ormahd.model.node import short_id

if TYPE_CHECKING:
    from ormahd.ormah import Ormah


def forget(ormah: Ormah, node_id: str, caller: Caller) -> WriteResult:
    """Remove the note of the node that `node_id` (full id or unique prefix) names.

    Links to it stay in other notes, and resolve again if this is undone.

    Raises:
        NotFound, Ambiguous, BadRequest: the id; the self node, which cannot be forgotten.
    """
    node_id = ormah.index.resolve(node_id)
    if node_id == ormah.vault.self_id:
        raise BadRequest("the self node stands for you and cannot be forgotten", hint="change it: ormahctl update ID")

    def attempt() -> WriteResult:
        seen = see(ormah, node_id)
        name = headline(seen.note.title, seen.note.content)
        done = commit(
            ormah, f"Forget: {name}", kind=Kind.FORGET, caller=caller,
            fill=lambda tx: tx.remove(seen.path, node_id=node_id, expect=seen.digest),
        )  # fmt: skip
        text = f"Forgotten: {name} (id: {node_id}). Git keeps it: op {done.op}"
        return WriteResult(text, node_id, short_id(node_id), seen.path, done.commit, done.op, stored=done.stored,
                       degraded=ormah.degraded())  # fmt: skip

    return amending(ormah, attempt)
