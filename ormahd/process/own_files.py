"""Handle Ormah's own files (index, state, logs) on a disk that other programs use too.

Paths are checked before they are opened. What cannot be used is renamed (set aside). A full disk is reported with its
mount point.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
from pathlib import Path
from typing import BinaryIO, Final

ASIDE: Final = ".damaged"
"""The end of the name of a file that was set aside."""
_FULL: Final = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def aside(path: Path) -> Path:
    """Return the path to which `set_aside` renames what is at `path`."""
    return path.with_name(path.name + ASIDE)


def set_aside(path: Path) -> Path:
    """Rename what is at `path` to `aside(path)`, and return that path. It replaces what was moved aside earlier.

    Raises:
        OSError: the system refused it.
    """
    remove(aside(path))
    return path.rename(aside(path))


def remove(path: Path) -> None:
    """Delete the file or folder at `path`, if it exists. The target of a symlink is not deleted.

    Raises:
        OSError: the system refused it.
    """
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            path.unlink()


def open_regular(path: Path, *, follow: bool = True) -> BinaryIO:
    """Open the regular file at `path` for reading. `follow`: whether `path` may be a symlink to one.

    Raises:
        OSError: it cannot be opened, or is no regular file. A pipe or a device is refused without waiting for it.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    fd = os.open(path, flags)
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return os.fdopen(fd, "rb")
    os.close(fd)
    raise OSError(errno.EINVAL, "it is no regular file", str(path))


def read(path: Path, *, follow: bool = False, limit: int = -1) -> bytes:
    """Return the bytes of the regular file at `path`, up to `limit`; -1: all. Raises OSError, as `open_regular` does."""
    with open_regular(path, follow=follow) as opened:
        return opened.read(limit)


def is_full(error: BaseException) -> bool:
    """Return whether the error means that a disk is full or a quota is used up."""
    return isinstance(error, OSError) and error.errno in _FULL


def room(path: Path) -> str:
    """Return a clause about the free space on the disk of `path`: "the disk at /home has 0.0 MB free of 512 MB (it
    holds /home/ada/vault)"."""
    existing = path
    while not existing.exists():
        existing = existing.parent
    try:
        used = shutil.disk_usage(existing)
    except OSError as error:
        return f"the disk of {path} does not say how much room it has ({error.strerror})"
    mount = mount_of(existing)
    below = "" if mount == path else f" (it holds {path})"
    return f"the disk at {mount} has {used.free / 1e6:,.1f} MB free of {used.total / 1e6:,.0f} MB{below}"


def mount_of(path: Path) -> Path:
    """Return the mount point of the file system of `path`, which exists."""
    path = Path(os.path.realpath(path))
    device = path.stat().st_dev
    while path != path.parent and path.parent.stat().st_dev == device:
        path = path.parent
    return path
