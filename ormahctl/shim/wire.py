"""Send one frame to the daemon and return the reply's body: kind (1 byte), length (4, big endian), body (PROTOCOL.md)."""

import _socket
import posix
import sys

HEADER = 5
_PIECE = 1 << 20
_LARGEST = 1 << 30
"""Largest size in bytes that a reply may have, the same as for other clients."""


def ask(socket: str, kind: bytes, body: bytes, seconds: "float | None") -> "bytes | None":
    """Send a frame with `kind` and `body` to the daemon at `socket`. Return the reply's body; None if no reply of the
    same kind comes. `seconds`: limit for each system call; None: no limit."""
    channel = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        channel.settimeout(seconds)
        channel.connect(socket)
        if peer(channel, socket) not in (posix.geteuid(), 0):
            return None  # another user listens there
        channel.sendall(kind + len(body).to_bytes(4, "big") + body)
        head = exactly(channel, HEADER)
        length = int.from_bytes(head[1:], "big")
        if head[:1] != kind or length > _LARGEST:
            return None
        return exactly(channel, length)
    except (OSError, EOFError):
        return None
    finally:
        channel.close()


def peer(channel: _socket.socket, path: str) -> int:
    """Return the user id of the process at the other end of `channel`. Where the system does not tell it, return the
    owner of the socket's file `path`."""
    if hasattr(_socket, "SO_PEERCRED"):
        # struct ucred: the ids of process, user and group, 4 bytes each
        return int.from_bytes(channel.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)[4:8], sys.byteorder)
    return posix.stat(path).st_uid


def exactly(channel: _socket.socket, size: int) -> bytes:
    """Return the next `size` bytes from `channel`. Raises EOFError if the other end closes before they have
    arrived."""
    data = b""
    while len(data) < size:
        piece = channel.recv(min(size - len(data), _PIECE))
        if not piece:
            raise EOFError
        data += piece
    return data
