"""`ormahctl review`: one queue of what waits for a person: proposals, contradictions, conflicts of a sync, findings.

On a terminal each item is shown and answered with one key. Elsewhere the queue is listed. `approve` and `reject` decide on
proposals without a terminal.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import click

from ormahctl import render
from ormahctl.commands import health
from ormahctl.commands.sync import print_conflict
from ormahctl.options import OneOf, Unknown
from ormahctl.registry import Verb
from ormahctl.session import Session, interactive, pass_session
from ormahd import api
from ormahd.rpc.wire import OrmahError

DECISIONS = {"approve": "approved", "reject": "rejected"}
KEEP_CHOICES = ("newer", "older", "both")
MAX_LISTED = 200
"""Largest number of proposals, and of contradictions, in one review: more than a person decides on at a time."""
LINES = 8
"""Lines of a preview that are shown; `--json` has all."""
SNIPPET = 160
"""Characters of a memory in a contradiction that are shown."""
SECONDS = 120.0
"""Seconds that a decision may take: it is one commit, which waits if another program holds git."""


@click.command(
    cls=Verb,
    short_help="Decide on what waits for you.",
    example="ormahctl review\normahctl review approve 1f3a9c2e --keep newer\normahctl review reject 1f3a9c2e 77b0d412",
)
@click.argument("words", metavar="[approve|reject ID...]", nargs=-1)
@click.option("--keep", type=OneOf(KEEP_CHOICES), help="With approve: which memory's text holds. both: both hold.")
@pass_session
def review(session: Session, words: tuple[str, ...], keep: str | None) -> int:
    """Go through what waits for you: changes that jobs propose, contradictions, texts that two machines changed at once,
    and problems. On a terminal one key decides on each; otherwise they are listed.

    `approve` and `reject` decide on proposals by their ids. `ormahctl undo` undoes an approved change. A rejected change
    is not proposed again until one of its memories is edited.
    """
    # with words: decide on proposals
    if words and words[0] not in DECISIONS:
        raise Unknown(words[0], DECISIONS, None, None)
    if len(words) == 1:
        raise click.UsageError("give nothing, or: approve ID..., reject ID...")
    if keep and words[:1] != ("approve",):
        raise click.UsageError("--keep belongs to: approve ID")
    if words:
        return _decide(session, DECISIONS[words[0]], words[1:], keep)

    # without: all that waits
    queue = _read_queue(session)
    if session.json:
        fields = {"proposals": queue.proposals, "contradictions": queue.tensions, "conflicts": queue.conflicts}
        render.emit(fields | {"findings": queue.findings})
    elif interactive() and sys.stdout.isatty():
        _go_through(session, queue)
    else:
        _print_queue(queue)
    return 0


_Item = api.ProposalRow | api.Tension | api.ConflictItem | api.Finding


@dataclass
class _Queue:
    """What waits for a person. `unlisted_count`: the number of proposals beyond `proposals`, which are listed once
    some of these are decided on."""

    proposals: list[api.ProposalRow]
    unlisted_count: int
    tensions: list[api.Tension]
    conflicts: list[api.ConflictItem]
    findings: list[api.Finding]

    @property
    def items(self) -> list[_Item]:
        """All items in the order in which they are shown."""
        return [*self.proposals, *self.tensions, *self.conflicts, *self.findings]


def _read_queue(session: Session) -> _Queue:
    """Return what waits for the person. Contradictions that were settled are left out, and findings of the level
    `info`, because nothing has to be done about them."""
    asked = session.client.call("agent.proposals", api.ProposalsParams(limit=MAX_LISTED), api.ProposalsResult)
    beliefs = session.client.call("agent.insights", api.InsightsParams(limit=MAX_LISTED), api.InsightsResult)
    conflicts = session.client.call("admin.sync_conflicts", api.NoParams(), api.ConflictsResult).conflicts
    found = health.examine(session, fix=False)
    tensions = [tension for tension in beliefs.tensions if not tension.settled]
    findings = [finding for finding in found if finding.level != "info"]
    return _Queue(asked.proposals, asked.behind, tensions=tensions, conflicts=conflicts, findings=findings)


def _print_queue(queue: _Queue) -> None:
    """Print all items, with the command that decides on them: for a review that cannot ask, as there is no terminal."""
    for item in queue.items:
        _print_item(item)
        if isinstance(item, api.ConflictItem):
            name = render.safe(shlex.quote(item.node or item.path))
            render.out(f"  put it right, then: ormahctl sync --resolve {name}")
            render.out()
    if not queue.items:
        render.out("nothing waits for you")
    sys.stdout.flush()
    if queue.proposals:
        render.note("ormahctl review approve ID, or reject ID", label="hint")
    if queue.unlisted_count:
        render.note(f"{render.count(queue.unlisted_count, 'more proposal')} behind these")


# ---------------------------------------------------------------- one key an item

QUIT, SKIP = "q", "s"


def _go_through(session: Session, queue: _Queue) -> None:
    """Show each item, and do what the person's key says, until all were shown or the person quits."""
    if not queue.items:
        render.out("nothing waits for you")
    for number, item in enumerate(queue.items, 1):
        render.out(render.paint(f"{number} of {len(queue.items)}", "dim"))
        _print_item(item)
        key = _ask_key(_answers(item))
        if key == QUIT:
            return
        try:
            _carry_out(session, item, key)
        except OrmahError as exc:  # the next item may be decided on all the same
            render.note(exc.message, label="error")
        render.out()


def _print_item(item: _Item) -> None:
    """Print one item, as is usual for its kind."""
    match item:
        case api.ProposalRow():
            _print_proposal(item)
        case api.Tension():
            _print_tension(item)
        case api.ConflictItem():
            print_conflict(item)
        case api.Finding():
            health.print_findings([item])


def _answers(item: _Item) -> dict[str, str]:
    """Return `{key on the keyboard: what it does, in words}` for an item. Every item can be skipped."""
    answers: dict[str, str] = {}
    match item:
        case api.ProposalRow():
            action = item.proposed_action
            answers["y"] = f"{action[:1].lower()}{render.cut(render.line(action[1:]), 76)}"
            answers["n"] = "leave all as it is, and do not ask again"
            if item.content is not None and len(item.nodes) == 2:
                answers["o"] = "keep the older text"
            if item.content is not None:
                answers["e"] = "edit the text"
        case api.Tension():
            answers = {"1": "the first holds", "2": "the second holds", "b": "both hold"}
        case api.ConflictItem():
            answers = {"y": "the note is right as it is in the vault"}
    return answers | {SKIP: "skip"}


def _ask_key(answers: Mapping[str, str]) -> str:
    """Print the keys with what they do, and wait until one of them is pressed. Return that key: one of `answers`, or
    `QUIT`. Enter and the space bar count as `SKIP`.

    Raises:
        KeyboardInterrupt: Ctrl-C or Ctrl-D was pressed.
    """
    offered = ", ".join(f"{render.paint(key, 'bold')} {what}" for key, what in answers.items())
    render.out(f"{offered}, {render.paint(QUIT, 'bold')} quit")
    while True:
        key = click.getchar().lower()
        if key in answers or key == QUIT:
            return key
        if key in "\r\n ":
            return SKIP
        if key in "\x03\x04":
            raise KeyboardInterrupt


def _carry_out(session: Session, item: _Item, key: str) -> None:
    """Do for an item what `key` means (`_answers`), and print the result. Does nothing for `SKIP`."""
    match item, key:
        case api.ProposalRow(), "e":
            title, content = _edit_text(item)
            if content:
                _print_decision(_resolve(session, item.id, "approved", title=title, content=content))
            else:
                render.note("the text is empty; nothing was done")
        case api.ProposalRow(), "y" | "n" | "o":
            keep = "older" if key == "o" else None
            _print_decision(_resolve(session, item.id, "rejected" if key == "n" else "approved", keep=keep))
        case api.Tension(), "1" | "2":
            valid, other = (item.a, item.b) if key == "1" else (item.b, item.a)
            outdated = api.OutdatedParams(node_id=other.id, by=valid.id)
            _print_write(session.client.call("agent.outdated", outdated, api.WriteResult), "outdated")
        case api.Tension(), "b":
            for source, target in ((item.a, item.b), (item.b, item.a)):
                edge = api.ConnectParams(source_id=source.id, target_id=target.id, edge="contradicts", remove=True)
                done = session.client.call("agent.connect", edge, api.WriteResult)
                if done.changed:
                    _print_write(done, "no contradiction any more")
        case api.ConflictItem(), "y":
            resolved = api.ResolveConflictParams(name=item.path)
            session.client.call("admin.sync_resolve", resolved, api.ResolveConflictResult)
            render.out(f"settled {render.line(item.path)}")


def _print_write(done: api.WriteResult, what: str) -> None:
    """Print one line about a write: what was done (`what`), to which memory, and how to undo it."""
    back = f", undo: ormahctl undo {done.commit[:8]}" if done.commit else ""
    render.out(f"{what}: {done.short_id}{back}")


# ---------------------------------------------------------------- proposals


def _decide(session: Session, action: str, ids: Sequence[str], keep: str | None) -> int:
    """Approve or reject each proposal of `ids`, as `action` says: `approved` or `rejected`. Return 0, the exit
    status.

    Each is a call of its own, so that one failure does not affect the others. The first failure is raised at the
    end, and the others are printed. `keep`: whose text a merge keeps.
    """
    done: list[api.ResolveProposalResult] = []
    failed: list[OrmahError] = []
    for proposal_id in dict.fromkeys(ids):
        try:
            made = _resolve(session, proposal_id, action, keep=keep)
        except OrmahError as exc:
            failed.append(exc)
            continue
        done.append(made)
        if not session.json:
            _print_decision(made)
    if session.json and done:
        render.emit(done)
    sys.stdout.flush()
    for other in failed[1:]:
        render.note(other.message, label="error")
    if failed:
        raise failed[0]
    return 0


def _resolve(
    session: Session,
    proposal_id: str,
    action: str,
    *,
    keep: str | None = None,
    title: str | None = None,
    content: str | None = None,
) -> api.ResolveProposalResult:
    """Decide on one proposal, and return the result. `action`: `approved` or `rejected`. `keep`: `newer`, `older` or
    `both`; None: as proposed. `title`, `content`: the merged memory's, if the person edited them."""
    params = api.ResolveProposalParams(proposal_id=proposal_id, action=action, keep=keep, title=title, content=content)
    return session.client.call("agent.resolve_proposal", params, api.ResolveProposalResult, timeout=SECONDS)


def _print_decision(done: api.ResolveProposalResult) -> None:
    """Print what a decision did, and how to undo it."""
    render.out(render.line(done.text) + (f", undo: ormahctl undo {done.commit[:8]}" if done.commit else ""))


def _edit_text(row: api.ProposalRow) -> tuple[str | None, str]:
    """Open the text that a proposal would store in the person's editor. Return (title, text) as the person saved
    them. The text is empty if nothing was saved."""
    title = row.title
    begin = (f"# {title}\n\n" if title else "") + (row.content or "") + "\n"
    text = click.edit(begin, extension=".md", require_save=False) or ""
    head, _, rest = text.partition("\n")
    if title and head.startswith("# "):
        title, text = head[2:].strip(), rest
    return title, text.strip()


def _print_proposal(row: api.ProposalRow) -> None:
    """Print a proposal: what it would do, its reason, evidence, memories, and the first lines of its preview."""
    render.out(f"{render.paint(row.short_id, 'bold')}  {render.pad(row.type, 8)}  {render.line(row.proposed_action)}")
    if row.reason:
        render.out(f"  {render.line(row.reason)}")
    if row.evidence:
        evidence = ", ".join(f"{name.replace('_', ' ')} {_in_words(value)}" for name, value in row.evidence.items())
        render.out(render.paint(f"  {render.line(evidence)}", "dim"))
    nodes = {node.id: node for node in row.nodes}
    for node_id in row.source_nodes:
        node = nodes.get(node_id)
        if node is None:
            render.out(f"  {node_id[:8]}  (gone)")
        else:
            name = render.cut(render.line(node.title or node.content), 70)
            where = f"{node.type}, {node.space or 'global'}, {render.moment(node.created, day=True)}"
            render.out(f"  {node.short_id}  {name}  {render.paint(render.line(where), 'dim')}")
    lines = render.safe(row.preview).splitlines()
    for line in lines[:LINES]:
        render.out(f"  | {line}".rstrip())
    if len(lines) > LINES:
        render.out(f"  | … {render.count(len(lines) - LINES, 'more line')}")
    render.out()


def _in_words(value: object) -> str:
    """Return a value of a proposal's evidence as text: a number with two decimals, a list separated by commas."""
    if isinstance(value, float):
        return f"{value:.2f}"
    return ", ".join(map(_in_words, value)) if isinstance(value, list) else str(value)


def _print_tension(tension: api.Tension) -> None:
    """Print a contradiction: its reason, and the two memories, numbered, with the beginnings of their texts."""
    reason = f": {render.line(tension.reason)}" if tension.reason else ""
    render.out(f"{render.paint('contradiction', 'bold')}{reason}")
    for number, end in enumerate((tension.a, tension.b), 1):
        made = f"{end.short_id} · {render.moment(end.created, day=True)} · {render.line(end.space or 'global')}"
        render.out(f"  {number}. {render.line(end.title)}  {render.paint(made, 'dim')}")
        text = render.cut(render.line(end.content), SNIPPET)
        if text != render.line(end.title):
            render.out(f"     {text}")
    render.out()
