"""`ormahctl ingest`: read transcripts and exports of chats into the archive of sessions."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import click

from ormahctl import render
from ormahctl.registry import Verb
from ormahctl.render import Bar
from ormahctl.session import Session, pass_session
from ormahd.api import IngestedFile, IngestFileParams, IngestPathParams, IngestPathResult, Progress
from ormahd.rpc.wire import OrmahError

FAILED = 2
INTERRUPTED = 130
LONG_SECONDS = 3600.0
SHOWN = 10
"""Number of files that are named; `--json` has all."""
NUMBERS = ("sessions", "turns", "added", "known", "open", "excluded", "withdrawn", "damaged", "too_long")
KINDS = ("redacted", "dropped", "unknown")
NO_FORMAT = "no format that is read: Claude Code, Codex, Gemini CLI, ChatGPT, Claude.ai, or text with `User:` and `Assistant:` lines"


@click.command(
    cls=Verb,
    short_help="Archive transcripts and exports of chats.",
    example="ormahctl ingest ~/.claude/projects --dry-run\normahctl ingest ~/Downloads/data-2026-11-27.zip\npbpaste | ormahctl ingest -",
)
@click.argument("path", metavar="FILE|DIR|-", type=click.Path(exists=True, allow_dash=True))
@click.option("--dry-run", is_flag=True, help="Only say what would be archived.")
@pass_session
def ingest(session: Session, path: str, dry_run: bool) -> int:
    """Read what you and your agents said into the archive of sessions, which `ormahctl recall --sessions` searches.

    Reads transcripts of Claude Code, Codex and Gemini CLI, the exports of ChatGPT and Claude.ai (a zip, a folder or a
    file), and text with `User:` and `Assistant:` at the start of lines; the format is recognised by the content.
    Secrets are redacted first. Archived turns are skipped, so an interrupted command can be repeated.

    Exit status 2 if a file could not be read, or has an unknown format.
    """
    begun = time.monotonic()
    files: list[IngestedFile] = []
    try:
        with _place(path) as (place, unnamed), Bar("reading" if dry_run else "archiving") as bar:
            found = _look(session, place, dry_run, bar)
            if dry_run:
                files = found
            else:
                for file in _archived(session, found, unnamed, bar):
                    files.append(file)
    except KeyboardInterrupt:
        _how_far(files, "stopped")
        return INTERRUPTED
    except OrmahError:
        if files:
            _how_far(files, "broken off")
        raise
    for file in files:
        file.path = "-" if path == "-" else file.path
    if session.json:
        render.emit({"dry_run": dry_run, **_sums(files), "seconds": round(time.monotonic() - begun, 3), "files": files})
    else:
        _report(files, dry_run, time.monotonic() - begun)
    bad = [file for file in files if file.status == "failed" or (file.status == "unknown" and len(files) == 1)]
    return FAILED if bad else 0


@contextmanager
def _place(path: str) -> Iterator[tuple[str, bool]]:
    """Return the absolute path to read, and whether it is a temporary file. Standard input is copied to one, because
    the daemon must be able to read it twice."""
    if path != "-":
        yield os.path.realpath(path), False
        return
    if sys.stdin.isatty():
        sys.stderr.write("reading a conversation from the terminal; end with Ctrl-D\n")
    with tempfile.NamedTemporaryFile(prefix="ormah-", suffix=".txt") as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
        file.flush()
        yield file.name, True


def _look(session: Session, path: str, dry_run: bool, bar: Bar) -> list[IngestedFile]:
    params = IngestPathParams(path=path, dry_run=dry_run)
    found = session.client.call(
        "ingest.look", params, IngestPathResult, timeout=LONG_SECONDS,
        on_progress=lambda at: bar.set(at.done, at.total, at.stage),
    )  # fmt: skip
    return found.files


def _archived(session: Session, files: Sequence[IngestedFile], unnamed: bool, bar: Bar) -> Iterator[IngestedFile]:
    for number, file in enumerate(files):
        name = Path(file.path).name

        def draw(at: Progress, number: int = number, name: str = name) -> None:
            bar.set(number, len(files), f"{name}: {render.count(at.done, 'turn')}")

        bar.set(number, len(files), name)
        params = IngestFileParams(path=file.path, unnamed=unnamed)
        yield session.client.call("ingest.sessions", params, IngestedFile, timeout=LONG_SECONDS, on_progress=draw)


def _sums(files: Sequence[IngestedFile]) -> dict[str, object]:
    sums: dict[str, object] = {name: sum(getattr(file, name) for file in files) for name in NUMBERS}
    for name in KINDS:
        counted: Counter[str] = Counter()
        for file in files:
            counted.update(getattr(file, name))
        sums[name] = dict(counted)
    return sums


def _how_far(files: Sequence[IngestedFile], how: str) -> None:
    added = sum(file.added for file in files)
    render.note(f"{how} after {render.count(len(files), 'file')}: {render.count(added, 'turn')} archived")
    render.note("the same command goes on from there: what is archived is skipped", label="hint", colour="cyan")


def _report(files: Sequence[IngestedFile], dry_run: bool, seconds: float) -> None:
    added, sessions = sum(file.added for file in files), sum(file.sessions for file in files)
    said = f"{render.count(added, 'turn')} of {render.count(sessions, 'session')}"
    lasted = f"({render.count(len(files), 'file')}, {render.lasting(seconds)})"
    if added:
        render.out(f"would archive {said} {lasted}" if dry_run else f"{said} archived {lasted}")
    else:
        render.out(f"nothing new {lasted}")
    unchanged = sum(file.status == "unchanged" for file in files)
    left = {
        "archived before": sum(file.known for file in files),
        "still being written": sum(file.open for file in files),
        "in folders of sessions.exclude": sum(file.excluded for file in files),
        "taken back by a rewind since": sum(file.withdrawn for file in files),
    }
    for why, number in left.items():
        if number:
            render.out(f"  {render.count(number, 'turn')} {why}")
    if unchanged:
        render.out(
            f"  {render.count(unchanged, 'file')} unchanged since {'it was' if unchanged == 1 else 'they were'} read"
        )
    sys.stdout.flush()
    _notes(files)


def _notes(files: Sequence[IngestedFile]) -> None:
    sums = _sums(files)
    redacted, unknown = sums["redacted"], sums["unknown"]
    if redacted:
        render.note(f"taken out before anything was kept: {_listed(redacted)}", label="secret", colour="red")
    if unknown:
        render.note(f"of kinds that Ormah does not know, and left out: {_listed(unknown)}")
    broken, long = sum(file.damaged for file in files), sum(file.too_long for file in files)
    if broken:
        render.note(f"{render.count(broken, 'line')} could not be read")
    if long:
        render.note(f"{render.count(long, 'line')} longer than 16 MB left out")
    bad = [file for file in files if file.status == "failed" or (file.status == "unknown" and len(files) == 1)]
    for file in bad[:SHOWN]:
        render.note(render.line(file.error or NO_FORMAT), label=render.line(file.path), colour="red")
    if len(bad) > SHOWN:
        render.note(f"and {len(bad) - SHOWN:,} more; all of them: ormahctl --json ingest …")
    strange = sum(file.status == "unknown" for file in files)
    if strange and len(files) > 1:
        render.note(f"{render.count(strange, 'file')} of other kinds passed over")


def _listed(counts: object) -> str:
    assert isinstance(counts, Mapping)
    return ", ".join(f"{render.line(str(kind))} ({number:,})" for kind, number in sorted(counts.items()))
