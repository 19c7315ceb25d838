"""Lines of a tree whose files we never open: links, submodules, the executable bit. A join carries them along as git
has them, and brings the folder into step afterwards, as a checkout would."""

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
    """What a tree is to say of a path. `oid` None: the mode alone, of the file that is there. `was`: the id before, or
    None; `mode` REMOVED: no such path."""

    path: str
    mode: str
    oid: str | None
    was: str | None

    @property
    def removed(self) -> bool:
        return self.mode == REMOVED


ReadLink = Callable[[str], bytes | None]
"""Where the link with this id leads; None: the id is no link's."""


def check(worktree: Worktree, entries: Iterable[PathEntry], freed: Collection[str], read: ReadLink) -> None:
    """Raise Conflict when something else stands where a link or a submodule is to be. `freed` are paths that the same op
    removes a file from."""
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
    """Bring the folder into step with entries that are in the history. What a person put there meanwhile is left, and
    what the file system cannot hold is named in the log: git says of it then that it is missing."""
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
    # who may read may run, as git does it
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
    except OSError:  # no link: an empty folder of a submodule that is gone, or something of the person's
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
