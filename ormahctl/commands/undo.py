"""`ormahctl undo`: undo changes."""

from __future__ import annotations

import difflib
import sys
from collections import Counter
from collections.abc import Sequence

import click
import msgspec

from ormahctl import render
from ormahctl.commands.history import print_op
from ormahctl.options import DAYS
from ormahctl.registry import Verb
from ormahctl.session import Session, interactive, pass_session
from ormahctl.times import When
from ormahd import api
from ormahd.rpc.wire import BadRequest, Conflict, NotFound

CONFLICT = Conflict.exit_status
MAX_LISTED = 20
"""Number of changed notes listed for one op."""
DECLINED = 1
DID = {"merged": "merged with later edits"}
NEVER = {"init", "purge", "strength"}
"""Kinds of changes that `undo` without an argument passes over: they cannot be undone, or a person never made them."""
LOOKED_AT = 50
"""Number of the newest changes among which `undo` without an argument finds the last one."""
CHANGED = 5
"""Number of files whose differences are shown before the question."""
LINES = 12
"""Number of changed lines shown for each side of a conflict."""


@click.command(
    cls=Verb,
    short_help="Undo a change; later edits are kept.",
    example="ormahctl undo\normahctl undo c04131a3\normahctl undo --run c04131a3\n"
    "ormahctl undo --job auto_linker --since yesterday",
    excludes=[("--run", "--job", "--since")],
)
@click.argument("commits", metavar="[COMMIT]...", nargs=-1)
@click.option(
    "--run", metavar="COMMIT", help="Undo all changes of the run (of a job, an import, an undo) that it is in."
)
@click.option("--job", metavar="NAME", help="Undo all that this job did; needs --since.")
@click.option("--since", type=When(), help=f"With --job: since {DAYS}.")
@click.option("--force", is_flag=True, help="Also remove notes that were added and edited since; git keeps them.")
@click.option("--dry-run", is_flag=True, help="Say what undoing each change by itself would do, and change nothing.")
@pass_session
def undo(
    session: Session,
    commits: tuple[str, ...],
    run: str | None,
    job: str | None,
    since: str | None,
    force: bool,
    dry_run: bool,
) -> int:
    """Undo each COMMIT that `ormahctl history` lists. Without one: show the last change, and ask whether to undo it.

    Later edits are kept. If they conflict, nothing is changed and the versions are shown. An undo can be undone too.
    """
    # which changes
    if commits and (run or job):
        raise click.UsageError(f"a COMMIT and {'--run' if run else '--job'} exclude each other")
    if (job is None) != (since is None):
        raise click.UsageError("--job and --since go together")
    if not (commits or run or job):
        last = _confirmed_last_change(session)
        if last is None:
            return DECLINED
        commits = (last,)
    run = run and _run_of(session, run)
    params = api.UndoParams(ops=list(commits), run=run, job=job, since=since, force=force, dry_run=dry_run)

    # undo them
    try:
        done = session.follow("undoing", "history.undo", params, api.UndoResult, timeout=None)
    except Conflict as exc:
        conflicts = msgspec.convert(exc.data.get("conflicts", []), list[api.UndoConflict])
        if conflicts and not session.json:
            _print_conflicts(conflicts)
        raise
    if session.json:
        render.emit(done)
        return CONFLICT if done.conflicts else 0

    # what was undone and skipped
    for op in done.undone:
        _print_undone(op)
    if done.run and len(done.undone) > 1 and not dry_run:
        again = f"ormahctl undo --run {done.undone[0].commit[:8]}"
        render.note(f"to redo all of it: {again}", label="hint")
    for why, number in Counter(op.why for op in done.skipped).items():
        render.note(f"{render.count(number, 'change')} passed over: {why}")
    if not (done.undone or done.skipped or done.conflicts):
        render.note("there was nothing to undo")
    if not done.conflicts:
        return 0

    # what was refused
    _print_conflicts(done.conflicts)
    refused = render.count(len({conflict.op for conflict in done.conflicts}), "change was", "changes were")
    render.note(f"{refused} left alone, because of later ones", label="error")
    hint = "edit the memories by hand (ormahctl edit ID), or undo the later changes first, and repeat"
    render.note(hint, label="hint")
    return CONFLICT


def _confirmed_last_change(session: Session) -> str | None:
    """Print the last change that can be undone, and ask whether to undo it. Return its commit; None if the person
    declines, or if there is no such change.

    Raises:
        BadRequest: nobody can be asked; the hint is the command to type.
    """
    newest = session.client.call("history.list", api.HistoryParams(limit=LOOKED_AT), api.HistoryResult).ops
    found = next((op for op in newest if op.op and op.undone_by is None and op.kind not in NEVER), None)
    if found is None:
        render.note("there was nothing to undo")
        return None
    if session.json or not interactive():
        raise BadRequest(
            f"say which change to undo; the last one is {found.commit[:8]}, {render.line(found.subject)}",
            hint=f"ormahctl undo {found.commit[:8]}",
        )
    op = session.client.call("history.show", api.ShowOpParams(op=found.commit, limit=CHANGED), api.ShowOpResult)
    print_op(op)
    return found.commit if click.confirm("Undo it?", err=True) else None


def _run_of(session: Session, commit: str) -> str:
    """Return the id of the run that the commit `commit` belongs to. If no change has that name, it counts as the id
    of a run itself.

    Raises:
        BadRequest: the change belongs to no run.
    """
    try:
        found = session.client.call("history.show", api.ShowOpParams(op=commit, limit=1), api.ShowOpResult)
    except NotFound:
        return commit
    if found.run is None:
        raise BadRequest(
            f"{commit} is a change of its own, and in no run", hint=f"to undo it: ormahctl undo {found.commit[:8]}"
        )
    return found.run


def _print_undone(done: api.UndoneOp) -> None:
    """Print one undone change, the command that redoes it, and what was done to each note."""
    word, redo = ("undone", f", redo: ormahctl undo {done.commit[:8]}") if done.commit else ("would be undone:", "")
    render.out(f"{word} {render.paint(render.line(done.subject).rstrip('.'), 'bold')}{redo}")
    for change in done.changes[:MAX_LISTED]:
        name = render.paint(change.node_id[:8] if change.node_id else "-", "dim")
        render.out(f"  {DID.get(change.did, change.did)}: {name}  {render.line(change.title or change.path)}")
    if len(done.changes) > MAX_LISTED:
        render.out(f"  and {len(done.changes) - MAX_LISTED:,} more")


# Conflicts, on stderr: what changed since the op, and what undoing it would change


def _print_conflicts(conflicts: Sequence[api.UndoConflict]) -> None:
    """Print on stderr, for each conflict, what changed since the op, and what undoing the op would change."""
    printed_note = None
    for conflict in conflicts:
        if (conflict.op, conflict.path) != printed_note:
            printed_note = conflict.op, conflict.path
            title = render.paint(render.line(conflict.title or conflict.path), "bold", sys.stderr)
            render.aside(
                f"{title}  {conflict.node_id[:8] if conflict.node_id else ''}  {render.line(conflict.path)}".rstrip()
            )
        render.aside(f"  {render.line(conflict.what)}")
        for label, text in (("since the op", conflict.ours), ("undoing it", conflict.theirs)):
            if text == conflict.base:
                continue
            render.aside(f"    {label}:")
            lines = ["- the note"]  # this side has removed it
            if text is not None:
                diff = difflib.unified_diff((conflict.base or "").splitlines(), text.splitlines(), lineterm="", n=0)
                lines = [f"{line[0]} {line[1:]}" for line in diff if not line.startswith(("---", "+++", "@@"))]
            for line in lines[:LINES]:
                colour = "green" if line[0] == "+" else "red"
                render.aside("      " + render.paint(render.safe(line), colour, sys.stderr))
            if len(lines) > LINES:
                render.aside(f"      … {render.count(len(lines) - LINES, 'more line')}")
    render.aside("")
