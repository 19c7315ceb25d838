"""`ormahctl ingest --backfill`: archive all past sessions of this machine, after saying what that takes."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from ormahctl import render
from ormahctl.render import Bar
from ormahctl.session import Session
from ormahd import paths
from ormahd.api import BackfillParams, BackfillResult, PastParams, PastResult
from ormahd.rpc.wire import NotFound

LONG_SECONDS = 6 * 3600.0


def survey(session: Session, folder: str | None, *, exact: bool) -> PastResult:
    """Return the past sessions below `folder` (None: the folders of all agents) that can be archived. `exact`: read all
    of them to count their turns, which are estimated otherwise."""
    named = [] if folder is None else [str(Path(folder).absolute())]
    folders = named or [str(place) for _, place in paths.transcript_folders()]
    if not folders:
        raise NotFound("there is no home directory to look in", hint="name a folder: ormahctl ingest --backfill DIR")
    with Bar("reading" if exact else "looking") as bar:
        return session.client.call(
            "ingest.past", PastParams(folders=folders, exact=exact), PastResult, timeout=LONG_SECONDS,
            on_progress=lambda at: bar.set(at.done, at.total, at.stage),
        )  # fmt: skip


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
    """Print where past sessions are, how many, how large, how long it takes, and what a judge would cost."""
    agents = {str(place): agent for agent, place in paths.transcript_folders()}
    rows = []
    for one in found.folders:
        if one.trouble:
            rows.append(
                [agents.get(one.path, one.agent) or "-", render.line(one.path), "-", "-", render.line(one.trouble)]
            )
        elif one.exists:
            fresh = f"{one.fresh:,}" if one.fresh else "none"
            rows.append(
                [
                    agents.get(one.path, one.agent) or "-",
                    render.line(one.path),
                    f"{one.files:,}",
                    render.size(one.bytes),
                    fresh,
                ]
            )
    if not rows:
        render.out("no agent has kept a transcript on this machine")
        render.note(f"looked in {', '.join(render.line(one.path) for one in found.folders)}")
        return
    render.table(["agent", "folder", "files", "size", "to read"], rows, right=[2, 3, 4])
    if not found.files:
        render.out("nothing new: all of it was read before")
        return
    about = "" if found.exact else "about "
    render.out(
        f"to read: {render.count(len(found.files), 'file')}, {render.size(found.bytes)}; "
        f"{about}{render.count(found.turns, 'turn')} of {about}{render.count(found.sessions, 'session')}, "
        f"in about {render.lasting(found.seconds)}"
    )
    cost = found.cost
    reads = f"about {cost.tokens:,} tokens in about {render.count(cost.calls, 'call')}"
    if cost.judge == "none":
        render.out(f"to archive them costs nothing. A judge, if you set one up, would read {reads} to learn from them")
    else:
        render.out(
            f"the judge ({cost.judge}) would read {reads} to learn from them: {render.count(cost.days, 'day')} within judge.calls_a_day and judge.tokens_a_day"
        )


def stop(session: Session) -> None:
    """Stop a backfill in the background."""
    before = session.client.call("ingest.backfill", BackfillParams(), BackfillResult)
    found = session.client.call("ingest.backfill", BackfillParams(action="stop"), BackfillResult)
    if session.json:
        render.emit(found)
    elif before.running:
        render.out(
            f"stopped after {render.count(found.done, 'file')} of {found.total:,}: {render.count(found.added, 'turn')} archived"
        )
        render.note("ormahctl ingest --backfill goes on from there", label="hint", colour="cyan")
    else:
        render.out("no backfill is under way")
