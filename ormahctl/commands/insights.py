"""`ormahctl insights`: which beliefs changed, and which ones contradict each other."""

from __future__ import annotations

import sys

import click
import msgspec

from ormahctl import render
from ormahctl.commands.spaces import there, unknown_spaces
from ormahctl.complete import SpaceName
from ormahctl.registry import Verb
from ormahctl.session import Session, pass_session
from ormahd.api import Belief, InsightsParams, InsightsResult

SNIPPET = 160


@click.command(
    cls=Verb,
    short_help="Beliefs that changed, and contradictions.",
    example="ormahctl insights\normahctl insights --space ormah -n 5",
)
@click.option(
    "-n",
    "--limit",
    type=click.IntRange(1, 1000),
    metavar="N",
    default=50,
    show_default=True,
    help="At most so many of each.",
)
@click.option(
    "--space",
    type=SpaceName(),
    metavar="NAME",
    help="Only what is about this space; 'global': about memories without one.",
)
@pass_session
def insights(session: Session, limit: int, space: str | None) -> None:
    """Show which memories replaced which, and which contradict each other; newest first.

    A memory that was replaced is outdated: it no longer shows up in recall, and stays in the vault (`ormahctl show ID`).
    Both kinds of edge can be taken back: `ormahctl history --kind conflict`, `ormahctl undo OP`.
    """
    found = session.client.call("agent.insights", InsightsParams(limit=limit, space=space), InsightsResult)
    if session.json:
        fields = msgspec.to_builtins(found)
        fields.pop("text")
        render.emit(fields)
        return
    if found.evolutions:
        render.out(render.paint("Beliefs that changed", "bold"))
        for evolution in found.evolutions:
            _print(evolution.time, evolution.reason, ("now", evolution.newer), ("was", evolution.older))
    if found.tensions:
        if found.evolutions:
            render.out()
        render.out(render.paint("Contradictions", "bold"))
        for tension in found.tensions:
            _print(tension.time, tension.reason, ("one", tension.a), ("two", tension.b), settled=tension.settled)
    if not (found.evolutions or found.tensions):
        render.note("no belief has changed, and none contradicts another")
        if space is not None:
            unknown_spaces([space], there(session))


def _print(time: str, reason: str | None, *ends: tuple[str, Belief], settled: bool = False) -> None:
    facts = [
        render.moment(time, day=True),
        *([render.line(reason)] if reason else []),
        *(["settled"] if settled else []),
    ]
    render.out("  " + render.paint(" · ".join(facts), "dim"))
    room = render.columns() - 8 if render.terminal(sys.stdout) else 200
    for role, end in ends:
        made = f"{end.short_id} · {render.moment(end.created, day=True)} · {render.line(end.space or 'global')}"
        render.out(f"    {role}  {render.cut(render.line(end.title), room)}")
        render.out("         " + render.paint(made, "dim"))
        text = render.cut(render.line(end.content), min(SNIPPET, room))
        if text != render.line(end.title):
            render.out("         " + text)
