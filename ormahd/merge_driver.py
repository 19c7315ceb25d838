"""The helper of git's merge driver while no daemon runs: one process per git process, on a socket of its own (DESIGN
section 5).

`ormahctl/shim/merge.py` starts it with a listening socket. It answers only `g` frames, and ends when its git
process ends or no request comes for `IDLE_SECONDS`.
"""

from __future__ import annotations

import contextlib
import functools
import os
import select
import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ormahd.errors import OrmahError
from ormahd.rpc.codec import MERGE, Frames, pack
from ormahd.rpc.peer import peer_uid

if TYPE_CHECKING:
    from ormahd.vault.conversion import BlobFiles

IDLE_SECONDS: Final = 30.0
LOOK_SECONDS: Final = 1.0
"""Seconds between two checks whether git still runs, where the system does not report its end."""
SLOW_SECONDS: Final = 10.0
"""Seconds that the shim may take to send one frame."""


def serve(listening: int, git: int) -> None:
    """Answer on the descriptor `listening` until the process `git` has ended, then delete the socket."""
    top = Path.cwd()
    _let_go(listening)
    listener = socket.socket(fileno=listening)
    place = Path(os.fsdecode(listener.getsockname())).parent
    made = _inode(place / "s")
    try:
        with listener, contextlib.closing(_Serving(git)) as life:
            _sweep(place)
            while life.waits_for(listener):
                _answer_one(listener, top)
    finally:
        if _inode(place / "s") == made:
            (place / "s").unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # another helper of the same git uses it
            place.rmdir()


def _let_go(kept: int) -> None:
    """Close all inherited descriptors except `kept` and 0 to 2, and leave the working directory."""
    for name in os.listdir("/dev/fd"):
        if int(name) > 2 and int(name) != kept:
            with contextlib.suppress(OSError):
                os.close(int(name))
    os.set_inheritable(kept, False)
    os.chdir("/")


class _Serving:
    """Decides how long to serve: while git runs and requests come."""

    def __init__(self, git: int) -> None:
        self._git = git
        self._fd: int | None = None
        with contextlib.suppress(OSError, AttributeError):  # not Linux, or git has ended, which the first check notices
            self._fd = os.pidfd_open(git)

    def waits_for(self, listener: socket.socket) -> bool:
        """Wait until a client connects. False if git has ended, or no client came in time."""
        watched: list[socket.socket | int] = [listener] if self._fd is None else [listener, self._fd]
        until = time.monotonic() + IDLE_SECONDS
        while (left := until - time.monotonic()) > 0:
            ready, _, _ = select.select(watched, [], [], left if self._fd is not None else min(left, LOOK_SECONDS))
            if listener in ready:
                return True
            if ready or not _lives(self._git):
                return False
        return False

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)


@functools.cache
def _files(top: Path) -> BlobFiles | None:
    """Return the source of files for the repository at `top`; None if git cannot open it."""
    from ormahd.git.repository import Git, locate
    from ormahd.vault.conversion import BlobFiles

    with contextlib.suppress(OSError, OrmahError):
        place = locate(top)
        return None if place is None or place.bare else BlobFiles(Git(place))
    return None


def _answer_one(listener: socket.socket, top: Path) -> None:
    """Accept one connection and answer its one frame. An invalid frame gets no answer: the shim then falls back to
    git."""
    from ormahd.rpc import merging  # slow to import; the shim waits for its answer anyway

    channel, _ = listener.accept()
    with channel, contextlib.suppress(OSError, OrmahError):
        if peer_uid(channel) != os.geteuid():
            return
        channel.settimeout(SLOW_SECONDS)
        frames = Frames()
        while (frame := frames.next()) is None:
            piece = channel.recv(1 << 20)
            if not piece:
                return
            frames.feed(piece)
        kind, body = frame
        if kind == MERGE:
            channel.sendall(pack(MERGE, merging.answer(body, _files(top))))


def _sweep(place: Path) -> None:
    """Delete the socket directories of killed helpers whose git has ended."""
    stem = place.name.rpartition("-")[0] + "-"
    for found in place.parent.glob(stem + "*"):
        pid = found.name.removeprefix(stem)
        if pid.isdecimal() and not _lives(int(pid)):
            with contextlib.suppress(OSError):
                (found / "s").unlink(missing_ok=True)
                found.rmdir()


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _inode(path: Path) -> int | None:
    try:
        return path.lstat().st_ino
    except OSError:
        return None
