"""What we have promised to write: a file per op in `.ormah/intent`, or one for ops that go together, flushed before
anything else is touched.

A file there is the promise: after a crash the op is rolled forward from it. It appears complete (temporary name, fsync,
rename, fsync of the folder), so that half a file is a write that was never acknowledged. The first line carries a
checksum; a file that does not match it is set aside and named, and never blocks the start.
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

from ormahd.model.change import Change, Kind, Stat, is_op, sha256
from ormahd.process import own_files
from ormahd.process.disk import write_durably, write_small
from ormahd.process.set_aside import make_folder, make_way
from ormahd.vault.tree_entries import PathEntry

FOLDER = ".ormah/intent"
HEADER = "ormah-intent 1"
TOGETHER = ".together.json"
"""What follows the first op's id in the name of a file with several."""

log = logging.getLogger(__name__)


class Step(Struct, frozen=True):
    """One file of an op: `base` are the bytes that were there (None: no file), `data` those to come (None: removed)."""

    path: str
    node_id: str | None
    base: bytes | None
    data: bytes | None
    first: bytes | None = None
    """What the op's first commit has at the path; None: that commit does not change it."""
    apart: bool = False
    """Whether the op's commit has something else than the folder: `held`, or no such file (None)."""
    held: bytes | None = None

    @property
    def in_history(self) -> bytes | None:
        """What the op's commit has at the path."""
        return self.held if self.apart else self.data

    @property
    def old(self) -> str | None:
        return None if self.base is None else sha256(self.base)

    def change(self, stat: Stat | None = None) -> Change:
        """What the op did here; `stat` of the file that it left, where that is known."""
        return Change(self.path, self.node_id, self.old, self.data, stat, self.apart, self.held)


class Intent(Struct, frozen=True):
    """An op that is decided. `message` is the whole commit message; `person`: the author is the person."""

    op: str
    kind: Kind
    source: str
    subject: str
    message: str
    person: bool
    time: datetime
    lock: str
    """The lock file that the op takes, so that after a crash ours can be told from another's."""
    steps: tuple[Step, ...]
    joins: str | None = None
    """The commit whose history the op brings in: its commit has that as a second parent, or is that commit."""
    entries: tuple[PathEntry, ...] = ()
    """What comes with it beside the files."""
    first: str | None = None
    """The message of a commit that goes before the op's own, with the `first` bytes of each step; None: there is none."""

    @property
    def name(self) -> str:
        """The op as the log names it: its subject holds a title, which is text of a note."""
        return f"op {self.op} ({self.kind})"

    @property
    def node_ids(self) -> list[str]:
        return list(dict.fromkeys(step.node_id for step in self.steps if step.node_id))

    def token(self, number: int) -> str:
        """The staged twin's name of step `number`."""
        return f"{self.op}.{number}"


def encode(ops: Sequence[Intent]) -> bytes:
    body = json.dumps({"ops": [_to_json(op) for op in ops]}, ensure_ascii=True).encode()
    return f"{HEADER} {sha256(body)}\n".encode() + body


def decode(data: bytes) -> list[Intent]:
    """Raises ValueError when anything is not as it was written."""
    header, _, body = data.partition(b"\n")
    if header.decode("ascii", "replace") != f"{HEADER} {sha256(body)}":
        raise ValueError("the checksum does not match")
    try:
        return [_from_json(op) for op in json.loads(body)["ops"]]
    except (KeyError, TypeError) as exc:
        raise ValueError(f"{exc!r} while reading") from exc


def _to_json(intent: Intent) -> dict[str, Any]:
    return {
        "op": intent.op, "kind": str(intent.kind), "source": intent.source, "subject": intent.subject,
        "message": intent.message, "person": intent.person, "time": intent.time.isoformat(), "lock": intent.lock,
        "steps": [_step_to_json(step) for step in intent.steps],
        "joins": intent.joins, "entries": [[one.path, one.mode, one.oid, one.was] for one in intent.entries],
        "first": intent.first,
    }  # fmt: skip


def _step_to_json(step: Step) -> dict[str, Any]:
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


def _from_json(row: dict[str, Any]) -> Intent:
    steps = tuple(
        Step(
            s["path"], s["node_id"], _bytes(s["base"]), _bytes(s["data"]),
            _bytes(s.get("first")), s.get("apart", False), _bytes(s.get("held")),
        )
        for s in row["steps"]
    )  # fmt: skip
    return Intent(
        row["op"], Kind(row["kind"]), row["source"], row["subject"], row["message"], row["person"],
        datetime.fromisoformat(row["time"]), row["lock"], steps,
        row.get("joins"), tuple(PathEntry(*entry) for entry in row.get("entries", ())), row.get("first"),
    )  # fmt: skip


def _text(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text, validate=True)


class _Together(Struct):
    """A file with the promises of several ops, as long as it is there. `left`: those that are not done; `own`: of these the ones
    that have a newer promise in a file of their own."""

    path: Path
    left: dict[str, Intent]
    own: set[str] = field(default_factory=set)


class Intents:
    """The folder of promises. Safe from any thread."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.folder = root / FOLDER
        self._moving = self.folder / "moving"
        self._lock = threading.Lock()
        self._together: dict[str, _Together] = {}
        """By the id of each op that is left in it."""

    def write(self, intent: Intent) -> None:
        """Durable when this returns. It takes the place of what was promised of this op before."""
        self.prepare()
        write_durably(self._path(intent.op), encode([intent]))
        with self._lock:
            if (shared := self._together.get(intent.op)) is not None:
                shared.own.add(intent.op)

    def write_all(self, intents: Sequence[Intent]) -> None:
        """Several at once, in one file; all durable when this returns, none of them where it raises."""
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
        """Make the folder, where it is not one. What stands in its place is set aside."""
        if not self.folder.is_dir() or self.folder.is_symlink():
            make_folder(self._root, FOLDER)

    def _path(self, op: str) -> Path:
        return self.folder / f"{op}.json"

    def done(self, op: str) -> None:
        """It is fulfilled. Not flushed: a promise that comes back after a power cut is found fulfilled in the history."""
        with self._lock:
            shared = self._together.pop(op, None)
            if shared is not None:
                del shared.left[op]
                if not shared.left:
                    shared.path.unlink(missing_ok=True)
        if shared is None or op in shared.own:
            self._path(op).unlink(missing_ok=True)

    def remove(self, op: str) -> None:
        """It is taken back: its caller gets an error, so it must not happen after a crash either."""
        with self._lock:
            shared = self._together.get(op)
            others = [intent for other, intent in shared.left.items() if other != op] if shared is not None else []
            if shared is not None and others:
                try:
                    write_durably(shared.path, encode(others))
                except OSError as exc:  # there is no room for saying so
                    log.error("the promise of %s cannot be taken back: %s", op, exc)
        self.done(op)

    def holds(self, op: str) -> bool:
        """Whether an op is promised and not done yet."""
        with self._lock:
            return op in self._together or self._path(op).exists()

    def renew(self, intents: Iterable[Intent]) -> None:
        """Write those anew whose files were removed: what was acknowledged must outlive us."""
        for intent in intents:
            with self._lock:
                shared = self._together.get(intent.op)
                there = self._path(intent.op).exists() or (shared is not None and shared.path.exists())
            if not there:
                self.write(intent)

    def load(self) -> tuple[list[Intent], list[str]]:
        """(promises in order, sentences about what was wrong). Half-written files go; damaged ones are set aside. Nothing is written,
        so that a full disk keeps nobody from starting."""
        found: dict[str, Intent] = {}
        said = []
        several: list[tuple[Path, list[Intent]]] = []
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
            if not path.name.endswith(TOGETHER):  # of an older version: the first op's own promise would take its place
                path = path.rename(self.folder / f"{ops[0].op}{TOGETHER}")
            own = {op.op for op in ops} & found.keys()  # a newer one stands there
            shared = _Together(path, {op.op: op for op in ops}, own)
            found = shared.left | found
            with self._lock:
                self._together |= dict.fromkeys(shared.left, shared)
        return sorted(found.values(), key=lambda intent: intent.op), said

    def moving(self, commits: Iterable[str]) -> None:
        """Note where the branch is about to be moved, so that a lock left behind by it is known as ours."""
        text = "\n".join(commits).encode("ascii")
        try:
            write_small(self._moving, text)
        except OSError:  # the folder is gone, or something else has the name
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
    """The op that a staged twin belongs to."""
    op = token.partition(".")[0]
    return op if is_op(op) else None
