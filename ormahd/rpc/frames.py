"""Encode and decode frames: one byte for the kind, four bytes for the length (big endian), a body (DESIGN section 7).

The decoder does no I/O. It checks a frame's length as soon as the header has arrived, before it waits for the body.
"""

from __future__ import annotations

import struct
from typing import Final

from ormahd.errors import BadRequest, TooLarge

MSGPACK: Final = b"m"
JSON: Final = b"j"
HOOK: Final = b"h"
MERGE: Final = b"g"
"""The kind of frames from git's merge driver: see `merging`."""
KINDS: Final = frozenset({MSGPACK, JSON, HOOK, MERGE})

HEADER: Final = struct.Struct(">cI")
LARGEST: Final = 1_073_741_824
"""Largest body that a client accepts, in bytes. Daemons of earlier versions could be configured to send this much."""


def pack(kind: bytes, body: bytes) -> bytes:
    """Return the frame with this kind and body."""
    return HEADER.pack(kind, len(body)) + body


class Frames:
    """Split a stream of bytes into frames.

    `feed` adds bytes that arrived, `next` returns the frames one by one. After an error the caller must close the
    connection, because the start of the next frame is unknown.
    """

    def __init__(self, limit: int = LARGEST) -> None:
        self._limit = limit
        self._data = bytearray()

    def feed(self, data: bytes) -> None:
        self._data += data

    @property
    def partial(self) -> int:
        """Number of buffered bytes that `next` has not returned yet."""
        return len(self._data)

    @property
    def kind(self) -> bytes | None:
        """The kind of the frame that is arriving; None if no byte has arrived or the first byte is no valid kind."""
        kind = bytes(self._data[:1])
        return kind if kind in KINDS else None

    def next(self) -> tuple[bytes, bytes] | None:
        """Return the next frame as (kind, body), or None while it is incomplete.

        Raises:
            BadRequest: the first byte is no valid kind.
            TooLarge: the length in the header is over the limit.
        """
        if not self._data:
            return None
        kind = bytes(self._data[:1])
        if kind not in KINDS:
            raise BadRequest(
                f"frame kind: expected 'm', 'j', 'h' or 'g', got byte 0x{kind.hex()}",
                hint="a frame is kind (1 byte), length (4 bytes, big endian), body: see PROTOCOL.md",
                data={"field": "kind"},
            )
        if len(self._data) < HEADER.size:
            return None
        length: int = HEADER.unpack_from(self._data)[1]
        if length > self._limit:
            raise TooLarge(
                f"frame length: {length} bytes announced, at most {self._limit} are taken",
                hint="send less at once",
                data={"field": "length", "limit": self._limit},
            )
        end = HEADER.size + length
        if len(self._data) < end:
            return None
        body = bytes(memoryview(self._data)[HEADER.size : end])
        del self._data[:end]
        return kind, body
