"""`ormahctl whisper` and `feedback`: try a whisper, list the past ones, and judge one."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from importlib import resources
from typing import Any, Final

import click
import msgspec

from ormahctl import render
from ormahctl.commands.spaces import GLOBAL, space_counts, warn_of_unknown_spaces
from ormahctl.options import limit_option, text_or_stdin
from ormahctl.registry import Verb
from ormahctl.session import PERSON, Session, pass_session, space
from ormahd import api

WORDS: Final = tomllib.loads(resources.files(__package__).joinpath("whisper.toml").read_text("utf-8"))
SILENCES: Final[dict[str, str]] = WORDS["silence"]
EVIDENCE: Final[dict[str, Any]] = WORDS["evidence"]
EXPLAINED, REASONS = 6, 2
"""Number of memories that are explained (`--json` has all), and of reasons for and against each."""
WORTH, DECIDES = 0.3, 9.0
"""In log odds: the least effect that is worth a word, and that of what decides alone."""


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
@click.option("--session", "session_id", metavar="ID", help="Treat it as a prompt of this session.")
@click.option("--explain", is_flag=True, help="Say of each memory why it was told or left out.")
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
            raise click.UsageError("--explain and --session go with a PROMPT")
        _print_log(session, named, limit)
        return

    # ask for a whisper
    where = space() if named is None else None if named == GLOBAL else named
    params = api.WhisperParams(
        prompt=text_or_stdin(" ".join(prompt), "the prompt"), space=where, session_id=session_id, explain=explain
    )
    found = session.client.call("agent.whisper", params, api.WhisperResult)
    if session.json:
        render.emit(msgspec.to_builtins(found))
        return

    # the whisper, or why there is none
    if found.text:
        render.out(found.text)
    else:
        better = f"; the space {render.line(found.better_space)} fits better" if found.better_space else ""
        render.note(f"no whisper: {SILENCES.get(found.silence or '', found.silence)}{better}")
        if found.resting is not None:
            node, archived_count = found.resting, found.archived
            name = render.cut(render.line(node.title or "untitled"), 60)
            which = (
                "the only archived memory" if archived_count == 1 else f"one of {archived_count:,} archived memories"
            )
            back = f"ormahctl show {node.short_id} brings it back"
            render.note(f"{name} ({node.short_id}), {which}, would have spoken; {back}")
        if named is not None:
            warn_of_unknown_spaces([named], space_counts(session))

    # how it came about
    if explain and isinstance(found.trace, dict):
        _print_explanation(found.trace)
        if found.event:
            render.out(f"\nIf another memory was needed: ormahctl feedback ID +1 --event {found.event}")
    render.warn_of_missing_parts(found.degraded)


def _print_explanation(trace: dict[str, Any]) -> None:
    """Print how the daemon understood the prompt. Then print for the `EXPLAINED` most relevant memories whether they
    were whispered, and why.

    `trace`: that of a whisper with `explain`.
    """
    place = f"the project {render.line(trace['space'])}" if trace["space"] else "no project"
    understood = [WORDS["intents"][kind] for kind in trace.get("intents", ()) if kind in WORDS["intents"]]
    render.out(f"\nasked from {'; '.join([place, *understood])}", hang=4)
    for name, key in WORDS["facts"].items():
        if trace.get(key) not in (None, trace.get("prompt")):
            render.out(f"{name}: {render.moment(trace[key])}", hang=4)
    found: dict[str, dict[str, Any]] = {}  # a memory that was found twice is explained as it was told, or was likelier
    rows = [*trace.get("candidates", ()), *trace.get("preferences", ())]
    for row in sorted(rows, key=lambda row: (row["shown"] is None, -row["relevance"])):
        found.setdefault(row["node_id"], row)
    for row in list(found.values())[:EXPLAINED]:
        title = render.cut(render.line(row["title"] or ""), 60)
        render.out(f"\n{render.paint(row['node_id'][:8], 'bold')}  {title}", hang=10)
        render.out(f"  {render.line(outcome_text(row, trace['weights']))}", hang=0)
    if len(found) > EXPLAINED:
        render.out(f"\nand {len(found) - EXPLAINED} more (--json)")


def outcome_text(row: Mapping[str, Any], weights: Mapping[str, float]) -> str:
    """Return in words whether a memory was whispered, its relevance and gate, and the strongest evidence for and
    against it.

    `row`: a candidate in a trace. `weights`: the weights of evidence in the same trace.
    """
    parts = evidence_effects(row, weights)

    # the stage that left it out, with its reason: such as `gate: relevance 0.31`
    stage, _, reason = (row["dropped"] or "").partition(": ")
    low = reason.startswith("relevance")

    # the evidence in words, the strongest first; if nothing speaks against it, there was little for it
    words: dict[str, list[str]] = {"for": [], "against": []}
    for name, effect in sorted(parts.items(), key=lambda part: -abs(part[1])):
        side = "for" if effect > 0 else "against"
        words[side] += [EVIDENCE[name][side].format(row.get("project"))] if side in EVIDENCE[name] else []
    words["against"] = words["against"] or ([WORDS["little"]] if low else [])
    why = WORDS["low" if low else "dropped"].get(stage, "").format(reason)
    text = f"{WORDS['shown'].get(row['shown'], 'left out')}{why}"
    if parts.keys().isdisjoint(("verdict", "time")):
        text += f": {_percent(row['relevance'])} likely to be needed; "
        text += f"from {_percent(row.get('gate', 0.0))} {'others are' if row['shown'] == 'exploring' else 'it is'} told"
    reasons = [f"{side.capitalize()}: {'; '.join(found[:REASONS])}" for side, found in words.items() if found]
    return ". ".join([text, *reasons])


def evidence_effects(row: Mapping[str, Any], weights: Mapping[str, float]) -> dict[str, float]:
    """Return `{evidence: its effect on a memory's log odds}`, compared to the usual value of that evidence. Effects
    smaller than `WORTH` are left out. What decides alone, such as a judgement, gets `DECIDES`."""
    parts = {
        part["name"]: part["odds"] - weights.get(part["name"], 1.0) * EVIDENCE[part["name"]].get("usual", 0.0)
        for part in row["parts"]
        if part["name"] in EVIDENCE
    }
    parts |= {name: DECIDES * row.get(name, 0.0) for name in ("verdict", "renewed")}
    parts |= {"older_than": -DECIDES * ("older_than" in row), "time": DECIDES * (row["source"] == "temporal")}
    return {name: effect for name, effect in parts.items() if abs(effect) >= WORTH}


def _percent(chance: float) -> str:
    """Return a probability in per cent, as text."""
    return f"{int(chance * 100)} %" if chance >= 0.01 else "under 1 %"


PROMPT = 160
"""Number of characters of a prompt that are shown."""


def _print_log(session: Session, named: str | None, limit: int) -> None:
    """Print the last `limit` prompts, newest first, each with the memories that were whispered for it. `named`: only
    those of this space."""
    found = session.client.call(
        "agent.whispers", api.WhispersParams(space=named, limit=limit), api.WhispersResult
    ).whispers
    if session.json:
        render.emit(found)
        return
    for number, logged in enumerate(found):
        if number:
            render.out()
        _print_logged(logged)
    if not found:
        render.note("no prompt was logged yet")
        if named is not None:
            warn_of_unknown_spaces([named], space_counts(session))


def _print_logged(logged: api.WhisperedPrompt) -> None:
    """Print one logged prompt: its time, agent and session, the prompt, and the whispered memories or the reason of
    the silence."""
    facts = [logged.agent.removeprefix("agent:"), render.line(logged.space or "global")]
    if logged.session_id:
        facts.append(f"session {render.cut(render.line(logged.session_id), 12)}")
    facts.append(f"event {logged.event}")
    render.out(f"{render.moment(logged.time)}  {render.paint(' · '.join(facts), 'dim')}")
    prompt = "(not stored: its session is in a folder of sessions.exclude)"
    if logged.prompt or logged.silence == "empty":
        prompt = f"“{render.cut(render.line(logged.prompt), PROMPT)}”"
    render.out(f"  {prompt}", hang=1)
    if logged.silence is not None:
        render.out(
            f"  {render.paint('no whisper:', 'yellow')} {render.line(SILENCES.get(logged.silence, logged.silence))}"
        )
    for memory in logged.memories:
        how = WORDS["listed"].get(memory.shown, "") + (WORDS["listed"]["heeded"] if memory.heeded else "")
        title = "(gone by now)" if memory.title is None else render.line(memory.title)
        render.out(f"  {render.paint(memory.short_id, 'bold')}  {title}{how}", hang=10)


@click.command(
    cls=Verb,
    context_settings={"ignore_unknown_options": True},  # -1 is an argument
    short_help="Say whether a whispered memory was useful.",
    example="ormahctl feedback 97acbe8e +1\normahctl feedback 97acbe8e -1",
)
@click.argument("node_id", metavar="ID")
@click.argument("signal", type=click.Choice(["+1", "-1"]), metavar="+1|-1")
@click.option("--explicit", is_flag=True, help="A person says so, not only the agent that passes it on: weighs more.")
@click.option(
    "--event", metavar="EVENT", help="The whisper to judge, also a silent one. Default: the last one of this session."
)
@pass_session
def feedback(session: Session, node_id: str, signal: str, explicit: bool, event: str | None) -> None:
    """Say whether the memory ID was useful (+1) or not (-1) for a prompt, or would have been.

    From now on it is whispered for prompts like this, or not. `ormahctl undo` undoes the judgement.
    """
    source = "explicit" if explicit or session.agent == PERSON else "implicit"
    params = api.FeedbackParams(node_id=node_id, signal=int(signal), source=source, event=event)
    done = session.client.call("agent.feedback", params, api.FeedbackResult)
    if session.json:
        render.emit(done)
        return
    render.out(render.line(done.text))
    if done.commit:
        render.out(f"  undo: ormahctl undo {done.commit[:8]}")
