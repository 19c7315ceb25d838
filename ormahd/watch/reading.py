"""Read a file that other programs may be writing, and find out whether it is at rest."""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Collection, Iterable
from pathlib import Path

from msgspec import Struct

from ormahd.model.change import ChangedFile, FileState, Stat, sha256
from ormahd.vault.excluded import is_note_name

NS = 2**63 - 1
"""The largest distance from 1970, in nanoseconds, that an mtime may have here: the largest integer in SQLite. Some file
systems store later times."""


class FileStat(Struct, frozen=True):
    """A file's path and those fields of its stat by which a change is noticed. `changed_ns`: the later of mtime and
    ctime."""

    path: str
    size: int
    mtime_ns: int
    inode: int
    changed_ns: int

    @classmethod
    def of(cls, path: str, found: os.stat_result) -> FileStat:
        """Return the `FileStat` of a file, made from the result of `os.lstat`."""
        changed = max(found.st_mtime_ns, found.st_ctime_ns)
        return cls(path, found.st_size, max(-NS, min(found.st_mtime_ns, NS)), found.st_ino, changed)

    def differs(self, row: FileState) -> bool:
        """Whether size, mtime or inode differ from those of `row`."""
        return row.mtime_ns != self.mtime_ns or row.size != self.size or row.inode != self.inode

    def state(self, digest: str) -> FileState:
        """Return the state to record for the file. `digest`: the sha256 of its content."""
        return FileState(self.path, self.size, self.mtime_ns, self.inode, digest)


def read_stable(root: Path, seen: FileStat) -> bytes | None:
    """Return the bytes of the regular file at `seen.path` if its stat is `seen` before and after reading; else None.

    Raises OSError if the file may not be read. Symlinks are not followed, and a pipe does not block.
    """
    try:
        fd = os.open(os.path.join(root, seen.path), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as exc:
        if exc.errno in {errno.ELOOP, errno.ENXIO, errno.ENOTDIR}:
            return None
        raise
    try:
        if not _is_unchanged(os.fstat(fd), seen):
            return None
        data = os.read(fd, seen.size + 1)  # a single read gets all of it, or the file has changed
        return data if len(data) == seen.size and _is_unchanged(os.fstat(fd), seen) else None
    finally:
        os.close(fd)


def _is_unchanged(found: os.stat_result, seen: FileStat) -> bool:
    """Whether `found` is the stat of a regular file, and equals `seen`."""
    return stat.S_ISREG(found.st_mode) and not FileStat.of(seen.path, found).differs(seen.state(""))


def state_of(root: Path, path: str, data: bytes, given: Stat | None = None) -> FileState | None:
    """Return the state of a file that Ormah has just written with the bytes `data`; None if it has other content by
    now.

    If the file's stat equals `given`, the file is not read. An edit that leaves the stat the same is found by the next
    scan, because scans always read very recent files.
    """
    try:
        seen = FileStat.of(path, os.lstat(root / path))
        if given != (seen.size, seen.mtime_ns, seen.inode) and read_stable(root, seen) != data:
            return None
    except OSError:
        return None
    return seen.state(sha256(data))


class RestCheck:
    """Tells whether a file is at rest: its times are at least `quiet` seconds old, or it was the same in all checks for
    that long.

    The second rule is for files with times in the future, and for absent files: an editor may delete a file and then
    write it again.
    """

    def __init__(self, quiet: float) -> None:
        self._quiet = quiet
        self._first: dict[str, tuple[FileStat | None, float]] = {}

    def seconds_until_rest(self, path: str, seen: FileStat | None) -> float:
        """Return how many more seconds the file must not change until it is at rest; 0 if it is at rest. `seen`: its
        stat now; None if the file is absent."""
        now = time.monotonic()
        state, first = self._first.get(path, (seen, now))
        if state != seen:
            first = now
        self._first[path] = (seen, first)
        remaining = self._quiet - (now - first)
        if seen is not None and (age := (time.time_ns() - seen.changed_ns) / 1e9) >= 0:
            remaining = min(remaining, self._quiet - age)
        return max(0.0, remaining)

    def keep(self, waiting: Collection[str]) -> None:
        """Forget the files that are not in `waiting`. Called after each scan."""
        self._first = {path: first for path, first in self._first.items() if path in waiting}


def index_changes(root: Path, changes: Iterable[ChangedFile]) -> tuple[dict[str, tuple[bytes, FileState]], list[str]]:
    """Convert the changes of Ormah's own commits to the form that the index takes. Return ({path: (bytes, state)}, the
    paths of deleted notes). A file that was saved again meanwhile is left out, and is found by the next scan."""
    upserts: dict[str, tuple[bytes, FileState]] = {}
    removals: dict[str, None] = {}
    for change in changes:
        if change.path.startswith(".ormah/") or not is_note_name(change.path.rpartition("/")[2]):
            continue
        upserts.pop(change.path, None)
        removals.pop(change.path, None)
        if change.data is None:
            removals[change.path] = None
        else:
            state = state_of(root, change.path, change.data, change.stat)
            if state is not None:
                upserts[change.path] = (change.data, state)
    return upserts, list(removals)
