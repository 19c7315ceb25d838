"""Reads the objects of a large JSON file one at a time, so that the file is never whole in memory."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, BinaryIO, Final

from ormahd.ingest.readers.turns import Reading

CHUNK: Final = 1 << 16
LONGEST: Final = 64 << 20
"""Maximum size in bytes of one object, such as a conversation: with a longer one the file counts as damaged."""


class Repaired:
    """Wraps a stream so that reading it gives valid UTF-8: invalid bytes are replaced, and UTF-16 with a byte order
    mark is converted."""

    def __init__(self, stream: BinaryIO, most: int | None = None) -> None:
        """`most`: number of bytes after which reading raises ValueError, unless `taken` is set back to 0 before."""
        self._stream = stream
        self._most = most
        self.taken = 0
        self._decoder: codecs.IncrementalDecoder | None = None
        self._rest = b""

    def read(self, size: int = -1) -> bytes:
        """Return about `size` bytes, at least one; b"" only at the end of the stream."""
        if size == 0:  # ijson reads 0 bytes to see whether the stream yields bytes or text
            return b""
        while True:
            chunk = self._stream.read(size if size > 0 else CHUNK)
            self.taken += len(chunk)
            if self._most is not None and self.taken > self._most:
                raise ValueError(f"an object has more than {self._most >> 20} MB")
            if self._decoder is None:
                wide = chunk.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
                name = "utf-16" if wide else "utf-8"
                self._decoder = codecs.getincrementaldecoder(name)("replace")
                chunk = chunk.removeprefix(codecs.BOM_UTF8)
            text = self._decoder.decode(chunk, final=not chunk)
            if text or not chunk:
                return text.encode("utf-8", "replace")


def items(stream: BinaryIO, reading: Reading, prefix: str | None = None) -> Iterator[dict[str, Any]]:
    """Yield the objects in the JSON array that a stream consists of; if it is a single object instead, yield that. With
    `prefix`, yield those there. If the JSON is cut off or invalid, that is counted in `reading.damaged`."""
    import ijson

    sign, source = first_sign(stream), Repaired(stream, LONGEST)
    try:
        for item in ijson.items(source, prefix or "item" * (sign == b"["), use_float=True) if sign else ():
            source.taken = 0
            if isinstance(item, dict):
                yield item
            else:
                reading.damaged += 1
    except (ijson.JSONError, ValueError, RecursionError):
        reading.damaged += 1


def members(stream: BinaryIO, reading: Reading, name: str) -> Iterator[dict[str, Any]]:
    """Read a stream that consists of a single JSON object. Yield the object with the scalar fields that come before its
    list `name`, then the objects in that list, one at a time. If the JSON is cut off or invalid, that is counted in
    `reading.damaged`."""
    import ijson

    head: dict[str, Any] = {}
    try:
        for prefix, event, value in ijson.parse(Repaired(stream, LONGEST)):
            if prefix == name:
                break
            if event in {"string", "boolean"}:
                head[prefix] = value
    except (ijson.JSONError, ValueError, RecursionError):
        pass  # it is counted when the list is read
    yield head
    stream.seek(0)
    yield from items(stream, reading, f"{name}.item")


def first_sign(stream: BinaryIO) -> bytes:
    """Return the first byte of a stream that is no white space; b"" if there is none. Then set the stream back to its
    beginning."""
    found = Repaired(stream).read(4096).lstrip()[:1]
    stream.seek(0)
    return found


def number(value: Any) -> float | None:
    """Return a JSON number as a float; None for anything else."""
    return float(value) if isinstance(value, int | float | Decimal) and not isinstance(value, bool) else None
