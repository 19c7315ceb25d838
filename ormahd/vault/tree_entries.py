"""Tree entries whose content Ormah never reads: links, submodules, the executable bit. A join takes them over from git
unchanged, and then updates the folder as a checkout would."""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import stat
from collections.abc import Callable, Collection, Iterable

from msgspec import Struct

from ormahd.errors import Conflict
from ormahd.vault.worktree import Worktree

LINK, SUBMODULE, EXECUTABLE = "120000", "160000", "100755"
REMOVED = "0"

log = logging.getLogger(__name__)


class PathEntry(Struct, frozen=True):
    """The entry that a tree is to have at a path. `oid` None: only the mode of the existing file changes. `was`: the id
    before, or None. `mode` REMOVED: the path is removed."""

    path: str
    mode: str
    oid: str | None
    was: str | None

    @property
    def removed(self) -> bool:
        return self.mode == REMOVED


ReadLink = Callable[[str], bytes | None]
"""Returns the target of the link with this blob id; None when the id is no link's."""


def check(worktree: Worktree, entries: Iterable[PathEntry], freed: Collection[str], read: ReadLink) -> None:
    """Raise Conflict when another file is where a link or a submodule is to be. `freed`: paths of files that the same
    op removes."""
    for entry in entries:
        if entry.oid is None and not entry.removed:
            continue
        with contextlib.suppress(FileNotFoundError), worktree.parent(entry.path) as (folder, name):
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if stat.S_ISLNK(found.st_mode):
                target = os.fsencode(os.readlink(name, dir_fd=folder))
                fits = target in {read(oid) for oid in (entry.was, entry.oid) if oid is not None}
            else:
                fits = entry.path in freed or (stat.S_ISDIR(found.st_mode) and entry.mode in {SUBMODULE, REMOVED})
            if not fits:
                raise Conflict(
                    f"{entry.path} is in the way of what the other side has there",
                    hint="move it away, or commit it with git, and repeat",
                    data={"path": entry.path},
                )


def settle(worktree: Worktree, entries: Iterable[PathEntry], read: ReadLink) -> None:
    """Update the folder to entries that are now in the history. What a person has put there since stays. Entries that
    the file system cannot hold are logged; git reports them as missing."""
    for entry in entries:
        try:
            _settle(worktree, entry, read)
        except FileNotFoundError:
            continue
        except (OSError, Conflict) as exc:
            log.warning("%s could not be brought into step: %s", entry.path, exc)


def _settle(worktree: Worktree, entry: PathEntry, read: ReadLink) -> None:
    with worktree.parent(entry.path, []) as (folder, name):
        if entry.oid is None and not entry.removed:
            _set_mode(folder, name, executable=entry.mode == EXECUTABLE)
        elif entry.mode == SUBMODULE:
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, dir_fd=folder)
        else:
            target = None if entry.oid is None else read(entry.oid)
            _set_link(folder, name, None if entry.was is None else read(entry.was), target)


def _set_mode(folder: int, name: str, *, executable: bool) -> None:
    found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if not stat.S_ISREG(found.st_mode):
        return
    mode = stat.S_IMODE(found.st_mode)
    # each of user, group and others that may read may execute, as in git
    wanted = mode | (mode & 0o444) >> 2 if executable else mode & ~0o111
    if wanted != mode:
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
        try:
            os.fchmod(fd, wanted)
        finally:
            os.close(fd)


def _set_link(folder: int, name: str, was: bytes | None, target: bytes | None) -> None:
    try:
        now: bytes | None = os.fsencode(os.readlink(name, dir_fd=folder))
    except FileNotFoundError:
        now = None
    except OSError:  # no link: the empty folder of a removed submodule, or a person's file
        if target is None:
            with contextlib.suppress(OSError):
                os.rmdir(name, dir_fd=folder)
        return
    if now == target or now not in {None, was}:
        return
    if target is None:
        os.unlink(name, dir_fd=folder)
        return
    fresh = f".{secrets.token_hex(8)}.tmp"
    os.symlink(os.fsdecode(target), fresh, dir_fd=folder)
    os.rename(fresh, name, src_dir_fd=folder, dst_dir_fd=folder)
