"""Durable intents of ops: a file per batch in `.ormah/intent`, fsynced before anything else is written.

After a crash the file tells what the batch was about to do: ops whose commit is in the history are completed, and the
files of all others are put back. The file appears complete or not at all (temporary name, fsync, rename, fsync of the
folder), so a half-written file belongs to changes that were never acknowledged. The first line has a checksum. A file
that does not match its checksum is set aside and reported; it never prevents the start.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from msgspec import Struct, ValidationError, convert, to_builtins

from ormahd.model.change import ChangedFile, Kind, Stat, sha256
from ormahd.process import own_files
from ormahd.process.disk import make_folder, write_durably

FOLDER = ".ormah/intent"
HEADER = "ormah-intent 1"


class FileStep(Struct, frozen=True):
    """What an op does to one file. `base`: the file's bytes before the op (None: no file). `data`: its bytes after
    the op (None: the op removes the file)."""

    path: str
    node_id: str | None
    base: bytes | None
    data: bytes | None

    @property
    def old(self) -> str | None:
        return None if self.base is None else sha256(self.base)

    def change(self, stat: Stat | None = None) -> ChangedFile:
        """Return the change that the op made to the file. `stat`: the stat of the file afterwards, where known."""
        return ChangedFile(self.path, self.node_id, self.old, self.data, stat)


class WriteIntent(Struct, frozen=True):
    """The intent of an op: all that is needed to write the op, and to put its files back after a crash. `message`: the
    whole commit message. `person`: whether the person is the author."""

    op: str
    kind: Kind
    source: str
    subject: str
    message: str
    person: bool
    time: datetime
    steps: tuple[FileStep, ...]
    joins: str | None = None
    """The commit whose history the op joins: it becomes the second parent of the op's commit, or (fast-forward) is that
    commit."""

    @property
    def name(self) -> str:
        """The op's name for the log: without its subject, which contains text of a note."""
        return f"op {self.op} ({self.kind})"

    def token(self, number: int) -> str:
        """Return the name of the staged file of step `number`."""
        return f"{self.op}.{number}"


def encode(ops: Sequence[WriteIntent]) -> bytes:
    body = json.dumps(to_builtins(list(ops)), ensure_ascii=True).encode()  # in ASCII: a name need not be UTF-8
    return f"{HEADER} {sha256(body)}\n".encode() + body


def decode(data: bytes) -> list[WriteIntent]:
    """Parse a file of intents. Raises ValueError when the checksum or the content is wrong."""
    header, _, body = data.partition(b"\n")
    if header.decode("ascii", "replace") != f"{HEADER} {sha256(body)}":
        raise ValueError("the checksum does not match")
    try:
        return convert(json.loads(body), list[WriteIntent])
    except ValidationError as exc:
        raise ValueError(str(exc)) from exc


class IntentFile(Struct, frozen=True):
    """A batch of ops whose intents lie in one file."""

    file: Path
    ops: list[WriteIntent]


class Intents:
    """Writes and reads the files with intents, in the folder `.ormah/intent`."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.folder = root / FOLDER

    def write(self, ops: list[WriteIntent]) -> IntentFile:
        """Write the intents of a batch to one file, durable on return. If it raises OSError, there is no file."""
        file = make_folder(self._root, FOLDER) / f"{ops[0].op}.json"
        try:
            write_durably(file, encode(ops))
        except OSError:
            file.unlink(missing_ok=True)
            raise
        return IntentFile(file, ops)

    @staticmethod
    def done(batch: IntentFile) -> None:
        """Remove the file of a batch that is over. The removal is not fsynced: if a power cut reverts it, recovery finds
        the ops in the history."""
        batch.file.unlink(missing_ok=True)

    def load(self) -> tuple[list[IntentFile], list[str]]:
        """Read all intents. Return (the batches in the order of their ops, sentences on damaged files). Half-written
        files are removed, damaged ones set aside. Needs no disk space, so that a full disk does not prevent the
        start."""
        found = []
        said = []
        for path in sorted(self.folder.iterdir()) if self.folder.is_dir() else []:
            if path.name.endswith(".part"):
                path.unlink()
            elif path.suffix == ".json":
                try:
                    found.append(IntentFile(path, decode(own_files.read(path, follow=True))))
                except (ValueError, OSError) as exc:
                    aside = self.folder / "damaged" / path.name
                    aside.parent.mkdir(exist_ok=True)
                    os.replace(path, aside)
                    said.append(f"set a damaged intent aside as {FOLDER}/damaged/{path.name}: {exc}")
        return found, said
