"""Commit one change. Used by the runner, by approved proposals and by two-phase maintenance."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ormahd.actions.amend import Outcome, commit, see
from ormahd.errors import Conflict
from ormahd.jobs.job import Change

if TYPE_CHECKING:
    from ormahd.actions.caller import Caller
    from ormahd.ormah import Ormah
    from ormahd.vault.transaction import Transaction


def apply(
    ormah: Ormah, change: Change, caller: Caller, *, run: str | None, body: str | None = None,
    beside: Callable[[Transaction], None] = lambda _: None,
) -> Outcome | None:  # fmt: skip
    """Commit `change`. Return None if the change has no edits left to make.

    `body`: commit message body instead of the change's own. `beside`: adds further files to the same commit.

    Raises:
        Conflict: a note in `based_on` was edited since the change was planned. NotFound, InvalidNote: such a note is gone or
            cannot be read.
        BadRequest, Conflict, NotFound: the change is no longer possible. VaultBusy: another process holds git.
    """
    with ormah.writing:
        for node_id, digest in change.based_on.items():
            seen = see(ormah, node_id)
            if seen.digest != digest:
                raise Conflict(f"{seen.path} was edited meanwhile", data={"id": node_id})
        edits = change.edits()
        if not edits:
            return None

        def fill(tx: Transaction) -> None:
            for edit in edits:
                if edit.data is None:
                    tx.remove(edit.path, node_id=edit.node_id, expect=edit.expect)
                else:
                    tx.put(edit.path, edit.data, node_id=edit.node_id, expect=edit.expect)
            beside(tx)

        said = change.body if body is None else body
        done = commit(ormah, change.subject, kind=change.kind, caller=caller, body=said, run=run, fill=fill)
        return done if done.op is not None else None
