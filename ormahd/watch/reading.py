"""Read a file that other programs may be writing, find out whether it is at rest, and follow renames of notes that are
only indexed and of released files."""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ormahd.errors import VaultBusy
from ormahd.model.change import ChangedFile, FileState, Kind, Stat, sha256
from ormahd.vault import releasing
from ormahd.vault.create import RENAMED, write
from ormahd.vault.excluded import is_note_name
from ormahd.vault.vault import Vault
from ormahd.watch.decide import BUSY_S
from ormahd.watch.scan import FileStat, WalkResult, mtime_ns

if TYPE_CHECKING:
    from ormahd.watch.round import Round


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


def same_notes(
    gone: Sequence[FileState], new: Sequence[FileStat], known: Collection[str], read: Callable[[FileStat], bytes | None]
) -> dict[str, str]:
    """Find renamed notes. Return `{new path: id}` for each file in `new` that is one of the vanished notes `gone`.

    A file is taken for a vanished note if inode, mtime and size are equal; or if the bytes are equal, where of
    several vanished notes one with the same file name is preferred. For a path in `known` only the first rule
    applies.
    """
    left = {row.path: row for row in gone}
    found: dict[str, str] = {}
    for met in new:
        row = next(
            (
                row
                for row in left.values()
                if (row.inode, row.mtime_ns, row.size) == (met.inode, met.mtime_ns, met.size)
            ),
            None,
        )
        if row is not None:
            found[met.path] = str(left.pop(row.path).lent)
    sizes = {row.size for row in left.values()}
    for met in new:
        if met.path in found or met.path in known or met.size not in sizes:
            continue
        try:
            data = read(met)
        except OSError:
            continue  # the scan names it
        name = met.path.rpartition("/")[2]
        alike = [row for row in left.values() if data is not None and row.digest == sha256(data)]
        if alike:
            row = min(alike, key=lambda row: (row.path.rpartition("/")[2] != name, row.path))
            found[met.path] = str(left.pop(row.path).lent)
    return found


def commit_renamed(vault: Vault, moved: Mapping[str, str], renamed: Mapping[str, str]) -> bool:
    """Commit the new list of renamed notes, `renamed` ({path: id}). `moved`: the new entries, for the subject.

    Returns False if another git is at work.
    """
    before = vault.read(RENAMED)
    data = write(renamed)
    if data == (before or b""):
        return True
    what = (
        f"a note that was renamed: {next(iter(moved))}" if len(moved) == 1 else f"{len(moved)} notes that were renamed"
    )
    try:
        with vault.transaction(f"Follow {what}", kind=Kind.EDIT, source="person", person=True) as tx:
            tx.put(RENAMED, data, node_id=None, expect=None if before is None else sha256(before))
    except VaultBusy:
        return False
    return True


def follow(turn: Round, found: WalkResult) -> dict[str, str]:
    """Find notes that are only indexed and were moved, so that they keep their ids. Return `{new path: id}`.

    Commits the new list of renamed notes. If another git is at work, the moved files are removed from `found` and
    left to the next scan.
    """
    gone = [row for path in found.gone if (row := turn.known.get(path)) is not None and row.lent is not None]
    if not gone or turn.half_done:
        return {}
    identity = turn.owner.identity
    new = [met for _, met in sorted(found.changed.items())]
    moved = same_notes(gone, new, turn.known, lambda met: read_stable(turn.vault.root, met))
    if not moved:
        return {}
    said = {path: node_id for path, node_id in identity.renamed().items() if node_id not in moved.values()}
    said |= {path: node_id for path, node_id in moved.items() if node_id != identity.lent(turn.vault.id, path, said)}
    if commit_renamed(turn.vault, moved, said):
        identity.rename(said)
        return moved
    waiting = {*moved, *(row.path for row in gone)}
    for path in waiting:
        found.changed.pop(path, None)
        turn.out.wait(path, BUSY_S)
    found.gone = [path for path in found.gone if path not in waiting]
    return {}


def follow_released(turn: Round, found: WalkResult) -> None:
    """Put the new paths of released files that were moved into the list of released files.

    A moved file is recognised by its inode, even if it was edited too, or by its bytes. If another git is at work,
    the moved files are removed from `found` and left to the next scan.
    """
    listed = turn.owner.released.files()
    gone = [turn.known[path] for path in found.gone if path in listed and path in turn.known]
    if not gone or turn.half_done:
        return
    new = [met for path, met in sorted(found.changed.items()) if path not in turn.known and path not in turn.tree]
    moved: dict[str, FileState] = {}
    for row in gone:
        met = next((met for met in new if met.path not in moved and _is_same(turn, row, met)), None)
        if met is not None:
            moved[met.path] = row
    if not moved or _relist(turn.vault, moved):
        return
    waiting = {*moved, *(row.path for row in moved.values())}
    for path in waiting:
        found.changed.pop(path, None)
        turn.out.wait(path, BUSY_S)
    found.gone = [path for path in found.gone if path not in waiting]


def _is_same(turn: Round, row: FileState, met: FileStat) -> bool:
    if row.inode == met.inode:
        return True
    if row.size != met.size:
        return False
    try:
        data = read_stable(turn.vault.root, met)
    except OSError:
        return False  # the scan names it
    return data is not None and sha256(data) == row.digest


def _relist(vault: Vault, moved: Mapping[str, FileState]) -> bool:
    """Commit the list of released files with new paths. `moved`: {new path: the file's state at its old path}.

    Returns False if another git is at work.
    """
    before = vault.read(releasing.PATH) or b""
    listed = releasing.read(before)
    lines = [
        releasing.Released(path, row.digest, listed[row.path].node_id)
        for path, row in moved.items()
        if row.path in listed
    ]
    data = releasing.with_files(releasing.without_files(before, {row.path for row in moved.values()}), lines)
    what = f"{next(iter(moved))}" if len(moved) == 1 else f"{len(moved)} files"
    try:
        with vault.transaction(f"Follow what was released: {what}", kind=Kind.EDIT, source="person", person=True) as tx:
            tx.put(releasing.PATH, data, node_id=None, expect=sha256(before))
    except VaultBusy:
        return False
    return True
