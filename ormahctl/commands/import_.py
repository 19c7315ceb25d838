"""`ormahctl import`: many memories from a file of JSON lines, in batches, two of them under way at a time."""

from __future__ import annotations

import os
import stat
import sys
import time
from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import BinaryIO

import click

from ormahctl import render
from ormahctl.background import Lane, answer
from ormahctl.commands.lines import Batch, batches
from ormahctl.progress import Bar
from ormahctl.registry import Verb
from ormahctl.session import Session, pass_session
from ormahd.api import ImportFailure, ImportParams, ImportResult
from ormahd.rpc.wire import OrmahError

FAILED = 2
INTERRUPTED = 130
BATCH_SECONDS = 1800.0
SHOWN = 20
"""Failures printed for people; --json has them all."""


@dataclass
class Tally:
    """What has come of an import so far. `line`: up to which line all is answered."""

    added: int = 0
    skipped: int = 0
    redacted: int = 0
    failed: list[ImportFailure] = field(default_factory=list)
    run: str | None = None
    line: int = 0
    size: int = 0

    def add(self, batch: Batch, done: ImportResult) -> None:
        self.added += done.added
        self.skipped += done.skipped
        self.redacted += done.redacted
        for failure in done.failed:
            place = failure.line - 1
            number = batch.numbers[place] if 0 <= place < len(batch.numbers) else failure.line
            self.failed.append(ImportFailure(line=number, error=failure.error))
        self.run = self.run or done.run
        self.line, self.size = batch.last, batch.end


@click.command(
    "import",
    cls=Verb,
    short_help="Take in many memories from JSON lines.",
    example="ormahctl import memories.jsonl\nzcat backup.jsonl.gz | ormahctl import -",
)
@click.argument("file", metavar="FILE|-", type=click.File("rb"))
@pass_session
def import_(session: Session, file: BinaryIO) -> int:
    """Store each line of FILE, a JSON object such as {"content": "…", "type": "fact", "tags": ["x"]}.

    Lines that cannot be taken are named and the others go on; exit status 2 then. What is known already is skipped, so
    that an import that was stopped is simply run again. An export can be imported.
    """
    if file.isatty():
        sys.stderr.write("reading JSON lines from the terminal; end with Ctrl-D\n")
    begun = time.monotonic()
    tally = Tally()
    try:
        with Bar("importing") as bar:
            _work(session, file, tally, bar, begun)
    except KeyboardInterrupt:
        _how_far(tally, "stopped")
        return INTERRUPTED
    except OrmahError as exc:
        _how_far(tally, "broken off")
        exc.message = exc.message.replace("nothing was changed", "nothing of this batch was taken in")
        raise
    tally.failed.sort(key=lambda failure: failure.line)
    seconds = time.monotonic() - begun
    if session.json:
        fields = {"added": tally.added, "skipped": tally.skipped, "failed": tally.failed, "run": tally.run}
        render.emit(fields | {"redacted": tally.redacted, "seconds": round(seconds, 3)})
    else:
        _report(tally, seconds)
    return FAILED if tally.failed else 0


def _work(session: Session, file: BinaryIO, tally: Tally, bar: Bar, begun: float) -> None:
    """Send the batches, in order, the next one while the daemon works on the one before."""
    total = _size(file)
    lanes = deque([Lane(session.connect()), Lane(session.connect())])
    under_way: deque[tuple[Batch, Future[ImportResult]]] = deque()

    def begun_with(batch: Batch, future: Future[ImportResult]) -> None:
        under_way.append((batch, future))

    def collect(keep: int) -> None:
        while len(under_way) > keep:
            batch, future = under_way[0]
            done = answer(future)
            under_way.popleft()
            tally.add(batch, done)
            answered = tally.added + tally.skipped
            rate = answered / max(time.monotonic() - begun, 0.001)
            bar.set(tally.size, total, f"{render.count(answered, 'memory', 'memories')}, {rate:,.0f}/s")

    try:
        for batch in batches(file, tally.failed):
            # the first one alone: its answer names the run that the others belong to
            collect(keep=len(lanes) - 1 if tally.run else 0)
            lane = lanes[0]
            lanes.rotate(-1)
            params = ImportParams(lines=batch.lines, run=tally.run)
            lane.call("admin.import", params, ImportResult, timeout=BATCH_SECONDS, note=partial(begun_with, batch))
        collect(keep=0)
    except KeyboardInterrupt:
        for one in [*under_way]:
            if one[1].cancel():  # it has not begun
                under_way.remove(one)
        if under_way:
            render.note("finishing what the daemon has begun; Ctrl-C again to leave at once", label="stopping")
            collect(keep=0)
        raise
    finally:
        for lane in lanes:
            lane.close()


def _size(file: BinaryIO) -> int | None:
    """Bytes to come, where that can be known."""
    try:
        found = os.fstat(file.fileno())
    except (OSError, ValueError):
        return None
    return found.st_size if stat.S_ISREG(found.st_mode) else None


def _how_far(tally: Tally, how: str) -> None:
    counts = f"{render.count(tally.added, 'memory', 'memories')} added, {tally.skipped:,} skipped"
    render.note(f"{how} after line {tally.line:,}: {counts}, {len(tally.failed):,} failed")
    render.note("the same command goes on from there: what is stored is skipped", label="hint", colour="cyan")


def _report(tally: Tally, seconds: float) -> None:
    rate = (tally.added + tally.skipped) / max(seconds, 0.001)
    render.out(
        f"{render.count(tally.added, 'memory', 'memories')} added, {tally.skipped:,} skipped, "
        f"{len(tally.failed):,} failed ({render.lasting(seconds)}, {rate:,.0f}/s)"
    )
    if tally.run and tally.added:
        render.out(f"run {render.line(tally.run)}")
    sys.stdout.flush()
    for failure in tally.failed[:SHOWN]:
        render.note(render.line(failure.error), label=f"line {failure.line}", colour="red")
    if len(tally.failed) > SHOWN:
        render.note(f"and {len(tally.failed) - SHOWN:,} more; all of them: ormahctl --json import …")
    if tally.redacted:
        render.note(f"secrets were taken out of {render.count(tally.redacted, 'memory', 'memories')} before anything was "
                    "written", label="secret", colour="red")  # fmt: skip
