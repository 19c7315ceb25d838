"""Commit what a person did to files of the vault, in the person's name: new notes, edits, moves and deletions."""

from __future__ import annotations

import os
from collections.abc import Sequence

from msgspec import Struct

from ormahd.errors import Conflict, VaultBusy
from ormahd.model.change import Kind
from ormahd.note.values import Note
from ormahd.vault.vault import Vault

BUSY_S = 1.0
"""Seconds after which a commit is tried again while another git is at work."""


class FileEdit(Struct, frozen=True):
    """One file of a commit.

    `data`: its new bytes; None: it was deleted. `expect`: the sha256 of the bytes that were read (None: no file).
    `name`: its name in the commit's subject. `moved`: the note's earlier paths.
    """

    path: str
    data: bytes | None
    node_id: str | None
    expect: str | None
    name: str
    moved: tuple[str, ...] = ()


def label(note: Note) -> str:
    """Return the name that a note has in a commit's subject: its title, or its file name without `.md`."""
    return note.title or os.path.basename(note.path)[:-3] or note.path


def subject(verb: str, names: Sequence[str]) -> str:
    """Return a commit's subject: `Edit: Title`, `Edit 2 notes: A, B`, or `Edit 12 notes: A, B and 10 more`."""
    if len(names) == 1:
        return f"{verb}: {names[0]}"
    if len(names) <= 3:
        return f"{verb} {len(names)} notes: {', '.join(names)}"
    return f"{verb} {len(names)} notes: {', '.join(names[:2])} and {len(names) - 2} more"


def commit(vault: Vault, verb: str, edits: Sequence[FileEdit], *, quiet: float) -> tuple[int, dict[str, float]]:
    """Commit the files of `edits` as one op in the person's name. `verb`: the first word of its subject, such as
    `Edit`.

    Return (number of files committed, `{path: seconds until it is tried again}` of the files that were not). A file is
    not committed if it was saved again since it was read; it is then tried after `quiet` seconds. None is while another
    git is at work.
    """
    waiting: dict[str, float] = {}
    with vault.between_writes():
        pass  # wait: these bytes may be those of an op that is being written, and are in HEAD afterwards

    # A conflict takes its files out of the commit, which is then tried again with the others.
    while edits:
        try:
            sentence = subject(verb, [edit.name for edit in edits])
            with vault.transaction(sentence, kind=Kind.EDIT, source="person", person=True) as tx:
                for edit in edits:
                    for old in edit.moved:
                        tx.remove(old, node_id=edit.node_id, expect=None)
                    if edit.data is None:
                        tx.remove(edit.path, node_id=edit.node_id, expect=edit.expect)
                    else:
                        tx.put(edit.path, edit.data, node_id=edit.node_id, expect=edit.expect)
        except Conflict as exc:
            path = exc.data.get("path")
            lost = {edit.path for edit in edits if path in {edit.path, *edit.moved}} or {edit.path for edit in edits}
            waiting |= dict.fromkeys(lost, quiet)
            edits = [edit for edit in edits if edit.path not in lost]
        except VaultBusy:
            return 0, waiting | {edit.path: BUSY_S for edit in edits}
        else:
            if tx.committed is None:  # HEAD has the content already: the next scan indexes it
                return 0, waiting | {edit.path: 0.0 for edit in edits}
            return len(edits), waiting
    return 0, waiting
