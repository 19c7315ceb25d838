"""Files on disk: durable writes, parallel fsyncs, and atomic renames that exchange two files or never replace one.

Functions that take a folder's descriptor follow no symbolic link. If something of another kind (such as a pipe) is in
the place of a file or folder of the vault, it is moved away (set aside), and never deleted or opened.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import logging
import os
import stat
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, Final, TypeVar

from ormahd.errors import Conflict
from ormahd.process import priority

T = TypeVar("T")

THREADS = 8
"""The number of threads that fsync in parallel: a file system can serve many fsyncs with one flush."""
MANY = 4
"""The number of items from which `Flusher.each` gives way to urgent work before each item."""

_UNSUPPORTED = {errno.EINVAL, errno.ENOSYS, errno.ENOTSUP}


def sync(fd: int) -> None:
    """fsync `fd` down to the storage medium; on macOS a plain fsync only reaches the drive's cache."""
    if sys.platform == "darwin":
        import fcntl

        with contextlib.suppress(OSError):
            fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
            return
    os.fsync(fd)


def read_all(fd: int, size: int) -> bytes:
    """Return all bytes from the current position of `fd`. `size`: the expected number of bytes.

    This makes fewer system calls than `open(fd).read()`, and so releases the GIL less often.
    """
    parts = []
    while part := os.read(fd, size + 1):
        parts.append(part)
    return b"".join(parts)


def write_all(fd: int, data: bytes) -> None:
    """Write all of `data` to `fd`. This makes fewer system calls than a file object does."""
    remaining = memoryview(data)
    while remaining:
        remaining = remaining[os.write(fd, remaining) :]


def write_and_sync(fd: int, data: bytes) -> None:
    """Write all of `data` to `fd` and fsync it. Closes `fd`, also on an error."""
    try:
        write_all(fd, data)
        sync(fd)
    finally:
        os.close(fd)


def sync_directory(directory: Path | str) -> None:
    """Make the names in a directory durable (fsync). Does nothing if the directory does not exist."""
    try:
        fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        sync(fd)
    finally:
        os.close(fd)


def write_durably(path: Path, data: bytes, *, mode: int = 0o666) -> None:
    """Replace a file atomically and durably: write a temporary file, fsync it, rename it, fsync the folder.

    `mode`: the permissions of a new file, before the umask.
    """
    temporary = path.with_name(f".{os.fsdecode(os.fsencode(path.name)[:200])}.part")
    write_and_sync(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode), data)
    os.replace(temporary, path)
    sync_directory(path.parent)


class Flusher:
    """Calls a function in parallel threads, once for each item. Meant for many small writes that fsync: the disk can
    then combine the flushes."""

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None

    def each(self, work: Callable[[T], object], items: Iterable[T]) -> None:
        """Call `work` with every item. If calls fail, the first error is raised once all calls have ended."""
        rows = list(items)
        if len(rows) < 2:
            for row in rows:
                work(row)
            return

        def one(row: T) -> object:
            """Call `work` with one item. Before each of many, let urgent work run first."""
            if len(rows) >= MANY:
                priority.give()
            return work(row)

        if self._pool is None:
            self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="vault-flush")
        running = [self._pool.submit(one, row) for row in rows]
        wait(running)
        for done in running:
            done.result()

    def close(self) -> None:
        """End the threads. A later call starts them again."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None


def _load() -> tuple[Any, int, int]:
    """Return the system's function for `rename2`, with its flags: (function, flag "do not replace", flag "exchange").

    (None, 0, 0) if the system has no such function.
    """
    names = {"linux": ("renameat2", 1, 2), "darwin": ("renameatx_np", 4, 2)}
    name, noreplace, exchange = names.get(sys.platform, ("", 0, 0))
    if not name:
        return None, 0, 0
    try:
        function = getattr(ctypes.CDLL(None, use_errno=True), name)
    except (OSError, AttributeError):
        return None, 0, 0
    function.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint]
    function.restype = ctypes.c_int
    return function, noreplace, exchange


_rename2, _NOREPLACE, _EXCHANGE = _load()


def rename2(from_dir: int, old: str, to_dir: int, new: str, *, exchange: bool) -> bool:
    """Rename a file atomically without replacing an existing one or, with `exchange`, exchange two files.

    `from_dir`, `to_dir`: file descriptors of the folders of `old` and `new`. Return False if the system or the file
    system does not support it. Raises OSError for other errors.
    """
    if _rename2 is None:
        return False
    flags = _EXCHANGE if exchange else _NOREPLACE
    if _rename2(from_dir, os.fsencode(old), to_dir, os.fsencode(new), flags) == 0:
        return True
    number = ctypes.get_errno()
    if number in _UNSUPPORTED:
        return False
    raise OSError(number, os.strerror(number), new)


def exists(folder: int, name: str) -> bool:
    """Return whether the directory `folder` (a descriptor) has an entry `name`, also if that is a broken link."""
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def read_regular(folder: int, name: str, path: str, *, strict: bool = True) -> bytes | None:
    """Return the bytes of the regular file `name` in `folder` (a file descriptor); None if it does not exist. `path`:
    its name in the error message.

    If something else than a regular file is there, raise Conflict; if not `strict`, return None.
    """
    try:
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except FileNotFoundError:
        return None
    except OSError as exc:
        if exc.errno not in {errno.ELOOP, errno.ENXIO}:
            raise
        fd = -1
    try:
        if fd >= 0 and stat.S_ISREG((found := os.fstat(fd)).st_mode):
            return read_all(fd, found.st_size)
    finally:
        if fd >= 0:
            os.close(fd)
    if strict:
        raise Conflict(f"{path} is no regular file", hint="links, folders and devices in the vault are left alone")
    return None


def move(from_dir: int, old: str, to_dir: int, new: str) -> None:
    """Rename a file, and raise FileExistsError instead of replacing an existing one. `from_dir`, `to_dir`: file
    descriptors of the folders of `old` and `new`."""
    if rename2(from_dir, old, to_dir, new, exchange=False):
        return
    try:
        os.link(old, new, src_dir_fd=from_dir, dst_dir_fd=to_dir, follow_symlinks=False)
    except OSError as exc:
        if exc.errno not in {errno.EPERM, errno.ENOTSUP, errno.ENOSYS}:
            raise
        if exists(to_dir, new):  # a file system without hard links: the check and the rename are two steps
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), new) from exc
        os.rename(old, new, src_dir_fd=from_dir, dst_dir_fd=to_dir)
        return
    os.unlink(old, dir_fd=from_dir)


def copy_bytes(data: bytes, folder: int, name: str) -> None:
    """Write `data` durably to the file `name` in the directory `folder` (a descriptor), with mode 0600 if it is new."""
    write_and_sync(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600, dir_fd=folder), data)


def forget(folder: int, name: str) -> None:
    """Delete the file `name` in the directory `folder` (a descriptor), if it exists."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)


FOLDER: Final = ".ormah/conflicts/damaged"
"""The folder in the vault to which damaged or misplaced things from `.ormah` are moved (set aside)."""
README: Final = "README.txt"
"""The file in such a folder with a line about each thing that was repaired or set aside."""

log = logging.getLogger(__name__)


def set_aside(path: Path, into: Path, name: str) -> Path | None:
    """Move what is at `path` into the folder `into`, under `name` with a number. Return its new path, or None if
    nothing is at `path`."""
    into.mkdir(mode=0o700, parents=True, exist_ok=True)
    plain = name.strip("/.").replace("/", "-")
    number = 1
    while os.path.lexists(target := into / f"{plain}.{number}"):
        number += 1
    try:
        os.rename(path, target)
    except FileNotFoundError:
        return None
    sync_directory(into)
    sync_directory(path.parent)
    return target


def set_aside_in_vault(root: Path, name: str, why: str) -> None:
    """If anything is at the path `name` in the vault at `root`, move it into the folder `FOLDER` there, and log that.
    `why`: the reason, such as "was no file"."""
    where = set_aside(root / name, root / FOLDER, Path(name).name)
    if where is not None:
        log.warning("%s %s; what stood there is %s now", root / name, why, where)
        note(root / FOLDER, name, f"{why}, and was set aside")


def make_folder(root: Path, name: str) -> Path:
    """Return the path of the folder `name` in the vault at `root`. Create it if it is missing, and set aside a file,
    symlink or pipe at its path."""
    folder = root / name
    parents = (folder.parent,) if folder.parent != root else ()  # a vault that is gone is not created again
    for path in (*parents, folder):
        try:
            if stat.S_ISDIR(os.lstat(path).st_mode):
                continue
            set_aside_in_vault(root, path.relative_to(root).as_posix(), "was no folder")
        except FileNotFoundError:
            pass
        path.mkdir(mode=0o700, exist_ok=True)
        sync_directory(path.parent)
    return folder


def note(folder: Path, name: str, why: str) -> None:
    """Append a line about `name` to the README.txt in `folder`. `findings` reads these lines."""
    folder.mkdir(mode=0o700, exist_ok=True)
    with (folder / README).open("a", encoding="utf-8", errors="surrogateescape") as file:
        file.write(f"{name} {why}\n")


def findings(root: Path) -> list[tuple[str, str]]:
    """Return (what was moved aside, what a person can do about it) for each line that `note` wrote in the vault at
    `root`. A person ends the finding by deleting the folder with these lines."""
    mend = f"look whether anything is missing (ormahctl verify), then: rm -r {root / FOLDER}"
    try:
        lines = (root / FOLDER / README).read_text("utf-8", "replace").splitlines()
    except OSError:
        return []
    return [(line, mend) for line in dict.fromkeys(lines)]
