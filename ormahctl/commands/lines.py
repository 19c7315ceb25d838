"""A file of JSON lines, cut into batches that fit a frame. Judges only what it must: encoding, blank lines, size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

from ormahd.api import ImportFailure

FIRST_LINES = 64
"""The first batch is small, because it goes alone."""
BATCH_LINES = 500
BATCH_BYTES = 4_000_000
LINE_BYTES = 15_000_000
"""A frame's body holds 16 MiB; a memory of the largest size, escaped in the worst way, stays below this."""
CHUNK = 1_048_576

_BOM = b"\xef\xbb\xbf"


@dataclass
class Batch:
    """`numbers[i]` is the number of `lines[i]` in the file; `end` how many bytes were read up to its last line."""

    numbers: list[int] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    size: int = 0
    end: int = 0

    @property
    def last(self) -> int:
        return self.numbers[-1] if self.numbers else 0


def batches(file: BinaryIO, failed: list[ImportFailure]) -> Iterator[Batch]:
    """The lines of `file` without blank ones; lines that are no text or too long go to `failed`."""
    batch, most, number, read = Batch(), FIRST_LINES, 0, 0
    while raw := file.readline(LINE_BYTES + 1):
        number += 1
        read += len(raw)
        if len(raw) > LINE_BYTES and not raw.endswith(b"\n"):
            read += _skip_line(file)
            failed.append(ImportFailure(line=number, error=f"longer than {LINE_BYTES:,} bytes"))
            continue
        if number == 1:
            raw = raw.removeprefix(_BOM)
        raw = raw.strip(b" \t\r\n")
        if not raw:
            continue
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError as exc:
            failed.append(ImportFailure(line=number, error=f"not valid UTF-8 (byte {exc.start + 1} of the line)"))
            continue
        if batch.lines and (len(batch.lines) >= most or batch.size + len(raw) > BATCH_BYTES):
            yield batch
            batch, most = Batch(), BATCH_LINES
        batch.numbers.append(number)
        batch.lines.append(text)
        batch.size += len(raw)
        batch.end = read
    if batch.lines:
        yield batch


def _skip_line(file: BinaryIO) -> int:
    skipped = 0
    while piece := file.readline(CHUNK):
        skipped += len(piece)
        if piece.endswith(b"\n"):
            break
    return skipped
