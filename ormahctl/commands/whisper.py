"""`ormahctl whisper`: what would be said for a prompt, and why, or why nothing."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from ormahctl import render
from ormahctl.commands.explain import flat, shown
from ormahctl.commands.spaces import there, unknown_spaces
from ormahctl.complete import SpaceName
from ormahctl.options import text_or_stdin
from ormahctl.registry import Verb
from ormahctl.session import Session, pass_session, space
from ormahd.api import WhisperNode, WhisperParams, WhisperResult

SAID = {
    "off": "whispering is off here (whisper.enabled, whisper.silent_spaces)",
    "empty": "the prompt is empty",
    "short": "the prompt is too short to be about something",
    "command": "it is a command for the agent's own program",
    "machine": "a program wrote it, nobody asked",
    "acknowledgement": "it only acknowledges",
    "conversational": "it is only polite",
    "same_topic": "the topic is the same, and memories for it were whispered in this session",
    "no_candidates": "no memory resembles it",
    "gate": "no memory is relevant enough",
    "judged": "what is relevant was said to be of no use for a prompt like this (feedback ID +1 says the opposite)",
    "archive": "what is relevant enough rests in the archive",
    "known": "what is relevant stands in this session's context already",
    "not_ready": "the daemon is still loading its model",
    "unread": "nobody waited for the answer any more",
}
"""Why nothing was said, for people."""
LEAST = 12
"""Candidates shown to people; --json has them all."""
NAMES = {
    "late_rare": "late interaction",
    "common": "words",
    "certain": "confidence",
    "affinity": "feedback",
    "verdict": "judged",
}
NUMBERS = (
    "text",
    "cosine",
    "late_rare",
    "common",
    "brevity",
    "cross",
    "identity",
    "certain",
    "place",
    "affinity",
    "verdict",
)


class WhisperVerb(Verb):
    """`whisper inject` and `whisper store`, which harnesses run, are commands of their own."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        if args and args[0] in ("inject", "store"):
            from ormahctl.commands.whisper_hooks import HOOKS

            return HOOKS[args[0]].make_context(f"{info_name} {args[0]}", args[1:], parent, **extra)
        return super().make_context(info_name, args, parent, **extra)


@click.command(
    cls=WhisperVerb,
    short_help="Show what would be whispered for a prompt.",
    example="ormahctl whisper how do we deploy the site\necho which database did we choose | ormahctl whisper - --explain",
)
@click.argument("prompt", nargs=-1, required=True)
@click.option(
    "--space",
    "named",
    type=SpaceName(),
    metavar="NAME",
    help="As if you were in this project. Else: the one you are in.",
)
@click.option("--global", "everywhere", is_flag=True, help="As if you were in no project.")
@click.option(
    "--session", "session_id", metavar="ID", help="As a prompt of this session: it is remembered, and logged."
)
@click.option("--explain", is_flag=True, help="Show each candidate's numbers, and what let it go.")
@pass_session
def whisper(
    session: Session,
    prompt: tuple[str, ...],
    named: str | None,
    everywhere: bool,
    session_id: str | None,
    explain: bool,
) -> None:
    """Show which memories an agent would be given for PROMPT before it answers; or why none.

    Without --session nothing is remembered of it: ask as often as you like. `whisper inject` and `whisper store` answer an
    agent's hook instead: see their --help.
    """
    if named is not None and everywhere:
        raise click.UsageError("--space and --global exclude each other")
    where = None if everywhere else named if named is not None else space()
    params = WhisperParams(
        prompt=text_or_stdin(" ".join(prompt), "the prompt"), space=where, session_id=session_id, explain=explain
    )
    said = session.client.call("agent.whisper", params, WhisperResult)
    if session.json:
        render.emit(msgspec.to_builtins(said))
        return
    if said.text:
        render.out(said.text)
    else:
        better = f"; the space {render.line(said.better_space)} fits better" if said.better_space else ""
        render.note(f"silent: {SAID.get(said.silence or '', said.silence)}{better}")
        if said.resting is not None:
            _resting(said.resting, said.archived)
        if named is not None:
            unknown_spaces([named], there(session))
    if explain and isinstance(said.trace, dict):
        _explain(said.trace)
    # the reranker is a wish: where its files are not, that is as it should be
    render.degraded([part for part in said.degraded if explain or part != "reranker"])


def _resting(one: WhisperNode, archived: int) -> None:
    """Name the memory that would have spoken, and how it speaks again."""
    name = render.cut(render.line(one.title or "untitled"), 60)
    of = "the only archived memory" if archived == 1 else f"one of {archived:,} archived memories"
    render.note(f"{name} ({one.short_id}), {of}, would have spoken; ormahctl show {one.short_id} brings it back")


def _explain(trace: dict[str, object]) -> None:
    """What was heard, then the candidates, the most relevant first, with their numbers and the stage that let each go."""
    render.out()
    tables = {name: trace.pop(name) for name in ("candidates", "preferences") if name in trace}
    for name, value in flat(trace).items():
        render.out(f"{render.line(name)}: {shown(value)}")
    for name, rows in tables.items():
        if not isinstance(rows, list) or not rows:
            continue
        rows.sort(key=lambda row: -row["relevance"])
        render.out()
        render.out(render.paint(f"{name} ({len(rows)})", "bold"))
        for row in rows[:LEAST]:
            title = render.cut(render.line(row["title"] or ""), 60)
            render.out(f"{row['relevance']:.3f}  {row['node_id'][:8]}  {title}", hang=7)
            numbers = ", ".join(f"{NAMES.get(one, one)} {row[one]:.3g}" for one in NUMBERS if one in row)
            render.out("       " + (row["shown"] or row["dropped"] or ""), hang=0)
            render.out("       " + render.paint(f"{numbers}; order {row['order']:.3g}", "dim"), hang=0)
        if len(rows) > LEAST:
            render.out(f"and {len(rows) - LEAST} more (--json)")
