"""Send one frame to the daemon and return the reply's body: kind (1 byte), length (4, big endian), body (PROTOCOL.md)."""

import _socket

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
