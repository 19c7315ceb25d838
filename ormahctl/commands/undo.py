"""`ormahctl undo`: undo ops, or parts of one."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click
import msgspec

from ormahctl import render
from ormahctl.options import JobName, OpName
from ormahctl.registry import Verb
from ormahctl.render import Bar
from ormahctl.session import Session, pass_session
from ormahctl.times import When
from ormahd.api import UndoConflict, UndoneOp, UndoParams, UndoResult
from ormahd.rpc.wire import Conflict

CONFLICT = Conflict.exit_status
SHOWN = 20
"""Number of changed notes listed for one op."""
DID = {"merged": "merged with later edits"}
LINES = 12
"""Number of changed lines shown for each side of a conflict."""


@click.command(
    cls=Verb,
    short_help="Undo changes; later edits are kept.",
    example="ormahctl undo 79f27598\normahctl undo --job auto_linker --since yesterday",
    excludes=[("--run", "--job", "--since")],
    needs={"--job": ["--since"], "--since": ["--job"]},
)
@click.argument("ops", metavar="[OP]...", nargs=-1, type=OpName())
@click.option("--run", metavar="RUN", help="Undo all of this run (of a job, an import or an undo).")
@click.option(
    "--job", shell_complete=JobName().shell_complete, metavar="NAME", help="Undo all that this job did; needs --since."
)
@click.option("--since", type=When(), help="With --job: since 2026-11-21, 'last week', 7d, 12h.")
@click.option(
    "--force", is_flag=True, help="Also remove notes that the OP added and that were edited since; git keeps them."
)
@pass_session
def undo(
    session: Session,
    ops: tuple[str, ...],
    run: str | None,
    job: str | None,
    since: str | None,
    force: bool,
) -> int:
    """Undo each OP (or commit) that `ormahctl history` lists, newest first, each in a commit of its own.

    A memory that was not edited since gets its old text back, byte for byte; later edits are kept. If they conflict,
    nothing is changed and the versions are shown. An undo can be undone too.
    """
    context = click.get_current_context()
    if ops and (run or job):
        raise click.UsageError(f"an OP and {'--run' if run else '--job'} exclude each other", context)
    params = UndoParams(ops=list(ops), run=run, job=job, since=since, force=force)

    try:
        with Bar("undoing") as bar:
            done = session.client.call(
                "history.undo", params, UndoResult, timeout=None, on_progress=lambda step: bar.set(step.done, step.total)
            )  # fmt: skip
    except Conflict as exc:
        if not session.json and (conflicts := _conflicts(exc.data)):
            _show(conflicts)
        raise
    if session.json:
        render.emit(done)
        return CONFLICT if done.conflicts else 0
    for one in done.undone:
        _undone(one)
    if done.run and len(done.undone) > 1:
        render.note(f"to take all of this back: ormahctl undo --run {done.run}", label="hint", colour="cyan")
    _skipped(done)
    if not done.conflicts:
        return 0
    _left_alone(done)
    return CONFLICT


def _left_alone(done: UndoResult) -> None:
    """Print the conflicts of an undo, and which ops were not undone because of them."""
    _show(done.conflicts)
    left = dict.fromkeys(conflict.op[:8] for conflict in done.conflicts)
    was = "op was" if len(left) == 1 else "ops were"
    render.note(
        f"{len(left)} {was} left alone, because of later changes: {', '.join(left)}",
        label="error",
        colour="red",
    )
    hint = "edit the memories by hand (ormahctl edit ID), or undo the later changes first, and repeat"
    render.note(hint, label="hint", colour="cyan")


def _undone(done: UndoneOp) -> None:
    render.out(f"undone  {render.paint(render.line(done.subject), 'bold')}")
    for change in done.changes[:SHOWN]:
        name = render.paint(change.node_id[:8] if change.node_id else "-", "dim")
        did = DID.get(change.did, change.did)
        render.out(f"  {did}: {name}  {render.line(change.title or change.path)}")
    if len(done.changes) > SHOWN:
        render.out(f"  and {len(done.changes) - SHOWN:,} more")
    render.out(f"  to take this back: ormahctl undo {done.commit[:8]}")


def _skipped(done: UndoResult) -> None:
    for why in dict.fromkeys(one.why for one in done.skipped):
        number = sum(one.why == why for one in done.skipped)
        render.note(f"{render.count(number, 'op')} passed over: {why}")
    if not (done.undone or done.skipped or done.conflicts):
        render.note("there was nothing to undo")


# Conflicts, on stderr: the text after the op, today's text, and the text before the op


def _show(conflicts: Sequence[UndoConflict]) -> None:
    before = None
    for one in conflicts:
        if (one.op, one.path) != before:
            before = one.op, one.path
            title = render.paint(render.line(one.title or one.path), "bold", sys.stderr)
            _say(f"{title}  {one.node_id[:8] if one.node_id else ''}  {render.line(one.path)}".rstrip())
        _say(f"  {render.line(one.what)}")
        _versions(one)
    _say("")


def _versions(one: UndoConflict) -> None:
    if one.base is one.ours is one.theirs is None:
        return
    texts = (one.base, one.ours, one.theirs)
    if one.field not in {"note", "content", "text"} and not any("\n" in text for text in texts if text):
        for label, text in (("the op left", one.base), ("today", one.ours), ("before the op", one.theirs)):
            _say(f"    {render.pad(label, 15)}{'(nothing)' if text is None else render.line(text)}")
        return
    for label, to, gone in (
        ("since the op", one.ours, "the note was removed"), ("undoing it", one.theirs, "the note would be removed")
    ):  # fmt: skip
        _say(f"    {label}:")
        if to is None:
            _say(f"      {gone}")
            continue
        lines = list(_differences(one.base or "", to))
        for line in lines[:LINES]:
            _say("      " + render.paint(render.safe(line), "green" if line[0] == "+" else "red", sys.stderr))
        if len(lines) > LINES:
            _say(f"      … {render.count(len(lines) - LINES, 'more line')}")


def _differences(old: str, new: str) -> Iterator[str]:
    for line in difflib.unified_diff(old.splitlines(), new.splitlines(), lineterm="", n=0):
        if not line.startswith(("---", "+++", "@@")):
            yield f"{line[0]} {line[1:]}"


def _say(text: str) -> None:
    render.aside(text)


def _conflicts(data: Mapping[str, Any]) -> list[UndoConflict]:
    return msgspec.convert(data.get("conflicts", []), list[UndoConflict])
