"""Durable intents of ops: a file per op in `.ormah/intent`, or one file for a batch, fsynced before anything else is
written.

After a crash the op is completed from its file. The file appears complete or not at all (temporary name, fsync, rename,
fsync of the folder), so a half-written file belongs to a change that was never acknowledged. The first line has a
checksum. A file that does not match its checksum is set aside and reported; it never prevents the start.
"""

from __future__ import annotations

import base64
import contextlib
import json
import logging
import os
import threading
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from ormahd.model.change import ChangedFile, Kind, Stat, is_op, sha256
from ormahd.process import own_files
from ormahd.process.disk import make_folder, make_way, write_durably, write_small
from ormahd.vault.transaction import PathEntry

FOLDER = ".ormah/intent"
HEADER = "ormah-intent 1"
TOGETHER = ".together.json"
"""Suffix of the name of a file with several intents; the name begins with the first op's id."""

log = logging.getLogger(__name__)


class FileStep(Struct, frozen=True):
    """What an op does to one file. `base`: the file's bytes before the op (None: no file). `data`: its bytes after
    the op (None: the op removes the file)."""

    path: str
    node_id: str | None
    base: bytes | None
    data: bytes | None
    first: bytes | None = None
    """The content of the path in the op's first commit; None: that commit does not change it."""
    apart: bool = False
    """Whether the op's commit has other content at this path than the folder: `held` (None: the commit has no such
    file)."""
    held: bytes | None = None

    @property
    def in_history(self) -> bytes | None:
        """The content of the path in the op's commit; None: the commit has no such file."""
        return self.held if self.apart else self.data

    @property
    def old(self) -> str | None:
        return None if self.base is None else sha256(self.base)

    def change(self, stat: Stat | None = None) -> ChangedFile:
        """Return the change that the op made to the file. `stat`: the stat of the file afterwards, where known."""
        return ChangedFile(self.path, self.node_id, self.old, self.data, stat, self.apart, self.held)


class WriteIntent(Struct, frozen=True):
    """The intent of an op: all that is needed to write the op, also after a crash. `message`: the whole commit
    message. `person`: whether the person is the author."""

    op: str
    kind: Kind
    source: str
    subject: str
    message: str
    person: bool
    time: datetime
    lock: str
    """Path of the index.lock that the op takes. After a crash it distinguishes our lock from another program's."""
    steps: tuple[FileStep, ...]
    joins: str | None = None
    """The commit whose history the op joins: it becomes the second parent of the op's commit, or (fast-forward) is that
    commit."""
    entries: tuple[PathEntry, ...] = ()
    """Links, submodules and executable bits that the op brings in."""
    first: str | None = None
    """The message of a first commit before the op's own, with the `first` bytes of each step; None: there is no such
    commit."""

    @property
    def name(self) -> str:
        """The op's name for the log: without its subject, which contains text of a note."""
        return f"op {self.op} ({self.kind})"

    @property
    def node_ids(self) -> list[str]:
        return list(dict.fromkeys(step.node_id for step in self.steps if step.node_id))

    def token(self, number: int) -> str:
        """Return the name of the staged file of step `number`."""
        return f"{self.op}.{number}"


def encode(ops: Sequence[WriteIntent]) -> bytes:
    body = json.dumps({"ops": [_to_json(op) for op in ops]}, ensure_ascii=True).encode()
    return f"{HEADER} {sha256(body)}\n".encode() + body


def decode(data: bytes) -> list[WriteIntent]:
    """Parse a file of intents. Raises ValueError when the checksum or the content is wrong."""
    header, _, body = data.partition(b"\n")
    if header.decode("ascii", "replace") != f"{HEADER} {sha256(body)}":
        raise ValueError("the checksum does not match")
    try:
        return [_from_json(op) for op in json.loads(body)["ops"]]
    except (KeyError, TypeError) as exc:
        raise ValueError(f"{exc!r} while reading") from exc


def _to_json(intent: WriteIntent) -> dict[str, Any]:
    return {
        "op": intent.op, "kind": str(intent.kind), "source": intent.source, "subject": intent.subject,
        "message": intent.message, "person": intent.person, "time": intent.time.isoformat(), "lock": intent.lock,
        "steps": [_step_to_json(step) for step in intent.steps],
        "joins": intent.joins, "entries": [[one.path, one.mode, one.oid, one.was] for one in intent.entries],
        "first": intent.first,
    }  # fmt: skip


def _step_to_json(step: FileStep) -> dict[str, Any]:
    row: dict[str, Any] = {
        "path": step.path,
        "node_id": step.node_id,
        "base": _text(step.base),
        "data": _text(step.data),
    }
    if step.first is not None:
        row["first"] = _text(step.first)
    if step.apart:
        row |= {"apart": True, "held": _text(step.held)}
    return row


def _from_json(row: dict[str, Any]) -> WriteIntent:
    steps = tuple(
        FileStep(
            s["path"], s["node_id"], _bytes(s["base"]), _bytes(s["data"]),
            _bytes(s.get("first")), s.get("apart", False), _bytes(s.get("held")),
        )
        for s in row["steps"]
    )  # fmt: skip
    return WriteIntent(
        row["op"], Kind(row["kind"]), row["source"], row["subject"], row["message"], row["person"],
        datetime.fromisoformat(row["time"]), row["lock"], steps,
        row.get("joins"), tuple(PathEntry(*entry) for entry in row.get("entries", ())), row.get("first"),
    )  # fmt: skip


def _text(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text, validate=True)


class _Together(Struct):
    """One file on disk that holds the intents of several ops. `left`: `{op: intent}` of the ops that are not done.
    `own`: those ops of `left` that also have a newer intent in a file of their own."""

    path: Path
    left: dict[str, WriteIntent]
    own: set[str] = field(default_factory=set)


class Intents:
    """Writes, reads and removes the files with intents, in the folder `.ormah/intent`. Safe for many threads."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.folder = root / FOLDER
        self._moving = self.folder / "moving"
        self._lock = threading.Lock()
        self._together: dict[str, _Together] = {}
        """`{op: shared file}` of the ops that are not done and whose intent was written together with others."""

    def write(self, intent: WriteIntent) -> None:
        """Write an intent; durable on return. Replaces the op's earlier intent."""
        self.prepare()
        write_durably(self._path(intent.op), encode([intent]))
        with self._lock:
            if (shared := self._together.get(intent.op)) is not None:
                shared.own.add(intent.op)

    def write_all(self, intents: Sequence[WriteIntent]) -> None:
        """Write several intents in one file. All are durable on return; if it raises, none is."""
        self.prepare()
        first = intents[0].op
        path = self._path(first) if len(intents) == 1 else self.folder / f"{first}{TOGETHER}"
        try:
            write_durably(path, encode(intents))
        except OSError:
            path.unlink(missing_ok=True)
            raise
        if len(intents) > 1:
            shared = _Together(path, {intent.op: intent for intent in intents})
            with self._lock:
                self._together |= dict.fromkeys(shared.left, shared)

    def prepare(self) -> None:
        """Make the folder of intents if it is missing. A file or symlink at its path is set aside."""
        if not self.folder.is_dir() or self.folder.is_symlink():
            make_folder(self._root, FOLDER)

    def _path(self, op: str) -> Path:
        return self.folder / f"{op}.json"

    def done(self, op: str) -> None:
        """Remove the intent of an op that is done. The removal is not fsynced: if a power cut reverts it, recovery
        finds the op in the history."""
        with self._lock:
            shared = self._together.pop(op, None)
            if shared is not None:
                del shared.left[op]
                if not shared.left:
                    shared.path.unlink(missing_ok=True)
        if shared is None or op in shared.own:
            self._path(op).unlink(missing_ok=True)

    def remove(self, op: str) -> None:
        """Remove the intent of an op whose caller gets an error, so that the op is not completed after a crash. If
        the intent is in a file with those of other ops, that file is durably rewritten without it."""
        with self._lock:
            shared = self._together.get(op)
            others = [intent for other, intent in shared.left.items() if other != op] if shared is not None else []
            if shared is not None and others:
                try:
                    write_durably(shared.path, encode(others))
                except OSError as exc:  # the disk is full
                    log.error("the promise of %s cannot be taken back: %s", op, exc)
        self.done(op)

    def holds(self, op: str) -> bool:
        """Whether an op is promised and not done yet."""
        with self._lock:
            return op in self._together or self._path(op).exists()

    def renew(self, intents: Iterable[WriteIntent]) -> None:
        """Write again those intents whose files another program has removed, because acknowledged changes must survive
        a crash."""
        for intent in intents:
            with self._lock:
                shared = self._together.get(intent.op)
                there = self._path(intent.op).exists() or (shared is not None and shared.path.exists())
            if not there:
                self.write(intent)

    def load(self) -> tuple[list[WriteIntent], list[str]]:
        """Read all intents. Return (the intents in the order of their ops, sentences on damaged files). Half-written
        files are removed, damaged ones set aside. Needs no disk space, so that a full disk does not prevent the
        start."""
        found: dict[str, WriteIntent] = {}
        said = []
        several: list[tuple[Path, list[WriteIntent]]] = []
        for path in sorted(self.folder.iterdir()) if self.folder.is_dir() else []:
            if path.name.endswith(".part"):
                path.unlink()
            elif path.suffix == ".json":
                try:
                    ops = decode(own_files.read(path, follow=True))
                except (ValueError, OSError) as exc:
                    aside = self.folder / "damaged" / path.name
                    aside.parent.mkdir(exist_ok=True)
                    os.replace(path, aside)
                    said.append(f"set a damaged intent aside as {FOLDER}/damaged/{path.name}: {exc}")
                    continue
                if [op.op for op in ops] == [path.stem]:
                    found[path.stem] = ops[0]
                else:
                    several.append((path, ops))
        for path, ops in several:
            if not path.name.endswith(
                TOGETHER
            ):  # written by an older version: a single intent of the first op would get the same name
                path = path.rename(self.folder / f"{ops[0].op}{TOGETHER}")
            own = {op.op for op in ops} & found.keys()  # these have a newer intent in a file of their own
            shared = _Together(path, {op.op: op for op in ops}, own)
            found = shared.left | found
            with self._lock:
                self._together |= dict.fromkeys(shared.left, shared)
        return sorted(found.values(), key=lambda intent: intent.op), said

    def moving(self, commits: Iterable[str]) -> None:
        """Record the commits to which the branch is about to move, so that a ref lock left by a crash is recognized
        as ours."""
        text = "\n".join(commits).encode("ascii")
        try:
            write_small(self._moving, text)
        except OSError:  # the folder is missing, or another kind of file has the name
            self.prepare()
            make_way(self._root, f"{FOLDER}/moving", "was no file")
            write_small(self._moving, text)

    def moved(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._moving.unlink()

    def was_moving(self) -> set[str]:
        try:
            return set(own_files.read(self._moving, follow=True).decode("ascii", "replace").split())
        except OSError:
            return set()


def op_of(token: str) -> str | None:
    """Return the op that a staged file belongs to, from the file's name; None: the name has no op."""
    op = token.partition(".")[0]
    return op if is_op(op) else None
