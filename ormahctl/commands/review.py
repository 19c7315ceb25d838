"""`ormahctl review`: one queue of what waits for a person: proposals, contradictions, conflicts of a sync, findings.

On a terminal each item is shown and answered with one key. Elsewhere the queue is listed. `approve` and `reject` decide on
proposals without a terminal.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import click

from ormahctl import render
from ormahctl.commands import health
from ormahctl.commands.sync import show_conflict
from ormahctl.options import OneOf, Unknown
from ormahctl.registry import Verb
from ormahctl.session import Session, pass_session, terminal
from ormahd.api import (
    Belief,
    ConflictItem,
    ConflictsResult,
    ConnectParams,
    Finding,
    InsightsParams,
    InsightsResult,
    NoParams,
    OutdatedParams,
    ProposalRow,
    ProposalsParams,
    ProposalsResult,
    ResolveConflictParams,
    ResolveConflictResult,
    ResolveProposalParams,
    ResolveProposalResult,
    Tension,
    WriteResult,
)
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
    context = click.get_current_context()
    if words and words[0] not in DECISIONS:
        raise Unknown(words[0], DECISIONS, None, context)
    if len(words) == 1:
        raise click.UsageError("give nothing, or: approve ID..., reject ID...", context)
    if keep and words[:1] != ("approve",):
        raise click.UsageError("--keep belongs to: approve ID", context)
    if words:
        return _decide(session, DECISIONS[words[0]], words[1:], keep)
    queue = _queue(session)
    if session.json:
        fields = {"proposals": queue.proposals, "contradictions": queue.tensions, "conflicts": queue.conflicts}
        render.emit(fields | {"findings": queue.findings})
    elif terminal(session) and sys.stdout.isatty():
        _go_through(session, queue)
    else:
        _list(queue)
    return 0


@dataclass
class _Queue:
    """What waits. `behind`: number of proposals that are listed once some of these are decided on."""

    proposals: list[ProposalRow]
    behind: int
    tensions: list[Tension]
    conflicts: list[ConflictItem]
    findings: list[Finding]

    def __len__(self) -> int:
        return len(self.proposals) + len(self.tensions) + len(self.conflicts) + len(self.findings)


def _queue(session: Session) -> _Queue:
    """Return what waits. Notices (`info`) of `doctor` are left out: nothing has to be done about them."""
    asked = session.client.call("agent.proposals", ProposalsParams(limit=MAX_LISTED), ProposalsResult)
    beliefs = session.client.call("agent.insights", InsightsParams(limit=MAX_LISTED), InsightsResult)
    conflicts = session.client.call("admin.sync_conflicts", NoParams(), ConflictsResult).conflicts
    found = health.examine(session, fix=False)
    tensions = [one for one in beliefs.tensions if not one.settled]
    findings = [one for one in found if one.level != "info"]
    return _Queue(asked.proposals, asked.behind, tensions=tensions, conflicts=conflicts, findings=findings)


def _list(queue: _Queue) -> None:
    for row in queue.proposals:
        _print_proposal(row)
    for tension in queue.tensions:
        _print_tension(tension)
    for conflict in queue.conflicts:
        show_conflict(conflict)
        render.out(f"  put it right, then: ormahctl sync --resolve {render.line(conflict.node or conflict.path)[:36]}")
        render.out()
    health.print_findings(queue.findings)
    if not len(queue):
        render.out("nothing waits for you")
    sys.stdout.flush()
    if queue.proposals:
        render.note("ormahctl review approve ID, or reject ID", label="hint", colour="cyan")
    if queue.behind:
        render.note(f"{render.count(queue.behind, 'more proposal')} behind these")


# ---------------------------------------------------------------- one key an item

Answers = Mapping[str, tuple[str, Callable[[], object]]]
"""{key: (what it does, in words; the function that does it)}."""
REST: Answers = {"s": ("skip", lambda: None)}
QUIT = "q"


def _go_through(session: Session, queue: _Queue) -> None:
    """Show each item, and do what the person's key says, until all were shown or the person quits."""
    items: list[tuple[Callable[[], None], Answers]] = [
        *((lambda row=row: _print_proposal(row), _proposal_answers(session, row)) for row in queue.proposals),
        *((lambda one=one: _print_tension(one), _tension_answers(session, one)) for one in queue.tensions),
        *((lambda one=one: show_conflict(one), _conflict_answers(session, one)) for one in queue.conflicts),
        *((lambda one=one: health.print_findings([one]), REST) for one in queue.findings),
    ]
    if not items:
        render.out("nothing waits for you")
    for number, (show, answers) in enumerate(items, 1):
        render.out(render.paint(f"{number} of {len(items)}", "dim"))
        show()
        key = _key(answers)
        if key == QUIT:
            return
        try:
            answers[key][1]()
        except OrmahError as exc:  # the next item may be decided on all the same
            render.note(exc.message, label="error", colour="red")
        render.out()


def _key(answers: Answers) -> str:
    """Ask for a key, and return it."""
    offered = ", ".join(f"{render.paint(key, 'bold')} {what}" for key, (what, _) in answers.items())
    render.out(f"{offered}, {render.paint(QUIT, 'bold')} quit")
    while True:
        key = click.getchar().lower()
        if key in answers or key == QUIT:
            return key
        if key in "\r\n ":
            return "s"
        if key in "\x03\x04":
            raise KeyboardInterrupt


def _proposal_answers(session: Session, row: ProposalRow) -> Answers:
    def decide(action: str, **choice: str | None) -> Callable[[], None]:
        return lambda: _say(_resolve(session, row.id, action, **choice))

    def edit() -> None:
        title, content = _written(row)
        if content:
            decide("approved", title=title, content=content)()
        else:
            render.note("the text is empty; nothing was done")

    answers: dict[str, tuple[str, Callable[[], object]]] = {
        "y": (
            f"{row.proposed_action[:1].lower()}{render.cut(render.line(row.proposed_action[1:]), 76)}",
            decide("approved"),
        ),
        "n": ("leave all as it is, and do not ask again", decide("rejected")),
    }
    if row.content is not None and len(row.nodes) == 2:
        answers["o"] = ("keep the older text", decide("approved", keep="older"))
    if row.content is not None:
        answers["e"] = ("edit the text", edit)
    return {**answers, **REST}


def _tension_answers(session: Session, one: Tension) -> Answers:
    def holds(this: Belief, other: Belief) -> Callable[[], None]:
        params = OutdatedParams(node_id=other.id, by=this.id)
        return lambda: _told(session.client.call("agent.outdated", params, WriteResult), "outdated")

    def both() -> None:
        for source, target in ((one.a, one.b), (one.b, one.a)):
            params = ConnectParams(source_id=source.id, target_id=target.id, edge="contradicts", remove=True)
            done = session.client.call("agent.connect", params, WriteResult)
            if done.changed:
                _told(done, "no contradiction any more")

    answers = {"1": ("the first holds", holds(one.a, one.b)), "2": ("the second holds", holds(one.b, one.a))}
    return {**answers, "b": ("both hold", both), **REST}


def _conflict_answers(session: Session, one: ConflictItem) -> Answers:
    def settle() -> None:
        session.client.call("admin.sync_resolve", ResolveConflictParams(name=one.path), ResolveConflictResult)
        render.out(f"settled {render.line(one.path)}")

    return {"y": ("the note is right as it is in the vault", settle), **REST}


def _told(done: WriteResult, what: str) -> None:
    back = f", undo: ormahctl undo {done.commit[:8]}" if done.commit else ""
    render.out(f"{what}: {done.short_id}{back}")


# ---------------------------------------------------------------- proposals


def _decide(session: Session, action: str, ids: Sequence[str], keep: str | None) -> int:
    """Approve or reject (`action`) each proposal in a call of its own, so that one failure does not affect the others.
    Return the exit status. The first failure is raised at the end."""
    done: list[ResolveProposalResult] = []
    failed: list[OrmahError] = []
    for one in dict.fromkeys(ids):
        try:
            made = _resolve(session, one, action, keep=keep)
        except OrmahError as exc:
            failed.append(exc)
            continue
        done.append(made)
        if not session.json:
            _say(made)
    if session.json and done:
        render.emit(done)
    sys.stdout.flush()
    for other in failed[1:]:
        render.note(other.message, label="error", colour="red")
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
) -> ResolveProposalResult:
    params = ResolveProposalParams(proposal_id=proposal_id, action=action, keep=keep, title=title, content=content)
    return session.client.call("agent.resolve_proposal", params, ResolveProposalResult, timeout=SECONDS)


def _say(done: ResolveProposalResult) -> None:
    render.out(render.line(done.text) + (f", undo: ormahctl undo {done.commit[:8]}" if done.commit else ""))


def _written(row: ProposalRow) -> tuple[str | None, str]:
    """Open the text that a proposal would leave in the person's editor. Return (title, text) as the person left it."""
    title = row.title
    begin = (f"# {title}\n\n" if title else "") + (row.content or "") + "\n"
    text = click.edit(begin, extension=".md", require_save=False) or ""
    head, _, rest = text.partition("\n")
    if title and head.startswith("# "):
        title, text = head[2:].strip(), rest
    return title, text.strip()


def _print_proposal(row: ProposalRow) -> None:
    render.out(f"{render.paint(row.short_id, 'bold')}  {render.pad(row.type, 8)}  {render.line(row.proposed_action)}")
    if row.reason:
        render.out(f"  {render.line(row.reason)}")
    if row.evidence:
        evidence = ", ".join(f"{name.replace('_', ' ')} {_value(value)}" for name, value in row.evidence.items())
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


def _value(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.2f}"
    return ", ".join(map(_value, value)) if isinstance(value, list) else str(value)


def _print_tension(one: Tension) -> None:
    reason = f": {render.line(one.reason)}" if one.reason else ""
    render.out(f"{render.paint('contradiction', 'bold')}{reason}")
    for number, end in enumerate((one.a, one.b), 1):
        made = f"{end.short_id} · {render.moment(end.created, day=True)} · {render.line(end.space or 'global')}"
        render.out(f"  {number}. {render.line(end.title)}  {render.paint(made, 'dim')}")
        text = render.cut(render.line(end.content), SNIPPET)
        if text != render.line(end.title):
            render.out(f"     {text}")
    render.out()
