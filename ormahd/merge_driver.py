"""The helper of git's merge driver while no daemon runs: one process for one git, on a socket of its own (DESIGN section 5).

`ormahctl/shim/helper.py` starts it with a socket that listens already. It answers `g` frames and nothing else, and ends
when that git does, or when nothing was asked for a while.
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
from ormahd.rpc.frames import MERGE, Frames, pack
from ormahd.rpc.peer import peer_uid

if TYPE_CHECKING:
    from ormahd.vault.conversion import BlobFiles

IDLE_SECONDS: Final = 30.0
LOOK_SECONDS: Final = 1.0
"""How often it is asked whether git still lives, where the system does not tell when it ends."""
SLOW_SECONDS: Final = 10.0
"""How long the shim may take over one frame."""


def serve(listening: int, git: int) -> None:
    """Answer on the descriptor `listening` until the process `git` has ended. Returns when all is tidied up."""
    top = Path.cwd()
    _let_go(listening)
    listener = socket.socket(fileno=listening)
    place = Path(os.fsdecode(listener.getsockname())).parent
    made = _inode(place / "s")
    try:
        with listener, contextlib.closing(_Life(git)) as life:
            _sweep(place)
            while life.waits_for(listener):
                _answer_one(listener, top)
    finally:
        if _inode(place / "s") == made:
            (place / "s").unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # another helper of the same git is at home there
            place.rmdir()


def _let_go(kept: int) -> None:
    """Keep nothing open that git, or whoever started git, left to its children, and stand in nobody's folder."""
    for name in os.listdir("/dev/fd"):
        if int(name) > 2 and int(name) != kept:
            with contextlib.suppress(OSError):
                os.close(int(name))
    os.set_inheritable(kept, False)
    os.chdir("/")


class _Life:
    """How long to go on: as long as git lives and asks now and then."""

    def __init__(self, git: int) -> None:
        self._git = git
        self._fd: int | None = None
        with contextlib.suppress(OSError, AttributeError):  # not Linux; or git is gone, as the first look will say
            self._fd = os.pidfd_open(git)

    def waits_for(self, listener: socket.socket) -> bool:
        """Wait until somebody connects; False when git has ended or nobody came for long."""
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
    """What gives the files behind the blobs of the repository at `top`; None where git does not say."""
    from ormahd.git.repository import Git, locate
    from ormahd.vault.conversion import BlobFiles

    with contextlib.suppress(OSError, OrmahError):
        place = locate(top)
        return None if place is None or place.bare else BlobFiles(Git(place))
    return None


def _answer_one(listener: socket.socket, top: Path) -> None:
    """Take one connection, answer its one frame. What is wrong with it hurts only itself: the shim falls back to git."""
    from ormahd.rpc import merging  # most of our start; the shim waits for its answer anyway

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
    """Remove what killed helpers left beside us: directories whose git is gone."""
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
