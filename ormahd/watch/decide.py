"""Decide what to do with a changed file: index it, commit it as the person's edit, give it an id, or leave it alone.

A decision depends only on the file and on what `Context` returns. The order matters: conflict markers,
secrets, then identity. `Guard.file` wraps each step about one file, so that an unusual file is reported and never stops
a scan.

This module also makes the commits in the person's name: of new notes, edits, moves and deletions.
"""

from __future__ import annotations

import errno
import logging
import os
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final, TypeVar

from msgspec import Struct

from ormahd.errors import Conflict, VaultBusy
from ormahd.model.change import Kind, finding
from ormahd.model.node import short_id
from ormahd.note.read import parse
from ormahd.note.values import Note, NoteKind, claim, derived_id
from ormahd.note.write import give_id
from ormahd.process import priority
from ormahd.text.secrets import redact
from ormahd.vault.transaction import Transaction
from ormahd.vault.vault import Vault
from ormahd.watch.identity import Identity
from ormahd.watch.scan import FileStat


class FileAction(StrEnum):
    """What to do with a file."""

    HOLD = "hold"
    """It has conflict markers: neither commit nor index it. The last committed version stays searchable."""
    PLAIN = "plain"
    """Index it as plain text, without an id; do not commit it."""
    INDEX = "index"
    """Index it. HEAD has it already, so no commit is needed."""
    GIVE_ID = "give id"
    """Write an id into it, and commit it in the person's name."""
    EDIT = "edit"
    """Commit it in the person's name, as it is."""


class File(Struct):
    """A changed file that was read. `seen`: its stat. `note`: its parsed content. `at_head`: whether HEAD has the
    same content."""

    seen: FileStat
    data: bytes
    note: Note
    at_head: bool

    @property
    def path(self) -> str:
        return self.seen.path

    @property
    def digest(self) -> str:
        return self.note.digest


class Decision(Struct, frozen=True):
    """The decision about one file: what to do with it (`act`), with which id and bytes.

    `node_id`: the file's id from now on; None: it is no memory. `data`: for GIVE_ID and EDIT the new bytes of the file,
    else the bytes to index. `problems`: what `doctor` is to say about the file (see `finding`).
    """

    act: FileAction
    node_id: str | None
    data: bytes
    problems: tuple[dict[str, Any], ...] = ()


class Context(Struct, frozen=True):
    """What a decision depends on besides the file."""

    vault_id: str
    identity: Identity
    clock: Callable[[], datetime]
    check_secrets: bool = True
    unwritable: Callable[[str], str | None] = lambda _path: None
    """Returns why Ormah cannot write a file at a path because of git's attributes, or None."""


def decide(file: File, context: Context) -> Decision:
    """Decide what to do with a changed file that is at rest."""
    note = file.note
    said = tuple(finding(file.path, one.level, one.what, one.mend, one.line) for one in note.problems)
    as_it_is = FileAction.INDEX if file.at_head else FileAction.PLAIN
    commit = FileAction.INDEX if file.at_head else FileAction.EDIT
    if note.kind is NoteKind.CONFLICTED:
        return Decision(FileAction.HOLD, None, file.data, said)
    left = context.unwritable(file.path)
    if left is not None:
        said += (finding(file.path, "info", f"{left}: it is found as it is, and neither written nor committed",
                         "nothing need be done; commit it yourself"),)  # fmt: skip
        return Decision(FileAction.PLAIN, None, file.data, said)
    if not file.at_head and context.check_secrets:
        redacted = redact(file.data.decode("utf-8", "replace"), pace=priority.giving)
        if redacted.found:
            mend = "move the secret to a password manager; what git has once, it keeps"
            for found in redacted.found:
                what = f"it holds what looks like a secret ({found.kind}); it was not committed"
                said += (finding(file.path, "warning", what, mend, found.line),)
            return Decision(FileAction.PLAIN, None, redacted.text.encode(), said)
    if note.kind in {NoteKind.APART, NoteKind.FOREIGN}:
        return Decision(as_it_is, None, file.data, said)
    owned = claim(note.kind, note.id)
    if owned is not None and not (note.kind is NoteKind.BROKEN and file.at_head):
        holder = context.identity.owner(owned, file.path)
        if holder is not None:
            what = f"its id {short_id(owned)} is that of {holder}, so it is no memory of its own"
            mend = "`ormahctl doctor --fix` gives it an id of its own; or remove its `id` line"
            return Decision(FileAction.PLAIN, None, file.data, (*said, finding(file.path, "warning", what, mend)))
    if note.kind is NoteKind.NOTE:
        return Decision(commit, note.id, file.data, said)
    if note.kind is NoteKind.BROKEN:
        return Decision(commit, None, file.data, said)
    if file.data.strip():
        return _give_id(file, context, said)
    # An emptied file is not committed: its path keeps its id for when the person types into it again.
    if not file.at_head and context.identity.at_head(file.path) is not None:
        mend = f"write into it, or bring it back, in the vault: git restore {shlex.quote(file.path)}"
        what = "it is empty, and no memory until something stands in it; its text is in git"
        said += (finding(file.path, "warning", what, mend),)
    return Decision(as_it_is, None, file.data, said)


def _give_id(file: File, context: Context, said: tuple[dict[str, Any], ...]) -> Decision:
    """Decide to give a note an id: the one that HEAD has at its path, if any (an editor dropped Ormah's frontmatter);
    else a new one. `said`: the file's problems so far."""
    before = context.identity.at_head(file.path)
    if before is not None and context.identity.owner(before, file.path) is None:
        node_id, created = before, context.identity.created(file.path)
    else:
        node_id, created = _new_id(file, context), None
    moment = created or file.note.created or min(_made(file.seen), context.clock())
    data = give_id(file.data, file.path, id=node_id, created=moment)
    if parse(data, file.path).id != node_id:
        odd = finding(file.path, "error", "it could not be given an id", "give it a frontmatter with an id by hand")
        return Decision(FileAction.PLAIN, None, file.data, (*said, odd))
    return Decision(FileAction.GIVE_ID, node_id, data, said)


def _made(met: FileStat) -> datetime:
    """Return the file's mtime as a datetime; 1970 if a datetime cannot hold it."""
    try:
        return datetime.fromtimestamp(met.mtime_ns // 1_000_000_000, UTC)
    except (ValueError, OverflowError, OSError):
        return datetime.fromtimestamp(0, UTC)


def _new_id(file: File, context: Context) -> str:
    """Return a uuid5 of vault, path and content, so that two machines choose the same id. If its short id is taken, the
    next attempt is another uuid5."""
    for attempt in range(1000):
        node_id = derived_id(context.vault_id, file.path, file.data, attempt=attempt)
        if not context.identity.is_taken(node_id):
            break
    return node_id


def plain(file: File, decision: Decision) -> bytes:
    """Return the bytes to index for a file that is not committed now. If the decision gives the file no id, the bytes
    lack the frontmatter, whose id would make the file a memory."""
    if decision.node_id is not None or file.note.kind not in {NoteKind.NOTE, NoteKind.BROKEN}:
        return decision.data
    if file.note.kind is NoteKind.BROKEN and decision.act is not FileAction.PLAIN:
        return decision.data
    if decision.data is file.data:
        return b"\n" + file.note.content.encode()
    return b"\n" + parse(decision.data, file.path).content.encode()


def label(note: Note) -> str:
    """Return the name that a note has in a commit's subject: its title, or its file name without `.md`."""
    if note.title:
        return note.title
    return os.path.basename(note.path)[:-3] or note.path


def subject(verb: str, names: list[str]) -> str:
    """Return a commit's subject: `Edit: Title`, `Edit 2 notes: A, B`, or `Edit 12 notes: A, B and 10 more`."""
    if len(names) == 1:
        return f"{verb}: {names[0]}"
    if len(names) <= 3:
        return f"{verb} {len(names)} notes: {', '.join(names)}"
    return f"{verb} {len(names)} notes: {', '.join(names[:2])} and {len(names) - 2} more"


T = TypeVar("T")
FAULTS: Final = (ValueError, TypeError, ArithmeticError, LookupError, AttributeError, RecursionError)
"""Exceptions that unexpected content of one file may cause, in contrast to a failing disk, database or repository."""
_OF_ONE_FILE: Final = frozenset({
    errno.EACCES, errno.EPERM, errno.EROFS, errno.ENAMETOOLONG, errno.ELOOP, errno.ENOTDIR, errno.EISDIR, errno.EINVAL, errno.ENXIO,
})  # fmt: skip
"""Error numbers of the system that concern one path only, in contrast to a full or failing disk."""
_MENDS: Final = (
    ("a link", "info", "nothing need be done; a note is read where it lies itself in the vault"),
    ("a pipe", "info", "nothing need be done"),
    ("a socket", "info", "nothing need be done"),
    ("a device", "info", "nothing need be done"),
    ("the name is not UTF-8", "warning", "rename it; `convmv -f latin1 -t utf-8` does many"),
    ("the folder's name is not UTF-8", "warning", "rename it; `convmv -f latin1 -t utf-8` does many"),
    ("too large", "warning", "divide it"),
    (".gitignore is a pipe", "warning", "put a regular file there, or remove it"),
    ("cannot be taken in", "error", "change the file or move it out of the vault; please report it, the log has the rest"),
)  # fmt: skip
"""(beginning of the reason why a file was skipped, level and advice of the finding for `doctor`)."""

log = logging.getLogger(__name__)


class Guard:
    """Catches errors about single files, and appends (path, reason) to the list `skipped`."""

    def __init__(self, skipped: list[tuple[str, str]]) -> None:
        self.skipped = skipped
        self.refused: set[str] = set()
        """Paths of files that the system refused to read or write."""

    @contextmanager
    def file(self, path: str) -> Iterator[None]:
        """Context manager: catch an error in the block that may be due to the file at `path`, and append it to
        `skipped`."""
        try:
            yield
        except OSError as exc:
            self.refused.add(path)
            self.skipped.append((path, f"cannot be read or written: {exc.strerror or exc}"))
        except FAULTS as exc:
            log.exception("a file of the vault cannot be taken in; the others are")
            self.skipped.append((path, f"cannot be taken in: {type(exc).__name__}: {exc}"))

    def all(self, items: Sequence[T], path: Callable[[T], str], act: Callable[[list[T]], None]) -> None:
        """Call `act` with all items. If that fails because of a single file, call it with each item alone, and skip
        those that fail; so an item may be passed twice. `path` returns an item's path."""
        try:
            act(list(items))
        except (*FAULTS, OSError) as exc:
            if not items or (isinstance(exc, OSError) and exc.errno not in _OF_ONE_FILE):
                raise
            for item in items:
                with self.file(path(item)):
                    act([item])


def of_skipped(path: str, why: str) -> dict[str, object]:
    """Return the entry in the reply of `doctor` about a file that was skipped because of `why`."""
    for beginning, level, mend in _MENDS:
        if why.startswith(beginning):
            return finding(path, level, why, mend)
    return finding(path, "warning", why, "make it readable, or move it out of the vault")


BUSY_S = 1.0
"""Seconds after which a commit is tried again while another git is at work."""


class CommitItem(Struct, frozen=True):
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

    def into(self, tx: Transaction) -> None:
        for old in self.moved:
            tx.remove(old, node_id=self.node_id, expect=None)
        if self.data is None:
            tx.remove(self.path, node_id=self.node_id, expect=self.expect)
        else:
            tx.put(self.path, self.data, node_id=self.node_id, expect=self.expect)


def commit(
    vault: Vault, verb: str, items: list[CommitItem], *, quiet: float, wait: Callable[[str, float], None]
) -> int:
    """Commit the files as one op, and return how many were committed.

    A file that was saved again since it was read is left out, and `wait` is called with its path and the seconds until
    it is tried again.
    """
    left: Mapping[str, CommitItem] = {item.path: item for item in items}
    while left:
        sentence = subject(verb, [item.name for item in left.values()])
        try:
            with vault.transaction(sentence, kind=Kind.EDIT, source="person", person=True) as tx:
                for item in left.values():
                    item.into(tx)
        except Conflict as exc:
            path = exc.data.get("path")
            lost = {name for name, item in left.items() if path == name or path in item.moved} or set(left)
            for name in lost:
                wait(name, quiet)
            left = {name: item for name, item in left.items() if name not in lost}
            continue
        except VaultBusy:
            for name in left:
                wait(name, BUSY_S)
            return 0
        if tx.committed is None:  # HEAD has the content already: the next scan indexes it
            for name in left:
                wait(name, 0.0)
            return 0
        return len(left)
    return 0
