"""`ormahctl ingest`: read transcripts and exports of chats into the archive of sessions."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import click
import msgspec
from msgspec import UNSET, UnsetType

from ormahctl import render
from ormahctl.commands.sessions import REFUSED
from ormahctl.commands.spaces import GLOBAL
from ormahctl.options import OneOf
from ormahctl.registry import Verb
from ormahctl.render import Bar
from ormahctl.session import LONG_SECONDS, Session, pass_session
from ormahd import api, paths
from ormahd.rpc.wire import BadRequest, NotFound, OrmahError

FAILED = 2
INTERRUPTED = 130
READ_SECONDS = 3600.0
"""Seconds that the daemon may take for a file or a folder."""
MAX_NAMED = 10
"""Number of files that are named; `--json` has all."""
COUNT_WORDS = {
    "known": "archived before",
    "open": "still being written",
    "excluded": "in folders of sessions.exclude",
    "withdrawn": "taken back by a rewind since",
    "proposed": "proposed as memories: ormahctl review",
    "memories": "made memories",
    "unread": "sessions for the judge to read, in the background: ormahctl status",
    "damaged": "lines that could not be read, or are longer than 16 MB",
}
"""{number in the daemon's answer: its words}."""
NO_FORMAT = "no format that is read: Claude Code, Codex, Gemini CLI, ChatGPT, Claude.ai, or text with `User:` and `Assistant:` lines"


@click.command(
    cls=Verb,
    short_help="Read conversations and documents.",
    example="ormahctl ingest --backfill\normahctl ingest ~/Downloads/data-2026-11-27.zip --dry-run\normahctl ingest notes.md\npbpaste | ormahctl ingest -",
    excludes=[("--backfill", "--as", "--space", "--stop"), ("--stop", "--dry-run", "--as", "--space")],
)
@click.argument("path", metavar="[FILE|DIR|-]", required=False, type=click.Path(exists=True, allow_dash=True))
@click.option("--dry-run", is_flag=True, help="Only say which files would be read, and as what.")
@click.option(
    "--as", "kind", type=OneOf(["conversation", "document"]), help="What it is, if it is taken for the other."
)
@click.option("--space", metavar="S", help="The space of a document's memories, or 'global'.  [default: its project]")
@click.option("--backfill", "past", is_flag=True, help="Archive all past sessions of the agents.")
@click.option("--stop", "stops", is_flag=True, help="Stop the backfill that a set-up began.")
@pass_session
def ingest(
    session: Session, path: str | None, dry_run: bool, kind: str | None, space: str | None, past: bool, stops: bool
) -> int:
    """Read conversations into the archive of sessions, and sections of documents into memories.

    Conversations are transcripts of Claude Code, Codex and Gemini CLI, exports of ChatGPT and Claude.ai, and text with
    `User:` and `Assistant:` at the start of lines; `ormahctl recall --sessions` searches them. All other texts and PDFs
    are documents: each section becomes a memory. Secrets are redacted first. Known texts are skipped, so an interrupted
    command can be repeated.

    `--backfill` finds past sessions in the folders of the agents (or in DIR), and archives them, the newest first.

    Exit status 2 if a file could not be read, or has an unknown format.
    """
    # check how the options fit together
    if stops:
        if path is not None:
            raise click.UsageError("--stop takes no file or folder: it stops the backfill that is under way")
        _stop_backfill(session)
        return 0
    if not past and path is None:
        raise click.UsageError("name a file, a folder or -, or give --backfill for all past sessions of your agents")
    if past and path == "-":
        raise click.UsageError("--backfill looks in folders, and not in standard input")

    # read; an interruption still reports what was read
    begun = time.monotonic()
    read = _ReadFiles([], [], {}, [])
    try:
        if past:
            if not _backfill(session, path, read, dry_run=dry_run):
                return 0
        else:
            assert path is not None
            where = UNSET if space is None else None if space == GLOBAL else space
            if not _read_path(session, path, read, kind or "", where, dry_run=dry_run):
                return 0
    except KeyboardInterrupt:
        _print_progress(read, "stopped")
        return INTERRUPTED
    except OrmahError:
        if read.files or read.documents or read.begun:
            _print_progress(read, "broken off")
        raise
    return _print_outcome(session, read, path, time.monotonic() - begun)


class _ReadFiles(NamedTuple):
    """What became of each file that the command has read so far."""

    files: list[api.IngestedFile]
    documents: list[api.IngestedDocument]
    begun: dict[str, int]
    """{file that is being read: number of its turns that are archived so far}."""
    excluded: list[str]
    """Folders of Ormah itself."""


def _print_outcome(session: Session, read: _ReadFiles, path: str | None, seconds: float) -> int:
    """Print what became of the files in `read`, and return the exit status: `FAILED` if one could not be read.
    `path`: what was named on the command line, where `-` is standard input. `seconds`: how long reading took."""
    files, texts = read.files, read.documents
    named: list[api.IngestedFile | api.IngestedDocument] = [*files, *texts]
    for file in named if path == "-" else ():
        file.path = "-"
    if session.json:
        about = {**_totals(files), "seconds": round(seconds, 3), "files": files}
        render.emit(about | {"left_out": read.excluded, "documents": {**_totals(texts), "files": texts}})
    else:
        if files or not texts:
            _print_conversations(files, seconds)
        if texts:
            _print_documents(texts)
        for folder in read.excluded:
            why = f"a folder of Ormah itself: {api.WHY_OURS}" if Path(folder).is_dir() else "its name is not UTF-8"
            render.note(f"{render.line(folder)} was left out: {why}")
    return FAILED if _failed_files(files) or any(file.status == "failed" for file in texts) else 0


def _read_path(
    session: Session, path: str, read: _ReadFiles, kind: str, space: str | UnsetType | None, *, dry_run: bool
) -> bool:
    """Read a file, a folder or standard input (`-`), and add the result for each file to `read`. Return True if
    `read` is then to be reported.

    `kind`: `conversation` or `document`; "": the daemon decides. `space`: for the memories of documents; UNSET: that
    of the document's project. With `dry_run`, print which files would be read, and return False.

    Raises:
        UsageError: `space` is given for a conversation.
    """
    with _path_to_read(path) as (place, unnamed), Bar("reading") as bar:
        params = api.IngestPathParams(path=place, kind=kind)
        found = session.client.call("ingest.look", params, api.IngestPathResult, timeout=READ_SECONDS)
        read.excluded.extend(found.left_out)
        if space is not UNSET and found.files and not found.documents:
            why = "what is learned of a conversation belongs to the project in which it was held"
            raise click.UsageError(
                f"{path} is no document, and {why}: leave --space and --global out (or --as document)"
            )
        if dry_run:
            _print_files(session, found)
            return False
        _archive(session, found.files, bar, read, unnamed=unnamed)
        for number, file in enumerate(found.documents):
            bar.set(number, len(found.documents), Path(file).name)
            run = read.documents[-1].run if read.documents else None
            wanted = api.IngestDocumentParams(path=file, unnamed=unnamed, space=space, run=run)
            read.documents.append(
                session.client.call("ingest.file", wanted, api.IngestedDocument, timeout=READ_SECONDS)
            )
    return True


def _print_files(session: Session, found: api.IngestPathResult) -> None:
    """Print which files would be read, first conversations, then documents."""
    if session.json:
        render.emit(found)
        return
    for kind, files in (("conversation", found.files), ("document", found.documents)):
        if files:
            render.out(f"would read {render.count(len(files), 'file')} as {kind}{'s' if len(files) > 1 else ''}:")
        for file in files[:MAX_NAMED]:
            render.out(f"  {render.line(file)}")
        if len(files) > MAX_NAMED:
            render.out(f"  and {len(files) - MAX_NAMED:,} more; all of them: ormahctl --json ingest …")
    if not found.files and not found.documents:
        render.out("nothing to read")


def _backfill(session: Session, path: str | None, read: _ReadFiles, *, dry_run: bool) -> bool:
    """Archive past sessions that are found below `path` (None: in the folders of all agents), and add the result for
    each file to `read`. Return True if `read` is then to be reported; False if there is nothing to archive, the
    person declined, or `dry_run` is set and they were only listed."""
    found = _survey(session, path)
    if dry_run:
        render.emit(found) if session.json else _print_survey(found)
        return False
    if not _confirm_archiving(session, found):
        if session.json:
            render.emit({"added": 0, "seconds": 0.0, "files": []})
        return False
    with Bar("archiving") as bar:
        _archive(session, found.files, bar, read, source="backfill")
    return True


# ---------------------------------------------------------------- past sessions


def _survey(session: Session, folder: str | None) -> api.PastResult:
    """Return the past sessions below `folder` (None: in the folders of all agents) that can be archived.

    Raises:
        NotFound: there is no home directory to look in.
    """
    named = [] if folder is None else [str(Path(folder).absolute())]
    folders = named or [str(place) for _, place in paths.transcript_folders()]
    if not folders:
        raise NotFound("there is no home directory to look in", hint="name a folder: ormahctl ingest --backfill DIR")
    return session.client.call("ingest.past", api.PastParams(folders=folders), api.PastResult, timeout=LONG_SECONDS)


def _confirm_archiving(session: Session, found: api.PastResult) -> bool:
    """Print how much there is to archive, and return whether to begin. The person is asked if stdin is a terminal."""
    if not session.json:
        _print_survey(found)
    if not found.files:
        return False
    if session.json or not sys.stdin.isatty():
        return True
    if click.confirm("Archive them?", default=True, err=True):
        return True
    render.note("nothing was archived")
    return False


def _print_survey(found: api.PastResult) -> None:
    """Print for each folder how many transcripts it has, how large they are, and how many of them are to be read."""
    rows = [
        [folder.path, f"{folder.files:,}", render.size(folder.bytes), folder.trouble or f"{folder.fresh:,}"]
        for folder in found.folders
        if folder.exists
    ]
    if rows:
        render.table(["folder", "files", "size", "to read"], rows, right=[1, 2, 3])
    if not found.files:
        looked = ", ".join(render.line(folder.path) for folder in found.folders)
        render.out("nothing new: all of it was read before" if rows else f"there is no transcript in {looked}")
        return
    render.out(f"to read: {render.count(len(found.files), 'file')}, {render.size(found.bytes)}")


def _stop_backfill(session: Session) -> None:
    """Stop the backfill that runs in the background, and print how far it came."""
    before = session.client.call("ingest.backfill", api.BackfillParams(), api.BackfillResult)
    found = session.client.call("ingest.backfill", api.BackfillParams(action="stop"), api.BackfillResult)
    if session.json:
        render.emit(found)
    else:
        what = f"stopped after {render.count(found.done, 'file')} of {found.total:,}"
        render.out(what if before.running else "no backfill is under way")


# ---------------------------------------------------------------- reading


@contextmanager
def _path_to_read(path: str) -> Iterator[tuple[str, bool]]:
    """Context manager: yield (the absolute path to read, whether it is a temporary file).

    Standard input (`-`) is copied to a temporary file, because the daemon must be able to read it twice.
    """
    if path != "-":
        yield os.path.realpath(path), False
        return
    if sys.stdin.isatty():
        sys.stderr.write("reading a conversation from the terminal; end with Ctrl-D\n")
    with tempfile.NamedTemporaryFile(prefix="ormah-", suffix=".txt") as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
        file.flush()
        yield file.name, True


def _archive(
    session: Session, files: Sequence[str], bar: Bar, read: _ReadFiles, *, unnamed: bool = False, source: str = "ingest"
) -> None:
    """Archive `files` one after the other, show the progress on `bar`, and add the result for each to `read`. A file
    that was deleted meanwhile counts as failed.

    `unnamed`: the path is that of a temporary file, so it must not be stored. `source`: `ingest` or `backfill`.
    """
    for number, path in enumerate(files):
        name = Path(path).name

        def draw(at: api.Progress, number: int = number, name: str = name) -> None:
            """Show how many turns of the file are archived. The defaults bind the number and the name of this round
            of the loop."""
            read.begun[name] = at.done
            bar.set(number, len(files), f"{name}: {render.count(at.done, 'turn')}")

        bar.set(number, len(files), name)
        params = api.IngestFileParams(path=path, unnamed=unnamed, source=source)
        read.begun[name] = 0
        try:
            out = session.client.call(
                "ingest.sessions", params, api.IngestedFile, timeout=READ_SECONDS, on_progress=draw
            )
        except BadRequest as error:  # an agent deleted it meanwhile
            if os.path.exists(path):
                raise
            out = api.IngestedFile(path, "failed", error=error.message)
        read.files.append(out)
        read.begun.pop(name)


def _totals(files: Sequence[api.Result]) -> dict[str, Any]:
    """Return `{name of a number: its sum over all files}`. Numbers that are counted by kind or by reason are summed
    for each kind: `{name: {kind: sum}}`."""
    sums: dict[str, Any] = {}
    for file in files:
        for name, value in msgspec.to_builtins(file).items():
            if isinstance(value, int):
                sums[name] = sums.get(name, 0) + value
            elif isinstance(value, dict):
                sums[name] = dict(Counter(sums.get(name, {})) + Counter(value))
    return sums


def _print_progress(read: _ReadFiles, how: str) -> None:
    """Print on stderr how far an ingest came that did not end: files read, turns archived, memories added. `how`:
    what ended it, such as `stopped`."""
    added = _totals(read.files).get("added", 0) + sum(read.begun.values())
    memories = _totals(read.documents).get("added", 0)
    came = f"{render.count(added, 'turn')} archived, {render.count(memories, 'memory', 'memories')} added"
    render.note(f"{how} after {render.count(len(read.files) + len(read.documents), 'file')}: {came}")
    for name in read.begun:
        render.note(f"the daemon reads {render.line(name)} to its end")
    render.note("the same command goes on from there: what is known is skipped", label="hint")


def _print_conversations(files: Sequence[api.IngestedFile], seconds: float) -> None:
    """Print what became of conversations: turns archived, and how many were skipped for which reason. `seconds`: how
    long it took."""
    sums = _totals(files)
    lasted = f"({render.count(len(files), 'file')}, {render.lasting(seconds)})"
    if sums.get("added"):
        turns = f"{render.count(sums['added'], 'turn')} of {render.count(sums['sessions'], 'session')}"
        render.out(f"{turns} archived {lasted}")
    else:
        render.out(f"nothing new {lasted}")
    for name, words in COUNT_WORDS.items():
        if sums.get(name):
            render.out(f"  {sums[name]:,} {words}")
    for why, number in sums.get("refused", {}).items():
        render.out(f"  {number:,} {REFUSED.get(why, why)}")
    if unchanged := sum(file.status == "unchanged" for file in files):
        render.out(f"  {render.count(unchanged, 'file')} unchanged since the last time")
    sys.stdout.flush()
    _print_faults(files)


def _print_documents(files: Sequence[api.IngestedDocument]) -> None:
    """Print how many sections of documents became memories, and the command that takes them back."""
    sums = _totals(files)
    counts = f"{render.count(sums['added'], 'memory', 'memories')} added, {sums['known']:,} known already"
    render.out(f"{render.count(sums['sections'], 'section')} of {render.count(len(files), 'document')}: {counts}")
    commits = [file.commit for file in files if file.commit]
    if commits:
        render.out(f"  to take it back: ormahctl undo {'--run ' if len(commits) > 1 else ''}{commits[0][:8]}")
    sys.stdout.flush()
    _print_faults(files)


def _print_faults(files: Sequence[api.IngestedFile] | Sequence[api.IngestedDocument]) -> None:
    """Print on stderr which secrets were redacted, which files could not be read, and how many files of unknown
    kinds were skipped."""
    if redacted := _totals(files).get("redacted"):
        kinds = ", ".join(f"{render.line(kind)} ({number:,})" for kind, number in sorted(redacted.items()))
        render.note(f"taken out before anything was kept: {kinds}", label="secret")
    bad = _failed_files(files)
    for file in bad[:MAX_NAMED]:
        render.note(render.line(file.error or NO_FORMAT), label=render.line(file.path), colour="red")
    if len(bad) > MAX_NAMED:
        render.note(f"and {len(bad) - MAX_NAMED:,} more; all of them: ormahctl --json ingest …")
    if strange := sum(file.status == "unknown" for file in files if file not in bad):
        render.note(f"{render.count(strange, 'file')} of other kinds passed over")


def _failed_files(
    files: Sequence[api.IngestedFile] | Sequence[api.IngestedDocument],
) -> list[api.IngestedFile | api.IngestedDocument]:
    """Return the files that could not be read. A file of an unknown format counts only if it is the only one: in a
    folder such files are skipped."""
    return [file for file in files if file.status == "failed" or (file.status == "unknown" and len(files) == 1)]
