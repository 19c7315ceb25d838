"""`ormahctl import` and `export`: read and write memories as JSON lines.

An import is sent in batches that fit one frame of the protocol. Lines are checked here only
for encoding and size; the daemon checks the rest. An exported file appears complete or not at all.
"""

from __future__ import annotations

import os
import stat
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import click

from ormahctl import render
from ormahctl.commands.ingest import ingest
from ormahctl.registry import Verb
from ormahctl.render import Bar
from ormahctl.session import Session, pass_session, undo_run
from ormahd.api import ExportParams, ExportResult, ImportFailure, ImportParams, ImportResult, StatsParams, StatsResult
from ormahd.rpc.wire import OrmahError

BATCH_LINES = 500
BATCH_BYTES = 4_000_000
LINE_BYTES = 15_000_000
"""Largest size of a line. A memory of the largest size stays below this when it is escaped, and a frame holds 16 MiB.
"""
CHUNK = 1_048_576

_BOM = b"\xef\xbb\xbf"


@dataclass
class Batch:
    """Lines of an import that are sent together. `numbers[i]` is the number of `lines[i]` in the file. `size`: bytes
    of the lines. `bytes_read`: bytes of the file up to the end of the last line."""

    numbers: list[int] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    size: int = 0
    bytes_read: int = 0


def batches(file: BinaryIO, failed: list[ImportFailure]) -> Iterator[Batch]:
    """Yield the lines of `file` in batches that fit one frame. Blank lines are left out. Lines that are no UTF-8 or
    too long are added to `failed`."""
    batch, number, bytes_read = Batch(), 0, 0
    while raw := file.readline(LINE_BYTES + 1):
        number += 1
        bytes_read += len(raw)
        if len(raw) > LINE_BYTES and not raw.endswith(b"\n"):
            bytes_read += _skip_line(file)
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
        if batch.lines and (len(batch.lines) >= BATCH_LINES or batch.size + len(raw) > BATCH_BYTES):
            yield batch
            batch = Batch()
        batch.numbers.append(number)
        batch.lines.append(text)
        batch.size += len(raw)
        batch.bytes_read = bytes_read
    if batch.lines:
        yield batch


def _skip_line(file: BinaryIO) -> int:
    """Read the rest of a line without storing it. Return the number of bytes read."""
    skipped = 0
    while data := file.readline(CHUNK):
        skipped += len(data)
        if data.endswith(b"\n"):
            break
    return skipped


FAILED = 2
INTERRUPTED = 130
BATCH_SECONDS = 1800.0
MAX_LISTED = 20
"""Number of failures printed; `--json` has all."""


@dataclass
class Tally:
    """The result of an import so far. `line`: number of the last line whose batch was answered. `size`: bytes of the
    file up to that line."""

    added: int = 0
    skipped: int = 0
    redacted: int = 0
    failed: list[ImportFailure] = field(default_factory=list)
    run: str | None = None
    last_line: int = 0
    bytes_read: int = 0

    def add(self, batch: Batch, done: ImportResult) -> None:
        """Add the daemon's answer for `batch`. Its failures count lines from the start of the batch; here they get
        their number in the file."""
        self.added += done.added
        self.skipped += done.skipped
        self.redacted += done.redacted
        for failure in done.failed:
            index = failure.line - 1
            number = batch.numbers[index] if 0 <= index < len(batch.numbers) else failure.line
            self.failed.append(ImportFailure(line=number, error=failure.error))
        self.run = self.run or done.run
        self.last_line, self.bytes_read = batch.numbers[-1], batch.bytes_read


class FileOrFolder(click.File):
    """A file to read, `-`, or the path of a folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path if it names a folder, else the opened file."""
        return value if isinstance(value, str) and os.path.isdir(value) else super().convert(value, param, ctx)


@click.command(
    "import",
    cls=Verb,
    short_help="Import memories from JSON lines, or a folder of documents.",
    example="ormahctl import memories.jsonl\normahctl import ~/handbook\nzcat backup.jsonl.gz | ormahctl import -",
)
@click.argument("file", metavar="FILE|DIR|-", type=FileOrFolder("rb"))
@pass_session
def import_(session: Session, file: BinaryIO | str) -> int:
    """Store each line of FILE: a JSON object such as {"content": "…", "type": "fact", "tags": ["x"]}. Of a folder, store
    each section of its documents (`ormahctl ingest DIR --as document`).

    Invalid lines are reported and the others stored; the exit status is then 2. Known memories are skipped.
    """
    if isinstance(file, str):
        return int(click.get_current_context().invoke(ingest, path=file, kind="document"))
    if file.isatty():
        sys.stderr.write("reading JSON lines from the terminal; end with Ctrl-D\n")
    begun = time.monotonic()
    tally = Tally()
    try:
        with Bar("importing") as bar:
            _send_batches(session, file, tally, bar, begun)
    except KeyboardInterrupt:
        _print_progress(tally, "stopped")
        return INTERRUPTED
    except OrmahError as exc:
        _print_progress(tally, "broken off")
        exc.message = exc.message.replace("nothing was changed", "nothing of this batch was taken in")
        raise
    tally.failed.sort(key=lambda failure: failure.line)
    seconds = time.monotonic() - begun
    if session.json:
        fields = {"added": tally.added, "skipped": tally.skipped, "failed": tally.failed, "run": tally.run}
        render.emit(fields | {"redacted": tally.redacted, "seconds": round(seconds, 3)})
    else:
        _print_outcome(session, tally, seconds)
    return FAILED if tally.failed else 0


def _send_batches(session: Session, file: BinaryIO, tally: Tally, bar: Bar, begun: float) -> None:
    """Send the lines of `file` in batches, add each answer to `tally`, and show the progress on `bar`. `begun`: when
    the import began (`time.monotonic`)."""
    try:
        status = os.fstat(file.fileno())
        total = status.st_size if stat.S_ISREG(status.st_mode) else None
    except (OSError, ValueError):
        total = None
    for batch in batches(file, tally.failed):
        params = ImportParams(lines=batch.lines, run=tally.run)
        tally.add(batch, session.client.call("admin.import", params, ImportResult, timeout=BATCH_SECONDS))
        answered = tally.added + tally.skipped
        rate = answered / max(time.monotonic() - begun, 0.001)
        bar.set(tally.bytes_read, total, f"{render.count(answered, 'memory', 'memories')}, {rate:,.0f}/s")


def _print_progress(tally: Tally, how: str) -> None:
    """Print on stderr how far an import came that did not end. `how`: what ended it, such as `stopped`."""
    counts = f"{render.count(tally.added, 'memory', 'memories')} added, {tally.skipped:,} skipped"
    render.note(f"{how} after line {tally.last_line:,}: {counts}, {len(tally.failed):,} failed")
    render.note("the same command goes on from there: what is stored is skipped", label="hint")


def _print_outcome(session: Session, tally: Tally, seconds: float) -> None:
    """Print how many memories were added, skipped or failed, the command that takes the import back, and the first
    failures."""
    rate = (tally.added + tally.skipped) / max(seconds, 0.001)
    render.out(
        f"{render.count(tally.added, 'memory', 'memories')} added, {tally.skipped:,} skipped, "
        f"{len(tally.failed):,} failed ({render.lasting(seconds)}, {rate:,.0f}/s)"
    )
    if tally.run and tally.added:
        render.out(f"  to take it back: {undo_run(session, tally.run)}")
    sys.stdout.flush()
    for failure in tally.failed[:MAX_LISTED]:
        render.note(render.line(failure.error), label=f"line {failure.line}", colour="red")
    if len(tally.failed) > MAX_LISTED:
        render.note(f"and {len(tally.failed) - MAX_LISTED:,} more; all of them: ormahctl --json import …")
    if tally.redacted:
        redacted = render.count(tally.redacted, "memory", "memories")
        render.note(f"secrets were taken out of {redacted} before anything was written", label="secret")


PAGE = 500


@click.command(cls=Verb, short_help="Export all memories as JSON lines.", example="ormahctl export > memories.jsonl")
@pass_session
def export(session: Session) -> None:
    """Write every memory as a JSON object, one per line, ordered by id. `ormahctl import` reads them."""
    client, stream = session.client, sys.stdout.buffer
    number, after = 0, None
    with Bar("exporting") as bar:
        total = client.call("admin.stats", StatsParams(), StatsResult).total_nodes if bar.visible else None
        while True:
            page = client.call("admin.export", ExportParams(after=after, limit=PAGE), ExportResult)
            stream.writelines(render.encode(item, pretty=False).encode() + b"\n" for item in page.items)
            number += len(page.items)
            bar.set(number, total, f"{number:,}")
            after = page.next
            if after is None:
                break
    stream.flush()
