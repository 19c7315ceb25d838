"""Read a file that other programs may be writing, and find out whether it is at rest."""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Collection, Iterable
from pathlib import Path

from ormahd.model.change import ChangedFile, FileState, Stat, sha256
from ormahd.vault.excluded import is_note_name
from ormahd.watch.scan import FileStat, mtime_ns

FORGOTTEN_S = 60.0
"""Seconds, besides twice the quiet time, after which `RestCheck` forgets a file that it was not asked about again."""


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
        if not _same(os.fstat(fd), seen):
            return None
        data = os.read(fd, seen.size + 1)  # a single read gets all of it, or the file has changed
        return data if len(data) == seen.size and _same(os.fstat(fd), seen) else None
    finally:
        os.close(fd)


def _same(found: os.stat_result, seen: FileStat) -> bool:
    return stat.S_ISREG(found.st_mode) and (found.st_size, mtime_ns(found), found.st_ino) == (
        seen.size, seen.mtime_ns, seen.inode,
    )  # fmt: skip


def state_of(root: Path, path: str, data: bytes, given: Stat | None = None) -> FileState | None:
    """Return the state of a file that Ormah has just written with `data`; None if it has other content by now.

    If the file's stat equals `given`, it is not read. An edit that did not change the stat is found by the next scan,
    because scans read very recent files in any case.
    """
    try:
        found = os.lstat(os.path.join(root, path))
        seen = FileStat(path, found.st_size, mtime_ns(found), found.st_ino, 0)
        if given != (seen.size, seen.mtime_ns, seen.inode) and read_stable(root, seen) != data:
            return None
    except OSError:
        return None
    return FileState(path, seen.size, seen.mtime_ns, seen.inode, sha256(data))


class RestCheck:
    """Tells whether a file is at rest: its times are at least `quiet` seconds old, or its stat has been the same for
    that long.

    The second rule is for files with times in the future.
    """

    def __init__(self, quiet: float) -> None:
        self._quiet = quiet
        self._first: dict[str, tuple[FileStat, float]] = {}
        self._gone: dict[str, float] = {}

    def missing(self, seen: FileStat) -> float:
        """Return for how many seconds the file must stay unchanged until it is at rest; 0: it is."""
        age = (time.time_ns() - seen.changed_ns) / 1e9
        if age >= self._quiet:
            self._first.pop(seen.path, None)
            return 0.0
        now = time.monotonic()
        kept = self._first.get(seen.path)
        if kept is None or kept[0] != seen:
            self._first[seen.path] = (seen, now)
            return min(self._quiet - age, self._quiet) if age >= 0 else self._quiet
        left = self._quiet - (now - kept[1])
        if left <= 0:
            del self._first[seen.path]
            return 0.0
        return min(left, self._quiet - age) if age >= 0 else left

    def missing_gone(self, path: str) -> float:
        """Return for how many seconds the path must stay absent until the file counts as deleted; 0: it does.

        An editor may delete a file and then write it again.
        """
        first = self._gone.setdefault(path, time.monotonic())
        return max(0.0, self._quiet - (time.monotonic() - first))

    def forget_gone(self, waiting: Collection[str]) -> None:
        """Forget the absent paths that are not in `waiting`, and files that were not asked about for a long time."""
        self._gone = {path: first for path, first in self._gone.items() if path in waiting}
        oldest = time.monotonic() - 2 * self._quiet - FORGOTTEN_S
        if any(since < oldest for _, since in self._first.values()):
            self._first = {path: one for path, one in self._first.items() if one[1] >= oldest}


def as_files(root: Path, changes: Iterable[ChangedFile]) -> tuple[dict[str, tuple[bytes, FileState]], list[str]]:
    """Return the changes of Ormah's own commits in the form that the index takes: ({path: (bytes, state)}, the paths of
    deleted notes)."""
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
            # None: the file was saved again meanwhile, and a scan will bring that in
            state = state_of(root, change.path, change.data, change.stat)
            if state is not None:
                upserts[change.path] = (change.data, state)
    return upserts, list(removals)
