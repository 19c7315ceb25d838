"""`ormahctl proposals`: what the jobs would like to do and leave to you; look, approve, reject."""

from __future__ import annotations

import sys
from typing import NamedTuple

import click

from ormahctl import render
from ormahctl.complete import ProposalId, Words
from ormahctl.options import OneOf, Unknown
from ormahctl.registry import Verb
from ormahctl.session import Session, pass_session
from ormahd.api import (
    ProposalRow,
    ProposalsParams,
    ProposalsResult,
    ResolveProposalParams,
    ResolveProposalResult,
)
from ormahd.rpc.wire import BadRequest, NotFound, OrmahError

DOES = {"approve": "approved", "reject": "rejected"}
KEPT = ("newer", "older", "both")
STATUSES = ("pending", "approved", "rejected", "stale", "all")
DECLINED = 1
LINES = 8
"""Lines of a preview that are shown; all of it: --json."""
SECONDS = 120.0
"""A decision is one commit, which waits some seconds where somebody else holds git."""


@click.command(
    cls=Verb,
    short_help="What the jobs leave to you: list, approve, reject.",
    example="ormahctl proposals\normahctl proposals approve 1f3a9c2e --keep newer\normahctl proposals approve 1f3a9c2e --edit\normahctl proposals reject 1f3a9c2e 77b0d412",
)
@click.argument("words", metavar="[approve|reject ID...]", nargs=-1, type=Words(dict.fromkeys(DOES, ProposalId())))
@click.option("--status", type=OneOf(STATUSES), help="Which ones (pending).")
@click.option("--all", "everything", is_flag=True, help="Also those that were decided on, or are stale.")
@click.option("--type", "kind", type=OneOf(["merge", "conflict", "decay"]), help="Only of this type.")
@click.option(
    "--keep",
    type=OneOf(KEPT),
    help="With approve: whose words hold; both: both do, and nothing of the kind is proposed again.",
)
@click.option("--edit", is_flag=True, help="With approve and one ID: write the text that stays in your editor.")
@click.option(
    "-n", "--limit", type=click.IntRange(1, 1000), metavar="N", default=200, show_default=True, help="How many at most."
)
@pass_session
def proposals(
    session: Session, words: tuple[str, ...], status: str | None, everything: bool, kind: str | None, keep: str | None,
    edit: bool, limit: int,
) -> int:  # fmt: skip
    """List what the jobs propose, newest first, each with what it would come to; or decide on some.

    An approved change is a commit like any other, and `ormahctl undo` takes it back. What is rejected is not proposed again
    while the memories say what they say; undone, the proposal is open again. With `--keep` you choose whose words hold, with
    `--edit` you write them yourself.
    """
    context = click.get_current_context()
    if words:
        if words[0] not in DOES:
            raise Unknown(words[0], DOES, None, context)
        if len(words) < 2:
            raise click.UsageError("give nothing, or: approve ID..., reject ID...", context)
        if status or everything or kind:
            raise click.UsageError("--status, --all and --type belong to the list", context)
        if (keep or edit) and words[0] != "approve":
            raise click.UsageError("--keep and --edit belong to: approve ID", context)
        if edit and (keep == "both" or len(words) > 2):
            raise click.UsageError("--edit is for one ID, of which one text stays", context)
        choice = Choice(keep)
        if edit:
            written = _written(session, words[1], keep)
            if written is None:
                render.note("the text is empty; nothing was done")
                return DECLINED
            choice = written
        return _decide(session, DOES[words[0]], words[1:], choice)
    if keep or edit:
        raise click.UsageError("--keep and --edit belong to: approve ID", context)
    if status and everything:
        raise click.UsageError("--status and --all exclude each other", context)
    wanted = "all" if everything else status or "pending"
    found = session.client.call(
        "agent.proposals", ProposalsParams(status=wanted, type=kind, limit=limit), ProposalsResult
    )
    if session.json:
        render.emit(found.proposals)
        return 0
    for row in found.proposals:
        _print(row)
    sys.stdout.flush()
    if not found.proposals:
        render.out("no proposal waits for you" if wanted == "pending" else "there is none")
    elif any(row.status == "pending" for row in found.proposals):
        render.note("ormahctl proposals approve ID, or reject ID", label="hint", colour="cyan")
    if found.behind:
        render.note(f"{found.behind:,} more wait behind these, and come up when some were decided on")
    return 0


def _print(row: ProposalRow) -> None:
    state = "" if row.status == "pending" else f"  {row.status}"
    if row.resolved and row.status != "pending":
        state += f" {render.moment(row.resolved)}" + (f" by {render.line(row.resolved_by)}" if row.resolved_by else "")
    head = f"{render.paint(row.short_id, 'bold')}  {render.pad(row.type, 8)}  {render.line(row.proposed_action)}"
    render.out(head + (render.paint(state, "yellow") if state else ""))
    if row.reason:
        render.out(f"  {render.line(row.reason)}")
    if row.evidence:
        said = ", ".join(f"{name.replace('_', ' ')} {_value(value)}" for name, value in row.evidence.items())
        render.out(render.paint(f"  {render.line(said)}", "dim"))
    there = {node.id: node for node in row.nodes}
    for node_id in row.source_nodes:
        node = there.get(node_id)
        if node is None:
            render.out(f"  {node_id[:8]}  (gone)")
        else:
            name = render.line(node.title or node.content)
            where = f"{node.type}, {node.space or 'global'}, {render.moment(node.created, day=True)}"
            render.out(f"  {node.short_id}  {render.cut(name, 70)}  {render.paint(render.line(where), 'dim')}")
    lines = render.safe(row.preview).splitlines()
    for line in lines[:LINES]:
        render.out(f"  | {line}".rstrip(), hang=2)
    if len(lines) > LINES:
        render.out(f"  | … {len(lines) - LINES:,} lines more")
    render.out()


def _value(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.2f}"
    if isinstance(value, list):
        return ", ".join(map(_value, value))
    return str(value)


class Choice(NamedTuple):
    """How it is approved: whose words hold, or the title and text that are to stay."""

    keep: str | None = None
    title: str | None = None
    content: str | None = None


def _written(session: Session, proposal_id: str, keep: str | None) -> Choice | None:
    """The text that stays, as the person's editor leaves it; None: an empty one."""
    found = session.client.call("agent.proposals", ProposalsParams(limit=1000), ProposalsResult).proposals
    rows = [row for row in found if row.id.startswith(proposal_id.strip().casefold())]
    if len(rows) != 1:
        raise NotFound(f"no pending proposal has the id '{proposal_id[:60]}'", hint="see: ormahctl proposals")
    title, content = rows[0].title, rows[0].content
    if keep is not None and len(rows[0].nodes) == 2:
        older, newer = sorted(rows[0].nodes, key=lambda node: (node.created, node.id))
        title, content = (newer.title, newer.content) if keep == "newer" else (older.title, older.content)
    if content is None:
        raise BadRequest("it leaves no text to edit", hint="approve or reject it as it is")
    text = click.edit((f"# {title}\n\n" if title else "") + content + "\n", extension=".md", require_save=False) or ""
    head, _, rest = text.partition("\n")
    if title and head.startswith("# "):
        title, text = head[2:].strip(), rest
    return Choice(keep, title, text.strip("\n")) if text.strip() else None


def _decide(session: Session, action: str, ids: tuple[str, ...], choice: Choice) -> int:
    """Each by itself: one that cannot be decided on does not keep the others from it. The first failure is the command's."""
    done: list[ResolveProposalResult] = []
    failed: list[OrmahError] = []
    for one in dict.fromkeys(ids):
        params = ResolveProposalParams(
            proposal_id=one, action=action, keep=choice.keep, title=choice.title, content=choice.content
        )
        try:
            made = session.client.call("agent.resolve_proposal", params, ResolveProposalResult, timeout=SECONDS)
        except OrmahError as exc:
            failed.append(exc)
            continue
        done.append(made)
        if not session.json:
            _told(made)
    if session.json and done:
        render.emit(done)
    sys.stdout.flush()
    for other in failed[1:]:
        render.note(other.message, label="error", colour="red")
    if failed:
        raise failed[0]
    return 0


def _told(done: ResolveProposalResult) -> None:
    render.out(render.line(done.text))
    if done.commit:
        render.out(f"  to take it back: ormahctl undo {done.commit[:8]}")
    elif done.stored:
        render.note("git is busy; it is safe, and its commit follows by itself")
