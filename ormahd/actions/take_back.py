"""Restore this machine's text in notes where a sync on another machine replaced it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ormahd.actions.amend import amending, commit, see
from ormahd.actions.partly import saying
from ormahd.api import ConflictItem, TakeBackResult
from ormahd.errors import BadRequest
from ormahd.model.change import Kind
from ormahd.note import note as codec
from ormahd.sync.replaced import taken_back
from ormahd.vault import conflicts

if TYPE_CHECKING:
    from ormahd.actions.amend import Outcome
    from ormahd.actions.caller import Caller
    from ormahd.ormah import Ormah
    from ormahd.vault.conflicts import Aside


def take_back(ormah: Ormah, name: str, caller: Caller) -> TakeBackResult:
    """Restore the text in the notes that `name` selects (as in `conflicts.find`), each in a commit of its own.

    Raises:
        NotFound, Ambiguous: the name. BadRequest: nothing of this machine was replaced there. Conflict: the text was changed
        since. The note that fails is unchanged; notes restored before it stay so, and the error names them.
    """
    root = ormah.vault.root
    settled: list[ConflictItem] = []
    commits: list[str] = []
    for one in conflicts.find(root, name):
        with saying(lambda: f"taken back before that: {', '.join(one.path for one in settled)}" if settled else ""):
            done = amending(ormah, lambda one=one: _one(ormah, one, caller))  # type: ignore[misc]
        if done.commit is not None:
            commits.append(done.commit)
        conflicts.settle(root, [one])
        settled.append(conflicts.item(one))
    return TakeBackResult(settled, commits, len(conflicts.waiting(root)))


def _one(ormah: Ormah, one: Aside, caller: Caller) -> Outcome:
    if one.node is None:
        raise BadRequest(f"{one.path} is no memory", hint="compare its versions and put it right by hand")
    seen = see(ormah, one.node)
    data = taken_back(ormah.vault, one, seen.data)
    if data != seen.data:
        data = codec.edit(data, seen.path, set={"updated": ormah.moment()})
    body = f"A sync on {one.by or 'another machine'} (op {one.op}) had replaced it: {', '.join(one.fields)}."
    return commit(
        ormah, f"Taken back: {one.path}", kind=Kind.UPDATE, caller=caller, body=body,
        fill=lambda tx: tx.put(seen.path, data, node_id=seen.id, expect=seen.digest),
    )  # fmt: skip
