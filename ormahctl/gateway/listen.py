"""The gateway's own socket: beside the daemon's, for this user only, and one for each daemon's socket.

A lock on a file shows whether a gateway runs, because unlike the socket's file it ends with the process. The process
that starts a gateway takes the lock and passes it on (`ormahctl.shim.gateway`).
"""

from __future__ import annotations

import contextlib
import os
import socket
import stat
from pathlib import Path
from typing import Final

import msgspec

from ormahctl.shim import gateway
from ormahd.rpc.wire import BadRequest, Conflict, OrmahError, Unavailable, guarded, identity, peer_uid

BACKLOG: Final = 128


class GatewaySocket(msgspec.Struct):
    """The socket at which a gateway listens. `lock`: descriptor of the open file that holds the gateway's lock; -1
    after `close`. `identity`: device and inode of the socket's file."""

    sock: socket.socket
    path: Path
    lock: int
    identity: tuple[int, int]

    @property
    def intact(self) -> bool:
        """Whether the file at `path` is still this socket. Programs that clean temporary folders may have removed
        it."""
        return identity(self.path) == self.identity

    def close(self) -> None:
        """Stop listening, remove the socket's file, and release the lock, so that the next gateway can start."""
        if self.lock < 0:
            return
        if self.intact:
            self.path.unlink(missing_ok=True)
        self.sock.close()
        os.close(self.lock)
        self.lock = -1


def open_gateway_socket(daemon: Path, lock: int | None) -> GatewaySocket:
    """Listen at the gateway's socket for the daemon's socket `daemon`, and return it. `lock`: a descriptor that
    holds the gateway's lock; None: take the lock.

    Raises:
        Conflict: another gateway serves this daemon.
        BadRequest: the path is too long, or other users may write to the directory.
        Unavailable: the system refused to create the socket.
    """
    path = Path(gateway.address(os.fspath(daemon)))
    if len(os.fsencode(path)) > gateway.LONGEST_PATH:
        raise BadRequest(
            f"the gateway's socket has a path that is too long ({len(os.fsencode(path))} bytes): {path}",
            hint="set a shorter path of the daemon's socket: daemon.socket, ORMAH_SOCKET, or --socket",
        )
    guarded(path.parent)
    held = gateway.take_lock(os.fspath(daemon)) if lock is None else lock
    if held is None:
        raise Conflict(f"another gateway serves {daemon} already")
    try:
        os.set_inheritable(held, False)
        return _listen(path, held)
    except OSError as exc:
        os.close(held)
        raise Unavailable(f"the gateway cannot listen at {path}: {exc.strerror or exc}") from exc
    except OrmahError:
        os.close(held)
        raise


def _listen(path: Path, lock: int) -> GatewaySocket:
    """Listen at `path`, after removing the socket that an earlier gateway left there. The caller must hold the lock."""
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise BadRequest(f"{path} is there and is no socket; it was left alone", hint="move it away")
        path.unlink()
    except FileNotFoundError:
        pass
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with contextlib.suppress(OSError):  # macOS refuses; the directory keeps others out until the file has its mode
        os.fchmod(sock.fileno(), 0o600)  # on Linux the file gets the mode of the socket: it is never more open
    try:
        sock.bind(os.fspath(path))
        path.chmod(0o600)
        sock.listen(BACKLOG)
    except OSError:
        sock.close()
        raise
    sock.setblocking(False)
    found = identity(path)
    assert found is not None
    return GatewaySocket(sock, path, lock, found)


def is_ours(sock: socket.socket) -> bool:
    """Whether the process at the other end of `sock` is run by this user. False if the system does not tell it."""
    try:
        return peer_uid(sock) == os.geteuid()
    except OSError:
        return False
