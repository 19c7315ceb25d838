"""Decide what to do with a changed file: index it, commit it as the person's edit, give it an id, or leave it alone.

A decision depends only on the file, and on which file has its id. The order matters: conflict markers, git's attributes,
secrets, then identity.
"""

from __future__ import annotations

import shlex
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from msgspec import Struct

from ormahd.model.change import Clock, finding
from ormahd.model.node import short_id
from ormahd.note.read import parse
from ormahd.note.values import Note, NoteKind, claim, derived_id
from ormahd.note.write import give_id
from ormahd.process import priority
from ormahd.text.secrets import redact
from ormahd.vault.vault import Vault
from ormahd.watch.identity import Identity
from ormahd.watch.reading import FileStat


class FileAction(StrEnum):
    """What to do with a file."""

    HOLD = "hold"
    """It has conflict markers: neither commit nor index it. The last committed version stays searchable."""
    INDEX = "index"
    """Index it, without a commit: HEAD has it already, or is not to have it."""
    COMMIT = "commit"
    """Commit it in the person's name."""


class File(Struct, frozen=True):
    """A changed file that was read. `seen`: its stat. `note`: its parsed content. `at_head`: whether HEAD has the
    same content."""

    seen: FileStat
    data: bytes
    note: Note
    at_head: bool

    @property
    def path(self) -> str:
        """The file's path, relative to the vault's root."""
        return self.seen.path


class Decision(Struct, frozen=True):
    """The decision about one file. `act`: what to do with it. `node_id`: its id from now on; None: it is no memory.
    `data`: the bytes to commit or to index. `problems`: what `doctor` is to say about the file (see `finding`)."""

    act: FileAction
    node_id: str | None
    data: bytes
    problems: tuple[dict[str, Any], ...] = ()


class Context(Struct, frozen=True):
    """What a decision depends on besides the file."""

    vault: Vault
    identity: Identity
    clock: Clock
    check_secrets: bool


def decide(file: File, context: Context) -> Decision:
    """Decide what to do with `file`, a changed file that is at rest. Reads the history through `context.identity`, and
    changes nothing."""
    note, path = file.note, file.path
    problems = tuple(finding(path, found.level, found.what, found.mend, found.line) for found in note.problems)
    commit = FileAction.INDEX if file.at_head else FileAction.COMMIT

    # Conflict markers, and files that git would convert.
    if note.kind is NoteKind.CONFLICTED:
        return Decision(FileAction.HOLD, None, file.data, problems)
    unwritable = context.vault.unwritable_reason(path)
    if unwritable is not None:
        what = f"{unwritable}: it is found as it is, and neither written nor committed"
        problems += (finding(path, "info", what, "nothing need be done; commit it yourself"),)
        return Decision(FileAction.INDEX, None, _without_id(file, file.data), problems)

    # A secret is indexed redacted, and never committed.
    if not file.at_head and context.check_secrets:
        redacted = redact(file.data.decode("utf-8", "replace"), pace=priority.giving)
        if redacted.found:
            mend = "move the secret to a password manager; what git has once, it keeps"
            for found in redacted.found:
                what = f"it holds what looks like a secret ({found.kind}); it was not committed"
                problems += (finding(path, "warning", what, mend, found.line),)
            return Decision(FileAction.INDEX, None, _without_id(file, redacted.text.encode()), problems)

    # Identity: a file is no memory if another file has its id.
    if note.kind in {NoteKind.APART, NoteKind.FOREIGN}:
        return Decision(FileAction.INDEX, None, file.data, problems)
    owned = claim(note.kind, note.id)
    if owned is not None and not (note.kind is NoteKind.BROKEN and file.at_head):
        holder = context.identity.owner(owned, path)
        if holder is not None:
            what = f"its id {short_id(owned)} is that of {holder}, so it is no memory of its own"
            mend = "`ormahctl doctor --fix` gives it an id of its own; or remove its `id` line"
            problems += (finding(path, "warning", what, mend),)
            return Decision(FileAction.INDEX, None, _without_id(file, file.data), problems)
    if note.kind in {NoteKind.NOTE, NoteKind.BROKEN}:
        return Decision(commit, note.id if note.kind is NoteKind.NOTE else None, file.data, problems)

    # A file without an id gets one, unless it is empty.
    if file.data.strip():
        return _give_id(file, context, problems)
    # An emptied file is not committed: its path keeps its id for when the person types into it again.
    if not file.at_head and context.identity.id_at_head(path) is not None:
        mend = f"write into it, or bring it back, in the vault: git restore {shlex.quote(path)}"
        what = "it is empty, and no memory until something stands in it; its text is in git"
        problems += (finding(path, "warning", what, mend),)
    return Decision(FileAction.INDEX, None, file.data, problems)


def _without_id(file: File, data: bytes) -> bytes:
    """Return the bytes that the index gets for a file that counts as no memory. They are `data` without its
    frontmatter, if the file has an id: with the id, the index would take it for a memory."""
    has_id = file.note.kind in {NoteKind.NOTE, NoteKind.BROKEN}
    return b"\n" + parse(data, file.path).content.encode() if has_id else data


def _give_id(file: File, context: Context, problems: tuple[dict[str, Any], ...]) -> Decision:
    """Return the decision to give a note an id, and to commit it.

    The id is the one that HEAD has at the note's path, if there is one and no other file owns it: an editor then
    dropped the frontmatter. Otherwise the id is new, and is computed so that two machines get the same one. `problems`:
    those found so far.
    """
    identity, path = context.identity, file.path
    node_id, created = identity.id_at_head(path), None
    if node_id is not None and identity.owner(node_id, path) is None:
        created = identity.created_at_head(path)
    else:  # try ids until the short id is free
        tries = (derived_id(context.vault.id, path, file.data, attempt=attempt) for attempt in range(1000))
        node_id = next(made for made in tries if not identity.is_taken(made))
    try:
        written = datetime.fromtimestamp(file.seen.mtime_ns // 1_000_000_000, UTC)
    except (ValueError, OverflowError, OSError):
        written = datetime.fromtimestamp(0, UTC)
    moment = created or file.note.created or min(written, context.clock())
    data = give_id(file.data, path, id=node_id, created=moment)
    if parse(data, path).id != node_id:
        odd = finding(path, "error", "it could not be given an id", "give it a frontmatter with an id by hand")
        return Decision(FileAction.INDEX, None, _without_id(file, file.data), (*problems, odd))
    return Decision(FileAction.COMMIT, node_id, data, problems)
