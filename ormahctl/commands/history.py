"""`ormahctl history`: what was changed, by whom, when."""

from __future__ import annotations

import click

from ormahctl import render
from ormahctl.options import When
from ormahctl.session import Session, pass_session
from ormahctl.verbs import Verb
from ormahd.rpc.schema import HistoryParams, HistoryResult, OpResult

KINDS = (
    "init", "remember", "update", "forget", "outdated", "link", "feedback", "merge", "consolidate", "cluster", "conflict",
    "decay", "promote", "strength", "adopt", "edit", "undo", "import", "ingest", "sync", "purge",
)  # fmt: skip


@click.command(
    cls=Verb,
    short_help="What was changed, newest first.",
    example="ormahctl history --since yesterday\normahctl history 97acbe8e\normahctl history --job duplicate_merger",
)
@click.argument("node_id", metavar="[ID]", required=False)
@click.option("--job", metavar="NAME", help="Only what this job did.")
@click.option("--since", type=When(), help="Only since then: 2026-11-21, yesterday, 7d, 12h.")
@click.option(
    "--kind", type=click.Choice(KINDS), metavar="KIND", help="Only changes of this kind, such as edit or merge."
)
@click.option("--limit", type=click.IntRange(1, 10_000), default=50, show_default=True, help="At most so many.")
@pass_session
def history(
    session: Session, node_id: str | None, job: str | None, since: str | None, kind: str | None, limit: int
) -> None:
    """List the changes to the vault, or to the memory ID, newest first.

    Each line: when, kind, who, what, and the commit (`git show` in the vault tells all of it).
    """
    params = HistoryParams(node_id=node_id, job=job, since=since, kind=kind, limit=limit)
    ops = session.client.call("history.list", params, HistoryResult).ops
    if session.json:
        render.emit(ops)
        return
    for op in ops:
        _print(op)
    if not ops:
        render.note("nothing was changed that fits")
    elif len(ops) == limit:
        render.note(f"there may be more; these are the newest {limit} (--limit)")


def _print(op: OpResult) -> None:
    undone = render.paint("  (undone)", "yellow") if op.undone_by else ""
    kind = render.pad(render.line(op.kind or "-"), 11)
    who = render.pad(render.cut(render.line(op.source), 24), 18)
    commit = render.paint(op.commit[:8], "dim")
    render.out(f"{render.moment(op.time)}  {commit}  {kind} {who} {render.line(op.subject)}{undone}")
