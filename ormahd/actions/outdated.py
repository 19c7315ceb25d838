"""Mark a memory as outdated, or revoke that. An outdated memory stays in the vault but leaves the results."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ormahd.actions.amend import amending, clean, commit, see
from ormahd.actions.caller import Caller
from ormahd.actions.superseding import superseded_by
from ormahd.actions.views import headline
from ormahd.api import WriteResult
from ormahd.errors import BadRequest
from ormahd.model.change import Kind
from ormahd.model.node import short_id
from ormahd.note import note as codec

if TYPE_CHECKING:
    from ormahd.ormah import Ormah


def outdated(
    ormah: Ormah, node_id: str, caller: Caller, *, reason: str | None, revoke: bool, by: str | None = None
) -> WriteResult:
    """Set `valid_until` to now with a reason; with `revoke` clear both. `by`: id of the memory that replaces it,
    which gets an `evolved_from` edge.

    Raises:
        NotFound, Ambiguous: an id. BadRequest: a reason or `by` together with `revoke`; the self node.
    """
    if by is not None:
        if revoke:
            raise BadRequest("--by and --revoke exclude each other", hint="leave one of them out")
        return superseded_by(ormah, node_id, by, caller, reason=reason)
    if revoke and reason:
        raise BadRequest("a reason and --revoke exclude each other", hint="leave one of them out")
    node_id = ormah.index.resolve(node_id)
    if node_id == ormah.vault.self_id and not revoke:
        raise BadRequest("the self node cannot be outdated", hint="change it: ormahctl update ID")
    found: list[str] = []
    reason = clean(ormah, reason, found)

    def attempt() -> WriteResult:
        seen = see(ormah, node_id)
        name = headline(seen.note.title, seen.note.content)
        now = ormah.moment()
        if revoke:
            edited = codec.edit(seen.data, seen.path, clear=["valid_until", "outdated_reason"])
            subject, text = f"Valid again: {name}", f"Valid again: {name} (id: {node_id})"
        elif (
            seen.note.valid_until is not None
            and seen.note.valid_until <= now
            and reason in (None, seen.note.outdated_reason)
        ):
            edited = seen.data  # repeated: the first time stays
            subject = text = f"Outdated already: {name} (id: {node_id})"
        else:
            wish = {"valid_until": now} | ({"outdated_reason": reason} if reason else {})
            edited = codec.edit(seen.data, seen.path, set=wish, clear=[] if reason else ["outdated_reason"])
            subject, text = f"Outdated: {name}", f"Outdated: {name} (id: {node_id}). It no longer shows up in recall."
        if edited == seen.data:
            return WriteResult(text if not revoke else f"Was not outdated: {name} (id: {node_id})", node_id, short_id(node_id),
                           seen.path, changed=False, redacted=found, degraded=ormah.degraded())  # fmt: skip
        edited = codec.edit(edited, seen.path, set={"updated": now})
        done = commit(
            ormah, subject, kind=Kind.OUTDATED, caller=caller, body=reason or "",
            fill=lambda tx: tx.put(seen.path, edited, node_id=node_id, expect=seen.digest),
        )  # fmt: skip
        return WriteResult(text, node_id, short_id(node_id), seen.path, done.commit, done.op, True, found, [], done.stored,
                       ormah.degraded())  # fmt: skip

    return amending(ormah, attempt)
