"""One change to another program's settings file, and the record by which `uninstall` restores the file byte for byte.

The record is a JSON file per settings file in the state directory. It holds only the bytes that a splice replaced.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import msgspec

from ormahctl.setup import file
from ormahctl.setup.file import Edit, Seen, apply, between, reverse
from ormahd import paths


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One settings file that we changed."""

    agent: str
    file: str
    real: str
    after: str
    """sha256 of the file as we left it: with these bytes the edits can be taken back one by one."""
    edits: tuple[Edit, ...]
    existed: bool
    """Whether the file was there before us."""
    keep: frozenset[str] = frozenset()
    """Containers of hooks that were there before us (`hooks`, `hooks.EVENT`)."""
    directories: tuple[str, ...] = ()
    """Directories that we made for it, outermost first."""

    def fits(self, data: bytes | None) -> bool:
        """Whether the file is as we left it."""
        return data is not None and digest(data) == self.after

    @classmethod
    def all(cls, agent: str) -> list[Self]:
        """The records of one agent; one that cannot be read counts as none, for it only holds what is nice to have."""
        found = []
        for path in sorted(_directory().glob(f"{agent}-*.json")):
            try:
                found.append(msgspec.json.decode(path.read_bytes(), type=cls))
            except msgspec.DecodeError:
                continue
        return found

    @classmethod
    def of(cls, agent: str, real: Path) -> Self | None:
        """The record for the file `real`."""
        return next((one for one in cls.all(agent) if one.real == str(real)), None)

    def store(self) -> None:
        paths.private_dir(_directory())
        fresh = self._path.with_suffix(".new")
        fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with open(fd, "wb") as opened:
            opened.write(msgspec.json.encode(self))
            opened.flush()
            os.fsync(fd)
        fresh.replace(self._path)

    def forget(self) -> None:
        self._path.unlink(missing_ok=True)

    @property
    def _path(self) -> Path:
        return _directory() / f"{self.agent}-{digest(os.fsencode(self.real))[:8]}.json"


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@contextmanager
def alone() -> Iterator[None]:
    """One setup at a time; a second one waits."""
    fd = os.open(paths.private_dir(_directory()), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _directory() -> Path:
    return paths.setup_dir()


@dataclass(frozen=True)
class FileChange:
    """What would become of one file: `after` its bytes, None where it goes."""

    seen: Seen
    after: bytes | None
    record: Record | None
    """What to remember once it is done; None: nothing any more."""
    was: Record | None

    @property
    def path(self) -> Path:
        return self.seen.path

    @property
    def changed(self) -> bool:
        return self.seen.data != self.after

    def make(self) -> None:
        """Do it.

        Raises:
            Conflict: the file is not what the plan was made for, or may not be written. Nothing was changed.
        """
        if not self.changed:
            return
        with alone():
            made = file.write(self.seen, self.after)
            if self.record is not None:
                known = self.was.directories if self.was else ()
                msgspec.structs.replace(self.record, directories=(*known, *made)).store()
            elif self.was is not None:
                self.was.forget()
                _remove_empty(self.was.directories)


def tidy(changes: Sequence[FileChange]) -> None:
    """Take away the directories that we made, once every file that was taken out of them is gone."""
    for one in changes:
        if one.record is None and one.was is not None:
            _remove_empty(one.was.directories)


def whole(owner: str, path: Path, wanted: bytes) -> FileChange:
    """A file that is ours from its first byte to its last. One that was there before comes back when it is taken out."""
    seen = file.read(path)
    was = Record.of(owner, seen.real)
    before, existed = seen.data, seen.data is not None
    if was is not None and was.fits(seen.data):
        before, existed = apply(seen.data or b"", reverse(was.edits)), was.existed
    kept = Record(
        agent=owner, file=str(path), real=str(seen.real), existed=existed, after=digest(wanted),
        edits=tuple(between(before or b"", wanted)),
    )  # fmt: skip
    return FileChange(seen, wanted, kept, was)


def taken_out(owner: str) -> tuple[list[FileChange], list[Path]]:
    """Every file of `owner` as it was before us; and those that were edited since, which are left as they are."""
    changes, edited = [], []
    for was in Record.all(owner):
        seen = file.read(Path(was.file))
        if was.fits(seen.data):
            before = apply(seen.data or b"", reverse(was.edits)) if was.existed else None
            changes.append(FileChange(seen, before, None, was))
        elif seen.data is not None:
            edited.append(seen.path)
    return changes, edited


def _remove_empty(directories: tuple[str, ...]) -> None:
    """Take away directories that we made, the innermost first, as far as nobody else uses them."""
    for path in reversed(directories):
        if not os.path.isdir(path):
            continue
        if os.listdir(path):
            return
        os.rmdir(path)
