"""Lets only one daemon open a vault: an flock on `.ormah/lock`, held until the process ends.

`git clean -fdx` or a sync tool may remove that file, and a lock on a removed file excludes no other process. So the
vault's folder is locked too, and each write first checks that the file at the path is still the locked one (`keep`).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import logging
import os
import stat
import time
from pathlib import Path

from ormahd.errors import Unavailable
from ormahd.process import own_files
from ormahd.process.disk import make_folder, set_aside_in_vault

NAME = ".ormah/lock"
PATIENCE = 2.0
"""Seconds to wait for the lock of a killed process to be released."""
_CANNOT_LOCK = {errno.ENOLCK, errno.ENOTSUP, errno.EBADF, errno.EINVAL}
"""Errors of `flock` on a file system that cannot lock a folder."""

log = logging.getLogger(__name__)


class VaultLock:
    """Lets only one process open a vault: it locks the file `.ormah/lock` and the vault's folder, from `take` to
    `release`. The lock file is never removed."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.path = root / NAME
        self._fd: int | None = None
        self._folder: int | None = None

    def take(self) -> None:
        """Take the lock. Raises Unavailable, with the holder's pid, when another process (or another Vault in this one)
        has it."""
        fd = self._open_file()
        try:
            holder = self._try_lock(fd, fd)
            if holder is None:
                self._folder, holder = self._try_lock_folder(fd)
        except OSError:
            os.close(fd)
            raise
        if holder is not None:
            os.close(fd)
            raise Unavailable(
                f"the vault {self.root} is in use by process {holder or 'unknown'}",
                hint="`ormahctl status` shows that daemon, `ormahctl down` stops it",
                data={"pid": int(holder) if holder.isdigit() else None},
            )
        self._write_pid(fd)

    def _open_file(self) -> int:
        """Open the lock file and return its descriptor. The file is created if missing. Anything else at its path (a
        folder, a symlink) is set aside."""
        make_folder(self.root, ".ormah")
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        for last in (False, True):
            try:
                fd = os.open(self.path, flags, 0o600)
            except OSError as exc:
                if last or exc.errno not in {errno.EISDIR, errno.ELOOP, errno.ENXIO}:
                    raise
            else:
                if stat.S_ISREG(os.fstat(fd).st_mode):
                    return fd
                os.close(fd)
            set_aside_in_vault(self.root, NAME, "was no file")
        raise Unavailable(f"{self.path} is no file", hint=f"remove it: rm -r {self.path}")

    @staticmethod
    def _try_lock(fd: int, signed: int) -> str | None:
        """Lock the open file or folder `fd`. Return None; or, if another process holds the lock, that process's pid as
        read from the lock file `signed` ("" if there is none).

        Waits up to `PATIENCE` if the holder was killed: a child process that it was just starting keeps the lock until
        the kernel has ended the child too.
        """
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = os.pread(signed, 32, 0).decode("ascii", "replace").strip()
                if _alive(holder) or time.monotonic() > deadline:
                    return holder
                time.sleep(0.01)
            else:
                return None

    def _try_lock_folder(self, signed: int) -> tuple[int | None, str | None]:
        """Lock the vault's folder. Return (descriptor, None); or (None, pid) when another process holds the lock; or
        (None, None) when the file system cannot lock folders."""
        folder = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            holder = self._try_lock(folder, signed)
        except OSError as exc:
            os.close(folder)
            if exc.errno not in _CANNOT_LOCK:
                raise
            return None, None
        if holder is not None:
            os.close(folder)
            return None, holder
        return folder, None

    def _write_pid(self, fd: int) -> None:
        """Write our pid into the locked file, for the error messages of other processes. Keep its descriptor `fd`, and
        close the earlier one. On a full disk the file stays locked without a pid."""
        os.ftruncate(fd, 0)
        try:
            os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
        except OSError as exc:
            if not own_files.is_full(exc):
                raise
        before, self._fd = self._fd, fd
        if before is not None:
            os.close(before)

    def keep(self) -> None:
        """Check that the file at the lock's path is the one that is locked. If it was removed or replaced, lock the new
        one.

        Raises Unavailable when another process has locked the new file and we hold no lock on the folder: nothing may
        be written then.
        """
        if self._fd is None:
            return
        with contextlib.suppress(OSError):  # the file is gone
            if os.path.samestat(os.lstat(self.path), os.fstat(self._fd)):
                return
        fd = self._open_file()
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as exc:
            holder = os.pread(fd, 32, 0).decode("ascii", "replace").strip()
            os.close(fd)
            if self._folder is not None:
                return  # that process will fail to lock the folder, and release the file
            raise Unavailable(
                f"the vault {self.root} was taken over by process {holder or 'unknown'} when {NAME} was removed; nothing was changed",
                hint="stop one of the two: ormahctl down",
            ) from exc
        self._write_pid(fd)
        log.warning("%s was removed or replaced while it was held, and is locked anew", self.path)

    def release(self) -> None:
        """Release both locks. Does nothing if they are not held."""
        if self._fd is not None:
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, 0)
            os.close(self._fd)
            self._fd = None
        if self._folder is not None:
            os.close(self._folder)
            self._folder = None


def _alive(holder: str) -> bool:
    """Whether `holder` is the pid of a process that runs."""
    if not holder.isdigit():
        return False
    try:
        os.kill(int(holder), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
