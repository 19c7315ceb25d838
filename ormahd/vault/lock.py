"""One daemon for one vault: an flock on `.ormah/lock`, held for the life of the process, gone with it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from pathlib import Path

from ormahd.errors import Unavailable

NAME = ".ormah/lock"
PATIENCE = 2.0
"""Seconds that a killed holder may take to let go."""


class VaultLock:
    """Held from `take` to `release`. The file is never removed: a lock on a removed file locks nobody out."""

    def __init__(self, root: Path) -> None:
        self.path = root / NAME
        self._fd: int | None = None

    def take(self) -> None:
        """Raises Unavailable, naming the holder's pid, when another process (or another Vault here) has it."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            holder = self._lock(fd)
        except OSError:
            os.close(fd)
            raise
        if holder is not None:
            os.close(fd)
            raise Unavailable(
                f"the vault {self.path.parent.parent} is in use by process {holder or 'unknown'}",
                hint="`ormahctl status` shows that daemon, `ormahctl down` stops it",
                data={"pid": int(holder) if holder.isdigit() else None},
            )
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
        self._fd = fd

    @staticmethod
    def _lock(fd: int) -> str | None:
        """Lock it, or say who holds it. A holder that was killed is waited for: a child that it was just starting keeps
        the lock until the kernel is through with it too."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = os.pread(fd, 32, 0).decode("ascii", "replace").strip()
                if _alive(holder) or time.monotonic() > deadline:
                    return holder
                time.sleep(0.01)
            else:
                return None

    def release(self) -> None:
        if self._fd is not None:
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, 0)
            os.close(self._fd)
            self._fd = None


def _alive(holder: str) -> bool:
    if not holder.isdigit():
        return False
    try:
        os.kill(int(holder), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
