"""Reading a file that others may be writing, and knowing when it has come to rest."""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Collection, Iterable
from pathlib import Path

from ormahd.model.change import Change, Stat, sha256
from ormahd.model.files import FileState
from ormahd.vault.excluded import is_note_name
from ormahd.watch.scan import Seen, mtime_ns

FORGOTTEN_S = 60.0
"""Seconds after which nobody asks again about a file that has to rest, unless it is still there."""


def read_stable(root: Path, seen: Seen) -> bytes | None:
    """The bytes of a regular file that is still the one that was seen, before and after reading; None otherwise.

    Raises OSError when it may not be read. Links are not followed, pipes not waited for.
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
        data = os.read(fd, seen.size + 1)  # all of it in one, or it is not what was seen
        return data if len(data) == seen.size and _same(os.fstat(fd), seen) else None
    finally:
        os.close(fd)


def _same(found: os.stat_result, seen: Seen) -> bool:
    return stat.S_ISREG(found.st_mode) and (found.st_size, mtime_ns(found), found.st_ino) == (
        seen.size, seen.mtime_ns, seen.inode,
    )  # fmt: skip


def state_of(root: Path, path: str, data: bytes, given: Stat | None = None) -> FileState | None:
    """The state of a file that was just written with `data`; None when it holds something else by now. With the stat that it was
    `given` it is not read, which takes ten calls of the system: who saves into it within one tick of the clock (4 ms) is met by the
    scan, which reads what is that young."""
    try:
        found = os.lstat(os.path.join(root, path))
        seen = Seen(path, found.st_size, mtime_ns(found), found.st_ino, 0)
        if given != (seen.size, seen.mtime_ns, seen.inode) and read_stable(root, seen) != data:
            return None
    except OSError:
        return None
    return FileState(path, seen.size, seen.mtime_ns, seen.inode, sha256(data))


class Rest:
    """Whether files have rested for `quiet` seconds: by their times, or because they looked the same that long ago.

    The second rule is for times in the future, which would never be old enough.
    """

    def __init__(self, quiet: float) -> None:
        self._quiet = quiet
        self._first: dict[str, tuple[Seen, float]] = {}
        self._gone: dict[str, float] = {}

    def missing(self, seen: Seen) -> float:
        """Seconds that the file must still rest; 0: it may be taken in."""
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
        """Seconds that a path must still be gone: editors may remove a file before they write it anew."""
        first = self._gone.setdefault(path, time.monotonic())
        return max(0.0, self._quiet - (time.monotonic() - first))

    def forget_gone(self, waiting: Collection[str]) -> None:
        """Only these are still gone and not taken in. Files that were looked at while they were young, and went, are forgotten too."""
        self._gone = {path: first for path, first in self._gone.items() if path in waiting}
        oldest = time.monotonic() - 2 * self._quiet - FORGOTTEN_S
        if any(since < oldest for _, since in self._first.values()):
            self._first = {path: one for path, one in self._first.items() if one[1] >= oldest}


def as_files(root: Path, changes: Iterable[Change]) -> tuple[dict[str, tuple[bytes, FileState]], list[str]]:
    """What commits of ours changed, as the index takes it: notes with their bytes and states, and paths of those that went."""
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
            # None: somebody saved over it meanwhile, and the scan will bring that in
            state = state_of(root, change.path, change.data, change.stat)
            if state is not None:
                upserts[change.path] = (change.data, state)
    return upserts, list(removals)
