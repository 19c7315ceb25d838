"""Decide what to do with a changed file: index it, commit it as the person's edit, adopt it, or leave it alone.

A decision depends only on the file and on what `Context` returns. The order matters: conflict markers, ownership,
secrets, then identity. `Guard.file` wraps each step about one file, so that an unusual file is reported and never stops
a scan.

This module also makes the commits in the person's name: of edits, moves, deletions and adoptions.
"""

from __future__ import annotations

import errno
import logging
import os
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from ormahd.errors import Conflict, VaultBusy
from ormahd.model.change import Kind, finding
from ormahd.model.node import short_id
from ormahd.note.read import parse
from ormahd.note.values import Note, NoteKind, Problem, adopted_id, claim
from ormahd.note.write import adopt
from ormahd.process import priority
from ormahd.text.secrets import redact
from ormahd.vault.choices import Choices
from ormahd.vault.create import Adopt, Folder
from ormahd.vault.identity import Identity
from ormahd.vault.transaction import Transaction
from ormahd.vault.vault import Vault
from ormahd.watch.scan import FileStat


class FileAction(StrEnum):
    """What to do with a file."""

    HOLD = "hold"
    """It has conflict markers: neither commit nor index it. The last committed version stays searchable."""
    PLAIN = "plain"
    """Index it as plain text, without an id; do not commit it."""
    INDEX = "index"
    """Index it. HEAD has it already, so no commit is needed."""
    ADOPT = "adopt"
    """Write an id into it, and commit it in the person's name."""
    FIND = "find"
    """Only index it: it is searched and whispered as a memory, but neither written nor committed. Its id need not be in
    the file."""
    EDIT = "edit"
    """Commit it in the person's name, as it is."""


class File(Struct):
    """A changed file that was read. `seen`: its stat. `note`: its parsed content. `at_head`: whether HEAD has the
    same content."""

    seen: FileStat
    data: bytes
    note: Note
    at_head: bool
    lent: str | None = None
    """The id under which the note was only indexed until now; None if it was not."""
    unconverted: str | None = None
    """Why git's filters cannot convert the file to a blob; None if they can."""

    @property
    def path(self) -> str:
        return self.seen.path

    @property
    def digest(self) -> str:
        return self.note.digest


class Decision(Struct, frozen=True):
    """The decision about one file: what to do with it (`act`), with which id and bytes.

    `node_id`: the file's id from now on; None: it is no memory. `data`: for ADOPT and EDIT the new bytes of the file,
    else the bytes to index. `problems`: what `doctor` is to say about the file (see `finding`).
    """

    act: FileAction
    node_id: str | None
    data: bytes
    problems: tuple[dict[str, Any], ...] = ()


class Context(Struct, frozen=True):
    """The settings and the state of the vault that a decision depends on. `mode`, `home`, `folders`: what the card
    says of adoption, Ormah's own folder, and the settings of single folders."""

    vault_id: str
    mode: Adopt
    home: str
    identity: Identity
    clock: Callable[[], datetime]
    check_secrets: bool = True
    released: Callable[[str, bytes], bool] = lambda _path, _data: False
    """Whether the file with this path and these bytes was released: Ormah then neither writes nor commits it."""
    staged: Callable[[str], bool] = lambda _path: False
    """Whether the person has staged the file for a commit of their own."""
    folders: Mapping[str, Folder] = {}
    agreed: Choices | None = None
    """What a person chose to adopt on this machine. A card that a sync brought cannot adopt more than that. None: the
    card alone decides."""
    unwritable: Callable[[str], str | None] = lambda _path: None
    """Returns why Ormah cannot write a file at a path because of git's attributes, or None."""
    wanted: set[str] = set()
    """The files that a person's request is adopting now."""

    def mode_at(self, path: str) -> Adopt:
        """Return the adoption mode of the file's folder or, if it has none, of the vault, by the card. If the card
        would adopt the file and this machine's choice would not, the latter counts."""
        card = Choices(self.home, self.mode, self.folders)
        if self.agreed is not None and card.adopts(path) and not self.agreed.adopts(path):
            return self.agreed.mode_at(path)
        return card.mode_at(path)

    def mode_of(self, path: str, data: bytes) -> Adopt:
        """Return the adoption mode of a file: that of its path or, for a released file in an adopted folder,
        `index`."""
        mode = self.mode_at(path)
        return "index" if mode == "all" and self.released(path, data) else mode

    def space_at(self, path: str) -> str | None:
        """Return the space that a person chose for the file's folder, or None. In Ormah's own folder it is None,
        because each note there names its space."""
        if self.home and path.startswith(self.home + "/"):
            return None
        return next((found.space for found in self._folders(path) if found.space is not None), None)

    def _folders(self, path: str) -> Iterator[Folder]:
        """Yield the settings of the folders that contain the file, nearest first."""
        while path and self.folders:
            path = path.rpartition("/")[0]
            if path in self.folders:
                yield self.folders[path]

    def ours(self, path: str, node_id: str | None) -> bool:
        """Whether Ormah may commit the file and make it a memory, by the choices what to adopt and git's attributes.
        `node_id`: the id in it."""
        if self.unwritable(path) is not None:
            return False
        return path in self.wanted or self.chosen(path) or self.identity.followed(path, node_id)

    def chosen(self, path: str) -> bool:
        """Whether a note at this path is to be adopted, by the vault's card and by this machine's choice."""
        card = Choices(self.home, self.mode, self.folders)
        return card.adopts(path) and (self.agreed is None or self.agreed.adopts(path))

    def is_ours(self, path: str, data: bytes, note: Note) -> bool:
        """Whether Ormah may commit the file and make it a memory (`ours`), and it was not released."""
        return self.ours(path, claim(note.kind, note.id)) and not self.released(path, data)

    def writes(self, file: File) -> bool:
        """Whether bringing the file in may need a commit."""
        note = file.note
        return note.kind is not NoteKind.CONFLICTED and self.ours(file.path, claim(note.kind, note.id))


def of_codec(path: str, problems: tuple[Problem, ...]) -> tuple[dict[str, Any], ...]:
    return tuple(finding(path, p.level, p.what, p.mend, p.line) for p in problems)


def decide(file: File, context: Context) -> Decision:
    """Decide what to do with a changed file that is at rest.

    A new note that the person has staged is only indexed until the person has committed it.
    """
    decision = _decide(file, context)
    new = decision.act in {FileAction.ADOPT, FileAction.EDIT} and context.identity.at_head(file.path) is None
    if new and context.staged(file.path):
        said = finding(file.path, "info", "it is staged for a commit of yours, and becomes a memory after that",
                       "commit it, or take it out of the index: git restore --staged")  # fmt: skip
        return _find(file, context, (said,), "index")
    return decision


def _decide(file: File, context: Context) -> Decision:
    note = file.note
    if note.kind is NoteKind.CONFLICTED:
        return Decision(FileAction.HOLD, None, file.data, of_codec(file.path, note.problems))
    mode = context.mode_of(file.path, file.data)
    ours = context.is_ours(file.path, file.data, note)
    left = context.unwritable(file.path)
    said = of_codec(file.path, note.problems)
    failed: tuple[dict[str, Any], ...] = ()
    if left is not None:
        mode = "index"
        said += (_left_to_git(file.path, left),)
    elif ours and file.unconverted is not None:
        mode, ours, failed = "index", False, (_unconverted(file.path, file.unconverted),)
    if not ours and mode != "index":
        return Decision(FileAction.PLAIN, None, file.data)
    if not file.at_head and context.check_secrets:
        text = file.data.decode("utf-8", "replace")
        redacted = redact(text, pace=priority.giving)
        if redacted.found:
            said += tuple(_secret(file.path, found.kind, found.line) for found in redacted.found)
            return Decision(FileAction.PLAIN, None, redacted.text.encode(), said)
    if note.kind is NoteKind.APART:
        return Decision(FileAction.INDEX if file.at_head else FileAction.PLAIN, None, file.data, said)
    if note.kind is NoteKind.FOREIGN or not ours:
        found = _find(file, context, said, mode)
        return replace(found, problems=found.problems + failed)
    if note.kind is NoteKind.NOTE:
        assert note.id is not None
        holder = context.identity.owner(note.id, file.path)
        if holder is not None:
            copy = finding(file.path, "warning", f"its id {short_id(note.id)} is that of {holder}, so it is no memory of its own",
                           "`ormahctl doctor --fix` gives it an id of its own; or remove its `id` line")  # fmt: skip
            return Decision(FileAction.PLAIN, None, file.data, (*said, copy))
        return Decision(FileAction.INDEX if file.at_head else FileAction.EDIT, note.id, file.data, said)
    own = note.id if note.kind is NoteKind.BROKEN and not file.at_head else None
    if own is not None and context.identity.owner(own, file.path) is not None:
        return _find(file, context, said, mode)  # a copy of another note: indexed, but not under that id
    followed = mode != "none" or context.identity.at_head(file.path) is not None
    if note.kind is NoteKind.BARE and file.data.strip() and followed:
        return _adopt(file, context, said)
    # An emptied file is not committed: its path keeps its id for when the person types into it again.
    if note.kind is NoteKind.BARE and not file.at_head and context.identity.at_head(file.path) is not None:
        said += (_emptied(file.path),)
    if note.kind is NoteKind.BARE or mode == "none":
        return Decision(FileAction.INDEX if file.at_head else FileAction.PLAIN, None, file.data, said)
    return Decision(FileAction.INDEX if file.at_head else FileAction.EDIT, None, file.data, said)


def _left_to_git(path: str, why: str) -> dict[str, Any]:
    return finding(
        path, "info", f"{why}: it is found as it is, and neither written nor committed",
        "nothing need be done; commit it yourself",
    )  # fmt: skip


def _emptied(path: str) -> dict[str, Any]:
    return finding(
        path, "warning", "it is empty, and no memory until something stands in it; its text is in git",
        f"write into it, or bring it back, in the vault: git restore {shlex.quote(path)}",
    )  # fmt: skip


def _unconverted(path: str, why: str) -> dict[str, Any]:
    return finding(
        path, "warning", f"{why.removeprefix(f'{path}: ').removesuffix('; nothing was changed')}: it is found, and not committed",
        f"see to it that `git add {path}` works; it is taken in after that",
    )  # fmt: skip


def _find(file: File, context: Context, said: tuple[dict[str, Any], ...], mode: Adopt) -> Decision:
    """Decide on a note that Ormah must not write or commit: only index it, under the id in it if no other file owns
    that, else under an id derived from its path. `said`: the file's problems so far."""
    note = file.note
    # In a note that belongs to the person alone, a warning asks for no action.
    said = tuple({**one, "level": "info"} if one["level"] == "warning" else one for one in said)
    if mode == "none" or not file.data.strip():
        return Decision(FileAction.PLAIN, None, file.data, said)
    own = claim(note.kind, note.id)
    if own is not None and context.identity.owner(own, file.path) is not None:
        own = None
    return Decision(FileAction.FIND, own or context.identity.lent(context.vault_id, file.path), file.data, said)


def _adopt(file: File, context: Context, said: tuple[dict[str, Any], ...]) -> Decision:
    """Decide to adopt a note. It gets the id that HEAD has at its path, if any (an editor dropped Ormah's
    frontmatter); else a new one. `said`: the file's problems so far."""
    before = context.identity.at_head(file.path)
    if before is not None and context.identity.owner(before[0], file.path) is None:
        node_id, created = before[0], before[1]
    else:
        node_id, created = _new_id(file, context), None
    moment = created or file.note.created or min(_made(file.seen), context.clock())
    data = adopt(file.data, file.path, id=node_id, created=moment)
    if parse(data, file.path).id != node_id:
        odd = finding(file.path, "error", "it could not be given an id", "give it a frontmatter with an id by hand")
        return Decision(FileAction.PLAIN, None, file.data, (*said, odd))
    return Decision(FileAction.ADOPT, node_id, data, said)


def _made(met: FileStat) -> datetime:
    """Return the file's mtime as a datetime; 1970 if a datetime cannot hold it."""
    try:
        return datetime.fromtimestamp(met.mtime_ns // 1_000_000_000, UTC)
    except (ValueError, OverflowError, OSError):
        return datetime.fromtimestamp(0, UTC)


def _new_id(file: File, context: Context) -> str:
    """Return the id under which the note was only indexed, if no other file owns it; else a uuid5 of vault, path and
    content.

    With the uuid5 two machines choose the same id. If its short id is taken, the next attempt is another uuid5.
    """
    lent = file.lent or (context.identity.lent(context.vault_id, file.path) if context.home else None)
    if lent is not None and context.identity.owner(lent, file.path) is None:
        return lent
    for attempt in range(1000):
        node_id = adopted_id(context.vault_id, file.path, file.data, attempt=attempt)
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


def _secret(path: str, kind: str, line: int) -> dict[str, Any]:
    return finding(path, "warning", f"it holds what looks like a secret ({kind}); it was not committed",
                   "move the secret to a password manager; what git has once, it keeps", line)  # fmt: skip


def label(note: Note) -> str:
    """Return the name that a note has in a commit's subject: its title, or its file name without `.md`."""
    if note.title:
        return note.title
    return os.path.basename(note.path)[:-3] or note.path


def subject(verb: str, names: list[str], paths: Collection[str] = ()) -> str:
    """Return a commit's subject: `Edit: Title`, `Edit 2 notes: A, B`, or `Edit 12 notes: A, B and 10 more`.

    For the adoption of many files, with `paths`: `Adopt 86 notes in Projects/`.
    """
    if len(names) == 1:
        return f"{verb}: {names[0]}"
    if len(names) <= 3:
        return f"{verb} {len(names)} notes: {', '.join(names)}"
    if verb in {"Adopt", "Take in"} and paths:
        return f"{verb} {len(names)} notes{_where(paths)}"
    return f"{verb} {len(names)} notes: {', '.join(names[:2])} and {len(names) - 2} more"


def _where(paths: Collection[str]) -> str:
    """Return where the paths are, as the end of a subject: ` in Projects/`, ` in 3 folders` (of the vault's root), or
    ""."""
    shared = os.path.commonpath([os.path.dirname(path) for path in paths])
    if shared:
        return f" in {shared}/"
    tops = {path.partition("/")[0] for path in paths if "/" in path}
    return f" in {len(tops)} folders" if len(tops) > 1 else ""


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
    ("stands in the place of", "warning", "put back what was there; or delete this, and the notes count as deleted"),
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
    `name`: its name in the commit's subject. `moved`: the note's earlier paths. `first`: the person's own bytes,
    which are committed before those with Ormah's lines; None: all of `data` is the person's.
    """

    path: str
    data: bytes | None
    node_id: str | None
    expect: str | None
    name: str
    moved: tuple[str, ...] = ()
    first: bytes | None = None

    def into(self, tx: Transaction) -> None:
        for old in self.moved:
            tx.remove(old, node_id=self.node_id, expect=None)
        if self.data is None:
            tx.remove(self.path, node_id=self.node_id, expect=self.expect)
        else:
            tx.put(self.path, self.data, node_id=self.node_id, expect=self.expect, first=self.first)


def commit(
    vault: Vault, verb: str, items: list[CommitItem], *, kind: Kind, quiet: float, wait: Callable[[str, float], None],
    run: str | None = None,
) -> int:  # fmt: skip
    """Commit the files as one op, and return how many were committed.

    A file that was saved again since it was read is left out, and `wait` is called with its path and the seconds until
    it is tried again.
    """
    left: Mapping[str, CommitItem] = {item.path: item for item in items}
    while left:
        sentence = subject(verb, [item.name for item in left.values()], left)
        theirs = {item.path: item.name for item in left.values() if item.first is not None}
        first = subject("Take in", list(theirs.values()), theirs) if theirs else None
        try:
            with vault.transaction(sentence, kind=kind, source="person", person=True, first=first, run=run) as tx:
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
