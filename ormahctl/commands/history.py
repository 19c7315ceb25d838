"""`ormahctl history`: what was changed, by whom, when."""

from __future__ import annotations

import click

from ormahctl import render
from ormahctl.commands.looking_back import show_life, show_op
from ormahctl.complete import NodeId, Op, Words
from ormahctl.options import Job, OneOf
from ormahctl.registry import Verb
from ormahctl.session import Session, pass_session
from ormahctl.times import Until, When
from ormahd.api import (
    HistoryParams,
    HistoryResult,
    LifeParams,
    LifeResult,
    OpResult,
    ShowOpParams,
    ShowOpResult,
)

KINDS = (
    "init", "remember", "update", "forget", "outdated", "link", "feedback", "merge", "consolidate", "cluster", "conflict",
    "decay", "promote", "strength", "adopt", "edit", "undo", "import", "ingest", "sync", "purge", "release", "space",
)  # fmt: skip


@click.command(
    cls=Verb,
    short_help="What was changed, newest first.",
    example="ormahctl history --since yesterday\normahctl history 97acbe8e\normahctl history show 1a2b3c4d\n"
    "ormahctl history --job duplicate_merger",
)
@click.argument("words", metavar="[ID | show OP]", nargs=-1, type=Words({"show": Op()}, NodeId()))
@click.option("--job", type=Job(), metavar="NAME", help="Only what this job did.")
@click.option("--run", metavar="RUN", help="Only what belongs to this run (of a job, of an import).")
@click.option("--since", type=When(), help="Only since then: 2026-11-21, 'last week', 7d, 12h.")
@click.option(
    "--before",
    type=Until(),
    metavar="WHEN|OP",
    help="Only until then (a day is included); or before an op: the next page.",
)
@click.option("--kind", type=OneOf(KINDS), metavar="KIND", help="Only changes of this kind, such as edit or merge.")
@click.option("--no-diff", is_flag=True, help="With an ID: the list alone, without what changed.")
@click.option(
    "-n", "--limit", type=click.IntRange(1, 10_000), metavar="N", default=50, show_default=True, help="At most so many."
)
@pass_session
def history(
    session: Session,
    words: tuple[str, ...],
    job: str | None,
    run: str | None,
    since: str | None,
    before: str | None,
    kind: str | None,
    no_diff: bool,
    limit: int,
) -> None:
    """List the changes to the vault, newest first; or the versions of the memory ID; or show one change.

    Each line of the list: when, commit, kind, who, what. With an ID (also of a memory that is forgotten): every version of
    it with who, when, why and what changed. `show OP` takes an op or a commit and tells everything that it did.
    """
    narrowed = any(value is not None for value in (job, run, since, before, kind))
    if words[:1] == ("show",):
        if len(words) != 2 or narrowed:
            raise click.UsageError("show takes one op or commit, and no filter", click.get_current_context())
        shown = session.client.call("history.show", ShowOpParams(op=words[1], limit=limit), ShowOpResult)
        if session.json:
            render.emit(shown)
        else:
            show_op(shown)
        return
    if len(words) > 1:
        raise click.UsageError("give one ID, or: show OP", click.get_current_context())
    node_id = words[0] if words else None
    if node_id is not None and not (job or run or kind or no_diff):
        life = LifeParams(node_id=node_id, since=since, before=before, limit=limit)
        found = session.client.call("history.life", life, LifeResult)
        if session.json:
            render.emit(found.versions)
        else:
            show_life(found, limit)
        return
    params = HistoryParams(node_id=node_id, job=job, run=run, since=since, before=before, kind=kind, limit=limit)
    ops = session.client.call("history.list", params, HistoryResult).ops
    if session.json:
        render.emit(ops)
        return
    for op in ops:
        _print(op)
    if not ops:
        render.note("nothing was changed that fits")
    elif len(ops) == limit:
        oldest = ops[-1].op or ops[-1].commit
        render.note(f"there may be more; the next page: --before {oldest}")


def _print(op: OpResult) -> None:
    undone = render.paint("  (undone)", "yellow") if op.undone_by else ""
    kind = render.pad(render.line(op.kind or "-"), 11)
    who = render.pad(render.cut(render.line(op.source), 24), 18)
    commit = render.paint(op.commit[:8], "dim")
    render.row(f"{render.moment(op.time)}  {commit}  {kind} {who} ", render.line(op.subject), tail=undone)
