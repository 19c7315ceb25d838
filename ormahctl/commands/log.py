"""`ormahctl log`: what was whispered to whom, and why nothing."""

from __future__ import annotations

import click

from ormahctl import render
from ormahctl.commands.spaces import there, unknown_spaces
from ormahctl.commands.whisper import SAID
from ormahctl.complete import SpaceName
from ormahctl.registry import Verb
from ormahctl.session import Session, pass_session
from ormahctl.times import When
from ormahd.api import WhisperedPrompt, WhispersParams, WhispersResult

PROMPT = 160
"""Characters of a prompt that are shown."""
SHOWN = {"title": "by title", "preference": "as a preference", "exploring": "as a question"}
"""How a memory stood in a whisper, where it was not quoted in full."""


@click.command(
    cls=Verb,
    short_help="What was whispered to whom today.",
    example="ormahctl log\normahctl log --since 'last week' --space ormah\normahctl --json log | jq '.[].silence'",
)
@click.option("--since", type=When(), help="Since then instead of today: 2026-11-21, 'last week', 7d, 12h.")
@click.option("--before", type=When(end=True), help="Only until then; a day is included.")
@click.option("--space", "space_", type=SpaceName(), metavar="NAME", help="Only prompts from this space; 'global': from none.")  # fmt: skip
@click.option(
    "-n", "--limit", type=click.IntRange(1, 10_000), metavar="N", default=50, show_default=True, help="At most so many."
)
@pass_session
def log(session: Session, since: str | None, before: str | None, space_: str | None, limit: int) -> None:
    """List the prompts of today, newest first: when, which agent, session and space, how the prompt begins, and which memories
    were whispered for it, or why none.

    Prompts are kept for some days (`whisper.keep_days`), without what looks like a secret.
    """
    begin = since or (None if before else When().convert("today", None, None))
    params = WhispersParams(since=begin, before=before, space=space_, limit=limit)
    found = session.client.call("agent.whispers", params, WhispersResult).whispers
    if session.json:
        render.emit(found)
        return
    for number, one in enumerate(found):
        if number:
            render.out()
        _print(one)
    if not found:
        render.note("no prompt was logged today" if since is None and before is None else "no prompt was logged then")
        if space_ is not None:
            unknown_spaces([space_], there(session))
    elif len(found) == limit:
        render.note("there may be more (-n)")


def _print(one: WhisperedPrompt) -> None:
    facts = [one.agent.removeprefix("agent:"), render.line(one.space or "global")]
    if one.session_id:
        facts.append(f"session {render.cut(render.line(one.session_id), 12)}")
    facts.append(f"event {one.event}")
    render.out(f"{render.moment(one.time)}  {render.paint(' · '.join(facts), 'dim')}")
    render.out(f"  “{render.cut(render.line(one.prompt), PROMPT)}”", hang=1)
    if one.silence is not None:
        render.out(f"  {render.paint('silent:', 'yellow')} {render.line(SAID.get(one.silence, one.silence))}")
    elif not one.memories:
        render.out("  whispered; which memories is noted only of prompts with a session", hang=0)
    for memory in one.memories:
        how = f"  ({SHOWN[memory.shown]})" if memory.shown in SHOWN else ""
        title = "(gone by now)" if memory.title is None else render.line(memory.title)
        render.out(f"  {render.paint(memory.short_id, 'bold')}  {title}{how}", hang=10)
