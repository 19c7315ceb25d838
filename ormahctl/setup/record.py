"""What a setup added, so that `uninstall` can give the file back to the byte: splices, and what was there before us.

One JSON file for each settings file in the state directory, for us alone. Nothing of the person's own settings stands in
it but the few bytes that a splice replaced. Without it `uninstall` works too, and leaves no empty containers.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import msgspec

from ormahctl.setup.edits import Edit
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
