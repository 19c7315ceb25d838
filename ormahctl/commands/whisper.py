"""`ormahctl whisper`, `log` and `feedback`: try a whisper, read the log of whispers, and judge one.

`whisper` prints what an agent would get for a prompt and why, or why nothing. `whisper inject` and `whisper store` run
the hooks under their documented names.
"""

from __future__ import annotations

from typing import Any

import click
import msgspec

from ormahctl import render
from ormahctl.commands.hook import HookVerb, answer, deadline_option, harness_option
from ormahctl.commands.lists import there, unknown_spaces
from ormahctl.commands.recall import flat, shown
from ormahctl.options import NodeId, SpaceName, limit_option, text_or_stdin
from ormahctl.registry import Verb
from ormahctl.session import PERSON, Session, pass_session, space
from ormahctl.times import When
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

_PROMPT = {"gemini": "BeforeAgent"}
"""The name of the prompt event in harnesses that do not call it `UserPromptSubmit`."""


@click.command(
    cls=HookVerb,
    short_help="Answer an agent's prompt hook (JSON on stdin).",
    example='echo \'{"prompt": "which database did we choose?", "session_id": "s1"}\' | ormahctl whisper inject',
)
@harness_option
@deadline_option
@pass_session
def inject(session: Session, harness: str, deadline: int) -> None:
    """Answer a prompt's hook: reads `prompt`, `cwd` and `session_id` as JSON from stdin, and prints `additionalContext`
    as JSON.

    Prints nothing if no memory matters, and on any failure. The exit status is always 0.
    """
    answer(session, _PROMPT.get(harness, "UserPromptSubmit"), harness, deadline)


@click.command(
    cls=HookVerb,
    short_help="Pass on a session's transcript (hook's JSON on stdin).",
    example='echo \'{"session_id": "s1", "transcript_path": "/tmp/s1.jsonl"}\' | ormahctl whisper store',
)
@harness_option
@deadline_option
@pass_session
def store(session: Session, harness: str, deadline: int) -> None:
    """Pass the session that a hook names (`session_id`, `transcript_path`, `cwd` as JSON on stdin) to ingestion.

    Returns at once and prints nothing. The exit status is always 0.
    """
    answer(session, "SessionEnd", harness, deadline)


HOOKS = {"inject": inject, "store": store}
"""First words after `ormahctl whisper` that name a hook and are no prompt."""


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
    "identity",
    "certain",
    "place",
    "specific",
    "affinity",
    "verdict",
)


class WhisperVerb(Verb):
    """The command `whisper`, whose words `inject` and `store` run commands of their own for harnesses."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        if args and args[0] in ("inject", "store"):
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
    help="The space to search from. Default: that of the current project.",
)
@click.option("--global", "everywhere", is_flag=True, help="Search as if in no project.")
@click.option(
    "--session", "session_id", metavar="ID", help="Treat it as a prompt of this session: it is stored and logged."
)
@click.option("--explain", is_flag=True, help="Show each candidate's numbers, and why it was dropped.")
@pass_session
def whisper(
    session: Session,
    prompt: tuple[str, ...],
    named: str | None,
    everywhere: bool,
    session_id: str | None,
    explain: bool,
) -> None:
    """Show which memories an agent would get for PROMPT before it answers, or why it would get none.

    Try as often as you like: nothing goes into the vault. The prompt stands in `ormahctl log` like those of agents.
    `whisper inject` and `whisper store` answer hooks of agents instead; see their --help.
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
    render.degraded(said.degraded)


def _resting(one: WhisperNode, archived: int) -> None:
    """Name the archived memory that would have been whispered, and how to bring it back."""
    name = render.cut(render.line(one.title or "untitled"), 60)
    of = "the only archived memory" if archived == 1 else f"one of {archived:,} archived memories"
    render.note(f"{name} ({one.short_id}), {of}, would have spoken; ormahctl show {one.short_id} brings it back")


def _explain(trace: dict[str, object]) -> None:
    """Print how the prompt was understood, then the candidates, most relevant first, with their numbers and why each
    was dropped."""
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


PROMPT = 160
"""Number of characters of a prompt that are shown."""
SHOWN = {"title": "by title", "preference": "as a preference", "exploring": "as a question"}
"""How a memory that was not quoted in full was shown."""


@click.command(
    cls=Verb,
    short_help="List what was whispered today.",
    example="ormahctl log\normahctl log --since 'last week' --space ormah\normahctl --json log | jq '.[].silence'",
)
@click.option("--since", type=When(), help="Since then, instead of today: 2026-11-21, 'last week', 7d, 12h.")
@click.option("--before", type=When(end=True), help="Only before; a day is included.")
@click.option("--space", "space_", type=SpaceName(), metavar="NAME", help="Only prompts from this space; 'global': prompts without a space.")  # fmt: skip
@limit_option(10_000, default=50)
@pass_session
def log(session: Session, since: str | None, before: str | None, space_: str | None, limit: int) -> None:
    """List today's prompts, newest first: time, agent, session, space, the beginning of the prompt, and which memories
    were whispered for it, or why none.

    Prompts are kept for some days (`whisper.keep_days`), without secrets.
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
    unkept = "(not stored: its session is in a folder of sessions.exclude)"
    said = f"“{render.cut(render.line(one.prompt), PROMPT)}”" if one.prompt or one.silence == "empty" else unkept
    render.out(f"  {said}", hang=1)
    if one.silence is not None:
        render.out(f"  {render.paint('silent:', 'yellow')} {render.line(SAID.get(one.silence, one.silence))}")
    elif not one.memories:
        render.out("  whispered; which memories is noted only of prompts with a session", hang=0)
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
    excludes=[("--explicit", "--implicit")],
    short_help="Say whether a whispered memory was useful.",
    example="ormahctl feedback 97acbe8e +1\normahctl feedback 97acbe8e -1 --event k3v9x2m7q4hd",
)
@click.argument("node_id", metavar="ID", type=NodeId())
@click.argument("signal", type=Signal(), metavar="+1|-1")
@click.option(
    "--explicit", "source", flag_value="explicit", default=None, help="A person says so (a person's default)."
)
@click.option(
    "--implicit",
    "source",
    flag_value="implicit",
    help="Inferred from what happened: weighs less (an agent's default).",
)
@click.option(
    "--event", metavar="EVENT", help="The whisper to judge. Default: the last one that considered the memory."
)
@pass_session
def feedback(session: Session, node_id: str, signal: int, source: str | None, event: str | None) -> None:
    """Say whether the memory ID was useful (+1) or not (-1) when it was whispered.

    From now on it is whispered more or less easily for similar prompts. ID may be a prefix of the id, as shown in
    whispers. The judgement is a commit, and `ormahctl undo` undoes it.
    """
    source = source or ("explicit" if session.agent == PERSON else "implicit")
    params = FeedbackParams(node_id=node_id, signal=signal, source=source, event=event)
    done = session.client.call("agent.feedback", params, FeedbackResult)
    if session.json:
        render.emit(done)
        return
    word, name = "useful" if done.signal > 0 else "not useful", render.paint(done.short_id, "bold")
    if done.counted:
        render.out(f"noted as {word} {name}  for the whisper {done.event}")
    else:
        render.out(f"nothing to change: {name} was noted as {word} before, for the whisper {done.event}")
    if done.effect:
        render.out(f"  {done.effect}")
    if done.commit:
        render.out(f"  commit {done.commit[:8]}; to take it back: ormahctl undo {done.commit[:8]}")
    if done.replaced:
        render.note("it takes the place of the opposite, said of the same whisper")
    if done.review:
        render.note("the question about this memory is answered by it")
    if done.stored:
        render.note("another git operation is under way in the vault; the judgement is safe and its commit follows")
