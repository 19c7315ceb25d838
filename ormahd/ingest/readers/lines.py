"""Reads the lines and the JSON objects of a stream of bytes, and skips what is damaged."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from typing import Any, BinaryIO, Final

import msgspec

from ormahd.ingest.readers.turns import Reading
from ormahd.ingest.readers.values import text_at

CHUNK: Final = 1 << 20
LONGEST: Final = 16 << 20
"""Maximum size in bytes of a line that is read. A longer line has a pasted file or an image; it is skipped."""
KINDS: Final = 200
"""Maximum number of kinds of records that are noted of one file. A program writes some thirty."""

_NO_NAME: Final = re.compile(r"[^\w$-]+", re.ASCII)

_decode = msgspec.json.Decoder().decode


def lines(stream: BinaryIO, reading: Reading) -> Iterator[bytes]:
    """Yield the lines of a stream without their line ends. Lines that are too long are skipped and counted.

    The last line is yielded even if it has no line end: its parser notices whether it is complete.
    """
    parts: list[bytes] = []
    size = 0
    chunk = stream.read(CHUNK).removeprefix(codecs.BOM_UTF8)
    while chunk:
        *whole, rest = chunk.split(b"\n")
        for part in whole:
            if size + len(part) > LONGEST:
                reading.damaged += 1
            else:
                yield b"".join([*parts, part])
            parts, size = [], 0
        size += len(rest)
        parts = [*parts, rest] if size <= LONGEST else []
        chunk = stream.read(CHUNK)
    if size > LONGEST:
        reading.damaged += 1
    elif size:
        yield b"".join(parts)


def objects(stream: BinaryIO, reading: Reading) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects of a stream that has one object in each line. Other lines are counted in
    `reading.damaged`.

    The last line is not counted: it may be half written, and a later read gets all of it.
    """
    broken = 0
    for line in lines(stream, reading):
        reading.damaged += broken
        broken = 0
        line = line.strip(b" \t\r\x00")
        if not line:
            continue
        found = decoded(line)
        if isinstance(found, dict):
            if len(reading.kinds) < KINDS:
                reading.kinds.add(kind_of(found))
            yield found
        else:
            broken = 1


def kind_of(record: dict[str, Any]) -> str:
    """Return the kind of a record: its `type` and the types of the records that it wraps, joined by dots. A record
    without a type has instead its first key that begins with `$`. Other characters than those of names become `?`."""
    names: list[str] = []
    part: Any = record
    while isinstance(part, dict) and len(names) < 3:
        name = text_at(part, "type") or next((key for key in part if key.startswith("$")), "")
        names.append(_NO_NAME.sub("?", name[:40]))
        part = next((part[key] for key in ("payload", "attachment", "item") if key in part), None)
    return ".".join(filter(None, names))


def decoded(data: bytes) -> Any:
    """Return the JSON value that `data` encodes; None if it is no JSON. Bytes that are not UTF-8, and lone
    surrogates, are replaced."""
    try:
        return _decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    try:
        return _without_surrogates(json.loads(data.decode("utf-8", "replace"), strict=False, parse_int=float))
    except (ValueError, RecursionError):
        return None


def _without_surrogates(value: Any) -> Any:
    """Return a copy of a JSON value in which lone surrogates are replaced in all strings."""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    if isinstance(value, list):
        return [_without_surrogates(item) for item in value]
    if isinstance(value, dict):
        return {_without_surrogates(name): _without_surrogates(item) for name, item in value.items()}
    return value
