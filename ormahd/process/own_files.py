"""Handle Ormah's own files (index, state, logs) on a disk that other programs use too.

Paths are checked before they are opened, unusable files are set aside, and a full disk is reported by name.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ASIDE: Final = ".damaged-"
"""The part of a file's new name between its old name and the time at which it was set aside."""
_FULL: Final = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_KINDS: Final = (
    (stat.S_ISDIR, "a folder"), (stat.S_ISLNK, "a link"), (stat.S_ISFIFO, "a FIFO"), (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"), (stat.S_ISBLK, "a device"),
)  # fmt: skip


def kind(path: Path) -> str | None:
    """Return the kind of file at `path` in words ("a FIFO"); "a file" for a regular one, None if nothing exists.
    Opens and follows nothing."""
    try:
        mode = path.lstat().st_mode
    except OSError:
        return None
    return next((words for test, words in _KINDS if test(mode)), "a file")


def set_aside(path: Path) -> Path:
    """Rename the file, folder or FIFO at `path`, and return its new path. Raises OSError."""
    stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
    for number in range(1000):
        aside = path.with_name(f"{path.name}{ASIDE}{stamp}{f'-{number}' if number else ''}")
        if kind(aside) is None:
            path.rename(aside)
            return aside
    raise FileExistsError(errno.EEXIST, "too many files were set aside", str(path))


def make_way(path: Path) -> str | None:
    """Set aside whatever is at `path` if it is not a regular file. Return a sentence about it, or None if nothing
    was moved."""
    found = kind(path)
    if found in {None, "a file"}:
        return None
    return f"{found} stood in the place of {path}; it was set aside as {set_aside(path).name}"


def make_way_for_folder(path: Path) -> str | None:
    """Set aside whatever is at `path`, or at its parent, if it is not a folder or a link to one. Return a sentence,
    or None."""
    for one in (path.parent, path):
        if not one.is_dir() and (found := kind(one)) is not None:
            return f"{found} stood in the place of the folder {one}; it was set aside as {set_aside(one).name}"
    return None


def asides(directory: Path, name: str = "") -> list[Path]:
    """Return the files that were set aside in `directory` (for the file `name`), oldest first."""
    with contextlib.suppress(OSError):
        return sorted(path for path in directory.iterdir() if path.name.startswith(name) and ASIDE in path.name)
    return []


def remove(path: Path) -> None:
    """Delete the file or folder at `path`, if it exists; a link itself, not its target. Raises OSError."""
    if kind(path) == "a folder":
        shutil.rmtree(path)
    else:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            path.unlink()


def read(path: Path, *, follow: bool = False) -> bytes:
    """Return the bytes of a regular file; with `follow`, a link to one is accepted. Raises OSError for any other
    kind, and does not wait for a FIFO."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW))
    with open(fd, "rb") as opened:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, f"{kind(path) or 'nothing'} stands in the place of a file", str(path))
        return opened.read()


def irregular(directory: Path) -> Iterator[Path]:
    """Yield every path below `directory` that is neither a regular file nor a folder. Raises OSError."""
    for folder, folders, names in os.walk(directory):
        yield from (one for name in (*folders, *names) if kind(one := Path(folder, name)) not in {"a file", "a folder"})


def is_full(error: BaseException) -> bool:
    """Whether an error means that a disk is full or a quota is used up."""
    return isinstance(error, OSError) and error.errno in _FULL


def room(path: Path) -> str:
    """Return the free space on the disk of `path`, in words: "the disk at /home has 0.0 MB free of 512 MB (it holds
    /home/ada/vault)"."""
    there = path
    while not there.exists():
        there = there.parent
    try:
        used = shutil.disk_usage(there)
    except OSError as error:
        return f"the disk of {path} does not say how much room it has ({error.strerror})"
    mount = mount_of(there)
    below = "" if mount == path else f" (it holds {path})"
    return f"the disk at {mount} has {used.free / 1e6:,.1f} MB free of {used.total / 1e6:,.0f} MB{below}"


def free(path: Path) -> int:
    """Return the free bytes on the disk of an existing `path`; `sys.maxsize` if unknown."""
    try:
        return shutil.disk_usage(path).free
    except OSError:
        return sys.maxsize


def mount_of(path: Path) -> Path:
    """Return the mount point of an existing `path`."""
    path = Path(os.path.realpath(path))
    device = path.stat().st_dev
    while path != path.parent and path.parent.stat().st_dev == device:
        path = path.parent
    return path
