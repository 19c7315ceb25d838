"""Frames: one byte of kind, four of length (big endian), a body (DESIGN section 7).

A pure decoder that is fed whatever a socket gave; it judges a header before it keeps a single byte of the body.
"""

from __future__ import annotations

import struct
from typing import Final

from ormahd.errors import BadRequest, TooLarge

MSGPACK: Final = b"m"
JSON: Final = b"j"
HOOK: Final = b"h"
MERGE: Final = b"g"
"""From git's merge driver: see `merging`."""
KINDS: Final = frozenset({MSGPACK, JSON, HOOK, MERGE})

HEADER: Final = struct.Struct(">cI")
LARGEST: Final = 1_073_741_824
"""Largest body that a client accepts, in bytes: daemons of earlier versions could be set to send as much."""


def pack(kind: bytes, body: bytes) -> bytes:
    """The frame of `body`, ready to be sent."""
    return HEADER.pack(kind, len(body)) + body


class Frames:
    """Cuts a stream of bytes into frames.

    `feed` takes what arrived, `next` gives the frames one by one. After an error the stream has no meaning any more:
    the connection is to be closed.
    """

    def __init__(self, limit: int = LARGEST) -> None:
        self._limit = limit
        self._data = bytearray()

    def feed(self, data: bytes) -> None:
        self._data += data

    @property
    def partial(self) -> int:
        """Bytes that wait for the rest of their frame (or for `next`)."""
        return len(self._data)

    @property
    def kind(self) -> bytes | None:
        """The kind of the frame that is arriving, when it is known to be one of ours."""
        kind = bytes(self._data[:1])
        return kind if kind in KINDS else None

    def next(self) -> tuple[bytes, bytes] | None:
        """The next whole frame as (kind, body), or None while it is not all there.

        Raises:
            BadRequest: the first byte is no kind.
            TooLarge: the header announces a body beyond the limit.
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
