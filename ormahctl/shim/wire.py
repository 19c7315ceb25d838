"""Send one frame to the daemon and return the reply's body: kind (1 byte), length (4, big endian), body (PROTOCOL.md)."""

import _socket

_HEADER = 5
_PIECE = 1 << 20
_LARGEST = 1 << 30
"""Bytes that a reply may announce; the same bound as every client's."""


def ask(socket: str, kind: bytes, body: bytes, seconds: "float | None") -> "bytes | None":
    """The reply's body; None where nobody answers with one of the same kind. Each step may take `seconds` (None: any)."""
    channel = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        channel.settimeout(seconds)
        channel.connect(socket)
        channel.sendall(kind + len(body).to_bytes(4, "big") + body)
        head = _exactly(channel, _HEADER)
        length = int.from_bytes(head[1:], "big")
        if head[:1] != kind or length > _LARGEST:
            return None
        return _exactly(channel, length)
    except (OSError, EOFError):
        return None
    finally:
        channel.close()


def _exactly(channel: _socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = channel.recv(min(size - len(data), _PIECE))
        if not piece:
            raise EOFError
        data += piece
    return data
