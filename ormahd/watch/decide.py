"""Decide what a changed file means, one file at a time. Pure, but for the questions that `Context` answers.

The order matters: conflict markers, ownership, secrets, then identity. `Guard.file` wraps each step about one file, so an odd
file is reported and never stops a scan.
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from ormahd.model.files import finding
from ormahd.model.node import short_id
from ormahd.note.note import Note, NoteKind, Problem, adopt, adopted_id, parse
from ormahd.process import priority
from ormahd.text.secrets import redact
from ormahd.vault.choices import Choices
from ormahd.vault.create import Adopt, Folder
from ormahd.vault.identity import Identity, claim
from ormahd.watch.scan import Seen


class Act(StrEnum):
    """What is done with a file."""

    HOLD = "hold"
    """Conflict markers: neither committed nor indexed; the last committed version stays findable."""
    PLAIN = "plain"
    """Findable as plain text, not committed."""
    INDEX = "index"
    """In the history already: only the index learns of it."""
    ADOPT = "adopt"
    """Gets an id, and is committed in the person's name."""
    FIND = "find"
    """Found and whispered under an id that it does not hold: neither written nor committed."""
    EDIT = "edit"
    """Committed as it is, in the person's name."""


class File(Struct):
    """A changed file as it was read. `at_head`: HEAD has exactly these bytes."""

    seen: Seen
    data: bytes
    note: Note
    at_head: bool
    lent: str | None = None
    """The id under which the note was found so far without holding it."""
    unconverted: str | None = None
    """Why git cannot make a blob of it."""

    @property
    def path(self) -> str:
        return self.seen.path

    @property
    def digest(self) -> str:
        return self.note.digest


class Decision(Struct, frozen=True):
    """`node_id`: the id under which the file counts from now on, None: plain text. `data`: what the index (PLAIN) or the
    file (ADOPT, EDIT) gets."""

    act: Act
    node_id: str | None
    data: bytes
    problems: tuple[dict[str, Any], ...] = ()


class Context(Struct, frozen=True):
    """What a decision may ask."""

    vault_id: str
    mode: Adopt
    home: str
    identity: Identity
    clock: Callable[[], datetime]
    check_secrets: bool = True
    released: Callable[[str, bytes], bool] = lambda _path, _data: False
    """Whether a file of these bytes at that path was released: it is the person's alone."""
    staged: Callable[[str], bool] = lambda _path: False
    """Whether the person has staged the file for a commit of their own."""
    folders: Mapping[str, Folder] = {}
    agreed: Choices | None = None
    """What was chosen on this machine: a card that came by sync adopts no more than that. None: all that the card says."""
    unwritable: Callable[[str], str | None] = lambda _path: None
    """Why the person's attributes let nothing be written at a path."""
    wanted: set[str] = set()
    """Files that a person just asked to adopt."""

    def mode_at(self, path: str) -> Adopt:
        """What was chosen for the folder that a file is in, else for the vault; by this machine, where the card says more."""
        card = Choices(self.home, self.mode, self.folders)
        if self.agreed is not None and card.adopts(path) and not self.agreed.adopts(path):
            return self.agreed.mode_at(path)
        return card.mode_at(path)

    def mode_of(self, path: str, data: bytes) -> Adopt:
        """What holds for a file: one that was released among others that are adopted is only found."""
        mode = self.mode_at(path)
        return "index" if mode == "all" and self.released(path, data) else mode

    def space_at(self, path: str) -> str | None:
        """The space that was chosen for the folder that a file is in. What Ormah keeps below its own folder says its space itself."""
        if self.home and path.startswith(self.home + "/"):
            return None
        return next((found.space for found in self._folders(path) if found.space is not None), None)

    def _folders(self, path: str) -> Iterator[Folder]:
        """What was said of the folders of a file, the nearest first."""
        while path and self.folders:
            path = path.rpartition("/")[0]
            if path in self.folders:
                yield self.folders[path]

    def ours(self, path: str, node_id: str | None) -> bool:
        """Whether the file may be committed, and become a memory, at all (the setting `vault.adopt`)."""
        if self.unwritable(path) is not None:
            return False
        return path in self.wanted or self.chosen(path) or self.identity.followed(path, node_id)

    def chosen(self, path: str) -> bool:
        """Whether any note at that path is to be a memory, by the vault's card and by this machine."""
        card = Choices(self.home, self.mode, self.folders)
        return card.adopts(path) and (self.agreed is None or self.agreed.adopts(path))

    def is_ours(self, path: str, data: bytes, note: Note) -> bool:
        """Whether a file may be committed, and was not released."""
        return self.ours(path, claim(note.kind, note.id)) and not self.released(path, data)

    def writes(self, file: File) -> bool:
        """Whether taking a file in may need a commit."""
        note = file.note
        return note.kind is not NoteKind.CONFLICTED and self.ours(file.path, claim(note.kind, note.id))


def of_codec(path: str, problems: tuple[Problem, ...]) -> tuple[dict[str, Any], ...]:
    return tuple(finding(path, p.level, p.what, p.mend, p.line) for p in problems)


def decide(file: File, context: Context) -> Decision:
    """What happens with a changed file that has come to rest. One that is no memory yet waits for the commit that the person
    prepares with it, and is found until then."""
    decision = _decide(file, context)
    new = decision.act in {Act.ADOPT, Act.EDIT} and context.identity.at_head(file.path) is None
    if new and context.staged(file.path):
        said = finding(file.path, "info", "it is staged for a commit of yours, and becomes a memory after that",
                       "commit it, or take it out of the index: git restore --staged")  # fmt: skip
        return _find(file, context, (said,), "index")
    return decision


def _decide(file: File, context: Context) -> Decision:
    note = file.note
    if note.kind is NoteKind.CONFLICTED:
        return Decision(Act.HOLD, None, file.data, of_codec(file.path, note.problems))
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
        return Decision(Act.PLAIN, None, file.data)
    if not file.at_head and context.check_secrets:
        text = file.data.decode("utf-8", "replace")
        redacted = redact(text, pace=priority.giving)
        if redacted.found:
            said += tuple(_secret(file.path, found.kind, found.line) for found in redacted.found)
            return Decision(Act.PLAIN, None, redacted.text.encode(), said)
    if note.kind is NoteKind.APART:
        return Decision(Act.INDEX if file.at_head else Act.PLAIN, None, file.data, said)
    if note.kind is NoteKind.FOREIGN or not ours:
        found = _find(file, context, said, mode)
        return replace(found, problems=found.problems + failed)
    if note.kind is NoteKind.NOTE:
        assert note.id is not None
        holder = context.identity.owner(note.id, file.path)
        if holder is not None:
            copy = finding(file.path, "warning", f"its id {short_id(note.id)} is that of {holder}, so it is no memory of its own",
                           "`ormahctl doctor --fix` gives it an id of its own; or remove its `id` line")  # fmt: skip
            return Decision(Act.PLAIN, None, file.data, (*said, copy))
        return Decision(Act.INDEX if file.at_head else Act.EDIT, note.id, file.data, said)
    own = note.id if note.kind is NoteKind.BROKEN and not file.at_head else None
    if own is not None and context.identity.owner(own, file.path) is not None:
        return _find(file, context, said, mode)  # a copy of another: found, but not as that one
    followed = mode != "none" or context.identity.at_head(file.path) is not None
    if note.kind is NoteKind.BARE and file.data.strip() and followed:
        return _adopt(file, context, said)
    # An emptied file is not committed: its path would lose its id, and whoever types into it next gets it back.
    if note.kind is NoteKind.BARE or mode == "none":
        return Decision(Act.INDEX if file.at_head else Act.PLAIN, None, file.data, said)
    return Decision(Act.INDEX if file.at_head else Act.EDIT, None, file.data, said)


def _left_to_git(path: str, why: str) -> dict[str, Any]:
    return finding(
        path, "info", f"{why}: it is found as it is, and neither written nor committed",
        "nothing need be done; commit it yourself",
    )  # fmt: skip


def _unconverted(path: str, why: str) -> dict[str, Any]:
    return finding(
        path, "warning", f"{why.removeprefix(f'{path}: ').removesuffix('; nothing was changed')}: it is found, and not committed",
        f"see to it that `git add {path}` works; it is taken in after that",
    )  # fmt: skip


def _find(file: File, context: Context, said: tuple[dict[str, Any], ...], mode: Adopt) -> Decision:
    """A note that is the person's alone: under the id that it has, where that is free, else under one of its place."""
    note = file.note
    # How a person writes in a note that is theirs alone is nothing that wants a hand.
    said = tuple({**one, "level": "info"} if one["level"] == "warning" else one for one in said)
    if mode == "none" or not file.data.strip():
        return Decision(Act.PLAIN, None, file.data, said)
    own = claim(note.kind, note.id)
    if own is not None and context.identity.owner(own, file.path) is not None:
        own = None
    return Decision(Act.FIND, own or context.identity.lent(context.vault_id, file.path), file.data, said)


def _adopt(file: File, context: Context, said: tuple[dict[str, Any], ...]) -> Decision:
    """Give the note the id that its path had in the history (an editor saved without our block), or one of its own."""
    before = context.identity.at_head(file.path)
    if before is not None and context.identity.owner(before[0], file.path) is None:
        node_id, created = before[0], before[1]
    else:
        node_id, created = _new_id(file, context), None
    moment = created or file.note.created or min(_made(file.seen), context.clock())
    data = adopt(file.data, file.path, id=node_id, created=moment)
    if parse(data, file.path).id != node_id:
        odd = finding(file.path, "error", "it could not be given an id", "give it a frontmatter with an id by hand")
        return Decision(Act.PLAIN, None, file.data, (*said, odd))
    return Decision(Act.ADOPT, node_id, data, said)


def _made(met: Seen) -> datetime:
    """When the file says that it was written; a time that no calendar has counts as none: 1970."""
    try:
        return datetime.fromtimestamp(met.mtime_ns // 1_000_000_000, UTC)
    except (ValueError, OverflowError, OSError):
        return datetime.fromtimestamp(0, UTC)


def _new_id(file: File, context: Context) -> str:
    """The one that it was found under; else uuid5 of vault, path and text, so that two machines agree; drawn on while its short form is
    taken."""
    lent = file.lent or (context.identity.lent(context.vault_id, file.path) if context.home else None)
    if lent is not None and context.identity.owner(lent, file.path) is None:
        return lent
    for attempt in range(1000):
        node_id = adopted_id(context.vault_id, file.path, file.data, attempt=attempt)
        if not context.identity.is_taken(node_id):
            break
    return node_id


def plain(file: File, decision: Decision) -> bytes:
    """The bytes that the index gets: of a file that is to be no node without the head that would make it one."""
    if decision.node_id is not None or file.note.kind not in {NoteKind.NOTE, NoteKind.BROKEN}:
        return decision.data
    if file.note.kind is NoteKind.BROKEN and decision.act is not Act.PLAIN:
        return decision.data
    if decision.data is file.data:
        return b"\n" + file.note.content.encode()
    return b"\n" + parse(decision.data, file.path).content.encode()


def _secret(path: str, kind: str, line: int) -> dict[str, Any]:
    return finding(path, "warning", f"it holds what looks like a secret ({kind}); it was not committed",
                   "move the secret to a password manager; what git has once, it keeps", line)  # fmt: skip


def label(note: Note) -> str:
    """How a note is called in a commit's subject."""
    if note.title:
        return note.title
    return os.path.basename(note.path)[:-3] or note.path


def subject(verb: str, names: list[str], paths: Collection[str] = ()) -> str:
    """`Edit: Title`, `Edit 2 notes: A, B`, `Edit 12 notes: A, B and 10 more`; with the paths of what is adopted
    `Adopt 86 notes in Projects/`."""
    if len(names) == 1:
        return f"{verb}: {names[0]}"
    if len(names) <= 3:
        return f"{verb} {len(names)} notes: {', '.join(names)}"
    if verb in {"Adopt", "Take in"} and paths:
        return f"{verb} {len(names)} notes{_where(paths)}"
    return f"{verb} {len(names)} notes: {', '.join(names[:2])} and {len(names) - 2} more"


def _where(paths: Collection[str]) -> str:
    """The folder that holds them all, or how many folders they are in."""
    shared = os.path.commonpath([os.path.dirname(path) for path in paths])
    if shared:
        return f" in {shared}/"
    tops = {path.partition("/")[0] for path in paths if "/" in path}
    return f" in {len(tops)} folders" if len(tops) > 1 else ""


T = TypeVar("T")
FAULTS: Final = (ValueError, TypeError, ArithmeticError, LookupError, AttributeError, RecursionError)
"""What code raises that met a value it was not made for. A disk, a database or a repository that fails is no fault of one file."""
_OF_ONE_FILE: Final = frozenset({
    errno.EACCES, errno.EPERM, errno.EROFS, errno.ENAMETOOLONG, errno.ELOOP, errno.ENOTDIR, errno.EISDIR, errno.EINVAL, errno.ENXIO,
})  # fmt: skip
"""What the system refuses at one place. A full or failing disk is no matter of one file."""
_MENDS: Final = (
    ("a link", "info", "nothing need be done; a note is read where it lies itself in the vault"),
    ("a pipe", "info", "nothing need be done"),
    ("a socket", "info", "nothing need be done"),
    ("a device", "info", "nothing need be done"),
    ("the name is not UTF-8", "warning", "rename it; `convmv -f latin1 -t utf-8` does many"),
    ("the folder's name is not UTF-8", "warning", "rename it; `convmv -f latin1 -t utf-8` does many"),
    ("too large", "warning", "divide it, or raise vault.max_note_bytes"),
    (".gitignore is a pipe", "warning", "put a regular file there, or remove it"),
    ("cannot be taken in", "error", "change the file or move it out of the vault; please report it, the log has the rest"),
    ("stands in the place of", "warning", "put back what was there; or delete this, and the notes count as deleted"),
)  # fmt: skip
"""By how a reason begins: the level and the mend that `doctor` gives."""

log = logging.getLogger(__name__)


class Guard:
    """Names what could not be taken in, by path, in `skipped`."""

    def __init__(self, skipped: list[tuple[str, str]]) -> None:
        self.skipped = skipped
        self.refused: set[str] = set()
        """Files that the system would not give or take."""

    @contextmanager
    def file(self, path: str) -> Iterator[None]:
        """For the length of the block whatever is wrong with the file at `path` is named, and raised no further."""
        try:
            yield
        except OSError as exc:
            self.refused.add(path)
            self.skipped.append((path, f"cannot be read or written: {exc.strerror or exc}"))
        except FAULTS as exc:
            log.exception("a file of the vault cannot be taken in; the others are")
            self.skipped.append((path, f"cannot be taken in: {type(exc).__name__}: {exc}"))

    def all(self, items: Sequence[T], path: Callable[[T], str], act: Callable[[list[T]], None]) -> None:
        """Do `act` with all items at once; where one of them is at fault, with each alone. `act` may be done twice with an item."""
        try:
            act(list(items))
        except (*FAULTS, OSError) as exc:
            if not items or (isinstance(exc, OSError) and exc.errno not in _OF_ONE_FILE):
                raise
            for item in items:
                with self.file(path(item)):
                    act([item])


def of_skipped(path: str, why: str) -> dict[str, object]:
    """What `doctor` says of a file that was passed by."""
    for beginning, level, mend in _MENDS:
        if why.startswith(beginning):
            return finding(path, level, why, mend)
    return finding(path, "warning", why, "make it readable, or move it out of the vault")
