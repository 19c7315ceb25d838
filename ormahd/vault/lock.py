"""One daemon for one vault: an flock on `.ormah/lock`, held for the life of the process, gone with it."""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path

from ormahd.errors import Unavailable

NAME = ".ormah/lock"


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
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as exc:
            holder = os.pread(fd, 32, 0).decode("ascii", "replace").strip()
            os.close(fd)
            raise Unavailable(
                f"the vault {self.path.parent.parent} is in use by process {holder or 'unknown'}",
                hint="`ormahctl status` shows that daemon, `ormahctl down` stops it",
                data={"pid": int(holder) if holder.isdigit() else None},
            ) from exc
        except OSError:
            os.close(fd)
            raise
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
        self._fd = fd

    def release(self) -> None:
        if self._fd is not None:
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, 0)
            os.close(self._fd)
            self._fd = None
