"""Reads the objects of a large JSON file one at a time, so that the file is never whole in memory."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from typing import Any, BinaryIO, Final

from ormahd.ingest.readers.lines import decoded
from ormahd.ingest.readers.turns import Reading

CHUNK: Final = 1 << 16
LONGEST: Final = 64 << 20
"""Maximum size in bytes of one object, such as a conversation. A longer one is skipped."""
_SIGN: Final = re.compile(rb'["{}]')
_STRING: Final = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+(["\\])?', re.DOTALL)
"""Matches the rest of a string; the group is its end, or a backslash at the end of what was read."""


class Repaired:
    """Wraps a stream so that reading it gives valid UTF-8: invalid bytes are replaced, and UTF-16 with a byte order
    mark is converted."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._decoder: codecs.IncrementalDecoder | None = None

    def read(self, size: int = CHUNK) -> bytes:
        """Return about `size` bytes, at least one; b"" only at the end of the stream."""
        while True:
            chunk = self._stream.read(size)
            if self._decoder is None:
                wide = chunk.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
                name = "utf-16" if wide else "utf-8"
                self._decoder = codecs.getincrementaldecoder(name)("replace")
                chunk = chunk.removeprefix(codecs.BOM_UTF8)
            text = self._decoder.decode(chunk, final=not chunk)
            if text or not chunk:
                return text.encode("utf-8", "replace")


def items(stream: BinaryIO, reading: Reading, *, inside: int = 0) -> Iterator[dict[str, Any]]:
    """Yield the objects of a JSON file that are nested in exactly `inside` other objects, in their order. Objects that
    are cut off, too long or invalid are counted in `reading.damaged` instead."""
    for data in _objects(Repaired(stream), inside):
        found = decoded(data)
        if isinstance(found, dict):
            yield found
        else:
            reading.damaged += 1


def _objects(source: Repaired, inside: int) -> Iterator[bytes]:
    """Yield the bytes of each object that is nested in exactly `inside` other objects; b"" for one that is cut off or
    too long."""
    # State across chunks: the pieces of the present object; the depth of nesting; whether a string goes on, and whether
    # the chunk ended with a backslash in it.
    parts: list[bytes] = []
    size = depth = 0
    string = escaped = False
    while chunk := source.read():
        at, start, escaped = int(escaped), 0, False
        while True:
            if string and (rest := _STRING.match(chunk, at)):
                at, string, escaped = rest.end(), rest[1] != b'"', rest[1] == b"\\"
            if string or not (found := _SIGN.search(chunk, at)):
                break
            at = found.end()
            if found[0] == b'"':
                string = True
            elif found[0] == b"{":
                if depth == inside:
                    start, parts, size = found.start(), [], 0
                depth += 1
            elif depth:
                depth -= 1
                if depth == inside:
                    yield b"".join([*parts, chunk[start:at]]) if size <= LONGEST else b""
        if depth > inside and size <= LONGEST:
            parts.append(chunk[start:])
            size += len(chunk) - start
    if depth > inside:
        yield b""


def first_sign(stream: BinaryIO) -> bytes:
    """Return the first byte of a stream that is no white space; b"" if there is none. The stream is set back to its
    beginning."""
    found = Repaired(stream).read(4096).lstrip()[:1]
    stream.seek(0)
    return found
