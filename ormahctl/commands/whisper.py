"""`ormahctl whisper` and `feedback`: try a whisper, list the past ones, and judge one."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from ormahctl import render
from ormahctl.commands.spaces import GLOBAL, there, unknown_spaces
from ormahctl.options import limit_option, text_or_stdin
from ormahctl.registry import Verb
from ormahctl.session import PERSON, Session, pass_session, space
from ormahd.api import (
    FeedbackParams,
    FeedbackResult,
    WhisperedPrompt,
    WhisperNode,
    WhisperParams,
    WhisperResult,
    WhispersParams,
    WhispersResult,
)

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
    "generic": "the prompt shares only general words of programming with the memories",
    "judged": "what is relevant was said to be of no use for a prompt like this (feedback ID +1 says the opposite)",
    "archive": "what is relevant enough rests in the archive",
    "known": "what is relevant stands in this session's context already",
    "not_ready": "the daemon is still loading its model",
    "unread": "nobody waited for the answer any more",
}
"""Reasons for silence, in words for people."""
LEAST = 12
"""Number of candidates shown; `--json` has all."""


@click.command(
    cls=Verb,
    short_help="Show what would be whispered, or what was.",
    example="ormahctl whisper how do we deploy the site\necho which database did we choose | ormahctl whisper - --explain\n"
    "ormahctl whisper -n 50",
)
@click.argument("prompt", nargs=-1)
@click.option(
    "--space",
    "named",
    metavar="NAME",
    help="The space to search from; global: none. Default: that of the current project.",
)
@click.option("--session", "session_id", metavar="ID", help="Treat it as a prompt of this session: it is logged.")
@click.option("--explain", is_flag=True, help="Show each candidate's numbers, and why it was dropped.")
@limit_option(10_000, default=20, what="prompts that are listed")
@pass_session
def whisper(
    session: Session, prompt: tuple[str, ...], named: str | None, session_id: str | None, explain: bool, limit: int
) -> None:
    """Show which memories an agent would get for PROMPT before it answers, or why none. Nothing goes into the vault.

    Without PROMPT: list the last prompts, newest first, and which memories were whispered for each, or why none.
    """
    if not prompt:
        if explain or session_id:
            raise click.UsageError("--explain and --session go with a PROMPT", click.get_current_context())
        _list(session, named, limit)
        return
    where = space() if named is None else None if named == GLOBAL else named
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
    render.degraded(said.degraded)


def _resting(one: WhisperNode, archived: int) -> None:
    """Name the archived memory that would have been whispered, and how to bring it back."""
    name = render.cut(render.line(one.title or "untitled"), 60)
    of = "the only archived memory" if archived == 1 else f"one of {archived:,} archived memories"
    render.note(f"{name} ({one.short_id}), {of}, would have spoken; ormahctl show {one.short_id} brings it back")


def _explain(trace: dict[str, Any]) -> None:
    """Print how the prompt was understood, then the candidates, most relevant first, with their numbers and why each
    was dropped."""
    render.out()
    tables = {name: trace.pop(name, None) or [] for name in ("candidates", "preferences")}
    render.facts(trace)
    for name, rows in tables.items():
        if not rows:
            continue
        render.out()
        render.out(render.paint(f"{name} ({len(rows)})", "bold"))
        for row in sorted(rows, key=lambda row: -row["relevance"])[:LEAST]:
            title = render.cut(render.line(row["title"] or ""), 60)
            render.out(f"{row['relevance']:.3f}  {row['node_id'][:8]}  {title}", hang=7)
            numbers = ", ".join(f"{one} {value:.3g}" for one, value in row.items() if isinstance(value, float))
            render.out(f"       {row['shown'] or row['dropped'] or ''}; {numbers}", hang=0)
        if len(rows) > LEAST:
            render.out(f"and {len(rows) - LEAST} more (--json)")


PROMPT = 160
"""Number of characters of a prompt that are shown."""
SHOWN = {"title": "by title", "preference": "as a preference", "exploring": "as a question"}
"""How a memory that was not quoted in full was shown."""


def _list(session: Session, named: str | None, limit: int) -> None:
    """Print the last prompts, of all spaces or of the space `named`."""
    found = session.client.call("agent.whispers", WhispersParams(space=named, limit=limit), WhispersResult).whispers
    if session.json:
        render.emit(found)
        return
    for number, one in enumerate(found):
        if number:
            render.out()
        _print(one)
    if not found:
        render.note("no prompt was logged yet")
        if named is not None:
            unknown_spaces([named], there(session))


def _print(one: WhisperedPrompt) -> None:
    facts = [one.agent.removeprefix("agent:"), render.line(one.space or "global")]
    if one.session_id:
        facts.append(f"session {render.cut(render.line(one.session_id), 12)}")
    facts.append(f"event {one.event}")
    render.out(f"{render.moment(one.time)}  {render.paint(' · '.join(facts), 'dim')}")
    unkept = "(not stored: its session is in a folder of sessions.exclude)"
    said = f"“{render.cut(render.line(one.prompt), PROMPT)}”" if one.prompt or one.silence == "empty" else unkept
    render.out(f"  {said}", hang=1)
    if one.silence is not None:
        render.out(f"  {render.paint('silent:', 'yellow')} {render.line(SAID.get(one.silence, one.silence))}")
    elif not one.memories:
        render.out("  whispered; its memories are stored only for prompts with a session", hang=0)
    for memory in one.memories:
        how = f"  ({SHOWN[memory.shown]})" if memory.shown in SHOWN else ""
        title = "(gone by now)" if memory.title is None else render.line(memory.title)
        render.out(f"  {render.paint(memory.short_id, 'bold')}  {title}{how}", hang=10)


_SIGNALS = {"+1": 1, "1": 1, "-1": -1, "\N{MINUS SIGN}1": -1}
_MINUS = "\N{MINUS SIGN}1"


class Signal(click.ParamType[int]):
    """The argument `+1` or `-1`."""

    name = "+1|-1"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if value not in _SIGNALS:
            self.fail(f"'{value}' is neither +1 (of use) nor -1 (not of use)", param, ctx)
        return _SIGNALS[value]


class JudgementVerb(Verb):
    """A command that reads `-1` as an argument, not as an option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, [_MINUS if arg == "-1" else arg for arg in args])


@click.command(
    cls=JudgementVerb,
    short_help="Say whether a whispered memory was useful.",
    example="ormahctl feedback 97acbe8e +1\normahctl feedback 97acbe8e -1",
)
@click.argument("node_id", metavar="ID")
@click.argument("signal", type=Signal(), metavar="+1|-1")
@click.option("--explicit", is_flag=True, help="A person says so, not only the agent that passes it on: weighs more.")
@click.option(
    "--event", metavar="EVENT", help="The whisper to judge. Default: the last one that considered the memory."
)
@pass_session
def feedback(session: Session, node_id: str, signal: int, explicit: bool, event: str | None) -> None:
    """Say whether the memory ID was useful (+1) or not (-1) when it was whispered.

    From now on it is whispered more or less easily for similar prompts. `ormahctl undo` undoes the judgement.
    """
    source = "explicit" if explicit or session.agent == PERSON else "implicit"
    params = FeedbackParams(node_id=node_id, signal=signal, source=source, event=event)
    done = session.client.call("agent.feedback", params, FeedbackResult)
    if session.json:
        render.emit(done)
        return
    word, name = "useful" if done.signal > 0 else "not useful", render.paint(done.short_id, "bold")
    if done.counted:
        back = f", undo: ormahctl undo {done.commit[:8]}" if done.commit else ""
        render.out(f"noted as {word}: {name}{back}")
    else:
        render.out(f"nothing to change: {name} was noted as {word} before")
    if done.effect:
        render.out(f"  {done.effect}")
    if done.replaced:
        render.note("it takes the place of the opposite, said of the same whisper")
    if done.review:
        render.note("the question about this memory is answered by it")
