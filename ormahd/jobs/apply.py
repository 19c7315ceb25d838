"""One change into one commit: for the runner, for proposals that were approved, for two-phase maintenance."""

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
    """Commit `change`; None: there is nothing left to do, and nothing was done. `body` in place of the change's own;
    `beside` puts further files into the same commit.

    Raises:
        Conflict: a note that it was decided on is another by now. NotFound, InvalidNote: one cannot be read any more.
        BadRequest, Conflict, NotFound: the change makes no sense any more. VaultBusy: git is held, and nothing was done.
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
