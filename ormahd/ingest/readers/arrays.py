"""Reads the objects of a large JSON file one at a time, so that the file is never whole in memory."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, BinaryIO, Final

from ormahd.ingest.readers.turns import Reading

CHUNK: Final = 1 << 16


class Repaired:
    """Wraps a stream so that reading it gives valid UTF-8: invalid bytes are replaced, and UTF-16 with a byte order
    mark is converted."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._decoder: codecs.IncrementalDecoder | None = None
        self._rest = b""

    def read(self, size: int = -1) -> bytes:
        """Return about `size` bytes, at least one; b"" only at the end of the stream."""
        if size == 0:  # ijson reads 0 bytes to see whether the stream yields bytes or text
            return b""
        while True:
            chunk = self._stream.read(size if size > 0 else CHUNK)
            if self._decoder is None:
                wide = chunk.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
                name = "utf-16" if wide else "utf-8"
                self._decoder = codecs.getincrementaldecoder(name)("replace")
                chunk = chunk.removeprefix(codecs.BOM_UTF8)
            text = self._decoder.decode(chunk, final=not chunk)
            if text or not chunk:
                return text.encode("utf-8", "replace")


def items(stream: BinaryIO, reading: Reading) -> Iterator[dict[str, Any]]:
    """Yield the objects in the JSON array that a stream consists of; if it is a single object instead, yield that. If
    the JSON is cut off or invalid, that is counted in `reading.damaged`."""
    import ijson

    if size := first_sign(stream):
        prefix = "item" if size == b"[" else ""
        try:
            for item in ijson.items(Repaired(stream), prefix, use_float=True):
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

    item = f"{name}.item"
    head: dict[str, Any] = {}
    builder: Any = None
    try:
        for prefix, event, value in ijson.parse(Repaired(stream), use_float=True):
            if prefix == item and event == "start_map":
                builder = ijson.ObjectBuilder()
            if builder is not None:
                builder.event(event, value)
                if prefix == item and event == "end_map":
                    yield builder.value
                    builder = None
            elif prefix == name and event == "start_array":
                yield head
            elif prefix and "." not in prefix and event in {"string", "number", "boolean"}:
                head[prefix] = value
    except (ijson.JSONError, ValueError, RecursionError):
        reading.damaged += 1


def first_sign(stream: BinaryIO) -> bytes:
    """Return the first byte of a stream that is no white space; b"" if there is none. Then set the stream back to its
    beginning."""
    found = Repaired(stream).read(4096).lstrip()[:1]
    stream.seek(0)
    return found


def number(value: Any) -> float | None:
    """Return a JSON number as a float; None for anything else."""
    return float(value) if isinstance(value, int | float | Decimal) and not isinstance(value, bool) else None
