"""`ormahctl ingest --backfill`: archive all past sessions of this machine, after saying what that takes."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from ormahctl import render
from ormahctl.session import LONG_SECONDS, Session
from ormahd import paths
from ormahd.api import BackfillParams, BackfillResult, PastParams, PastResult
from ormahd.rpc.wire import NotFound


def survey(session: Session, folder: str | None) -> PastResult:
    """Return the past sessions below `folder` (None: the folders of all agents) that can be archived."""
    named = [] if folder is None else [str(Path(folder).absolute())]
    folders = named or [str(place) for _, place in paths.transcript_folders()]
    if not folders:
        raise NotFound("there is no home directory to look in", hint="name a folder: ormahctl ingest --backfill DIR")
    return session.client.call("ingest.past", PastParams(folders=folders), PastResult, timeout=LONG_SECONDS)


def agreed(session: Session, found: PastResult) -> bool:
    """Return whether to begin archiving. Prints how much there is, and asks if stdin is a terminal."""
    if not session.json:
        describe(found)
    if not found.files:
        return False
    if session.json or not sys.stdin.isatty():
        return True
    if click.confirm("Archive them?", default=True, err=True):
        return True
    render.note("nothing was archived")
    return False


def describe(found: PastResult) -> None:
    """Print where past sessions are, how many, and how large."""
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


def stop(session: Session) -> None:
    """Stop a backfill in the background."""
    before = session.client.call("ingest.backfill", BackfillParams(), BackfillResult)
    found = session.client.call("ingest.backfill", BackfillParams(action="stop"), BackfillResult)
    if session.json:
        render.emit(found)
    else:
        what = f"stopped after {render.count(found.done, 'file')} of {found.total:,}"
        render.out(what if before.running else "no backfill is under way")
