"""`ormahctl watch`: print what happens in the daemon, one line for each event, until Ctrl-C."""

from __future__ import annotations

import sys
import time
from datetime import datetime
from typing import Final, get_args

import click

from ormahctl import render
from ormahctl.options import OneOf
from ormahctl.registry import Verb
from ormahctl.session import Session, pass_session
from ormahd.api import EventKind, MemoryEvent, SubscribeParams, SubscribeResult
from ormahd.rpc.wire import Unavailable

KINDS: Final = get_args(EventKind)
LOOK_SECONDS: Final = 0.5
"""Seconds between two checks for Ctrl-C while no event comes, and between two tries to reach the daemon again."""
SHOWN_IDS: Final = 5
COLOURS: Final = {
    "write": "green",
    "edit": "cyan",
    "outside": "cyan",
    "whisper": "bold",
    "job": "dim",
    "health": "yellow",
}


@click.command(
    cls=Verb,
    short_help="Print what happens, as it happens.",
    example="ormahctl watch\normahctl watch --only write --only edit\normahctl watch --json | jq .nodes",
)
@click.option("--only", "only", type=OneOf(KINDS), metavar="KIND", multiple=True, help=f"Only this kind of event: {', '.join(KINDS)}. May be given several times.")  # fmt: skip
@click.option("--after", metavar="ID", help="Begin with the events after this one, if they are still known.")
@click.option("-n", "--limit", type=click.IntRange(min=1), metavar="N", help="End after so many events.")
@pass_session
def watch(session: Session, only: tuple[EventKind, ...], after: str | None, limit: int | None) -> None:
    """Print writes, edits, whispers, jobs and changes of the daemon's health as they happen, until Ctrl-C.

    With `--json` each event is a line of JSON. A whisper is shown with the ids of its memories, never with its prompt. If
    the daemon restarts, the command waits for it and goes on. If events were missed meanwhile, it says so (`refetch`).
    """
    params = SubscribeParams(after=after, only=list(only) or None)
    seen = 0
    while limit is None or seen < limit:
        found = _subscribe(session, params)
        params.after = found.last
        if found.refetch:
            _missed(session, found.last)
        try:
            while limit is None or seen < limit:
                event = session.client.next_event(LOOK_SECONDS)
                if event is not None:
                    seen += 1
                    params.after = event.id
                    _print(session, event)
        except Unavailable:
            if not session.json:
                render.note("the connection to the daemon ended; waiting for the next one")
            session.starts = False  # it was stopped or restarted: another program decides about that


def _subscribe(session: Session, params: SubscribeParams) -> SubscribeResult:
    """Subscribe to the daemon's events. The first time, connect as every command does; later, wait until the daemon answers
    again."""
    while True:
        try:
            session.reconnect()
            return session.client.call("events.subscribe", params, SubscribeResult)
        except Unavailable:
            if session.starts:
                raise
            time.sleep(LOOK_SECONDS)


def _missed(session: Session, last: str) -> None:
    if session.json:
        sys.stdout.write(render.encode({"id": last, "event": "refetch"}, pretty=False) + "\n")
        sys.stdout.flush()
    else:
        render.note("earlier events are not known any more; these are the new ones")


def _print(session: Session, event: MemoryEvent) -> None:
    if session.json:
        sys.stdout.write(render.encode(event, pretty=False) + "\n")
        sys.stdout.flush()
        return
    head = f"{_clock(event.time)}  {render.paint(render.pad(event.event, 7), COLOURS[event.event])}  "
    render.out(head + render.line(_sentence(event)), hang=4)
    sys.stdout.flush()


def _clock(time: str) -> str:
    return datetime.fromisoformat(time).astimezone().strftime("%H:%M:%S")


def _sentence(event: MemoryEvent) -> str:
    """Return a sentence that tells what the event is about."""
    ids = ", ".join(one[:8] for one in event.nodes[:SHOWN_IDS])
    ids += f" and {len(event.nodes) - SHOWN_IDS} more" if len(event.nodes) > SHOWN_IDS else ""
    if event.event == "whisper":
        said = f"whispered {ids}" if event.nodes else f"silent ({event.silence})"
        return f"{said} · {event.source} · {event.space or 'global'} · {event.milliseconds:g} ms"
    if event.event == "job":
        if event.state == "began":
            return f"{event.job} began"
        if event.error is not None:
            return f"{event.job} failed: {event.error}"
        if not event.proposals:
            return f"{event.job} ended: nothing to do"
        return f"{event.job} ended: {event.applied} of {render.count(event.proposals or 0, 'change')} made"
    if event.event == "health":
        degraded = f", without {', '.join(event.degraded)}" if event.degraded else ""
        return "; ".join([f"{event.phase}{degraded}", *(event.warnings or [])])
    if event.event == "outside":
        return f"{render.count(event.files or 0, 'file')} changed" + (f": {ids}" if ids else "")
    return " · ".join(filter(None, [event.subject, event.source, ids]))
