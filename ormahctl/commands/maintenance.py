"""`ormahctl jobs`, `judge`, `maintenance` and `proposals`: run and pause jobs, look at their judge, answer their questions, decide on
proposals.

`maintenance` prints the questions that the jobs could not decide, and applies the answers of an agent or a person.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import IO, Any, NamedTuple

import click
import msgspec

from ormahctl import render
from ormahctl.options import JobOrAll, OneOf, ProposalId, Unknown, Words, limit_option, typed
from ormahctl.registry import Verb
from ormahctl.render import Bar
from ormahctl.session import Session, pass_session
from ormahd.api import (
    CandidateNode,
    CandidatePair,
    ExtractionBatch,
    HealthResult,
    JudgeHealth,
    JudgeTestResult,
    MaintenanceCounts,
    MaintenanceParams,
    MaintenanceResult,
    NoParams,
    PausedResult,
    Progress,
    ProposalRow,
    ProposalsParams,
    ProposalsResult,
    ResolveProposalParams,
    ResolveProposalResult,
    RunAllParams,
    RunAllResult,
    RunTaskParams,
    RunTaskResult,
    TaskParams,
    TasksResult,
)
from ormahd.rpc.wire import BadRequest, NotFound, OrmahError

RUN_SECONDS = 24 * 3600.0
FAILED = 1
JOB_DOES = ("run", "pause", "resume")
ALL = "all"


@click.command(
    cls=Verb,
    short_help="List, run, pause or resume the maintenance jobs.",
    example="ormahctl jobs\normahctl jobs run all --dry-run\normahctl jobs run duplicate_merger\normahctl jobs pause all",
)
@click.argument(
    "words", metavar="[run|pause|resume NAME|all]", nargs=-1, type=Words(dict.fromkeys(JOB_DOES, JobOrAll()))
)
@click.option("--dry-run", is_flag=True, help="With run: say what would be done, and change nothing.")
@click.option("--force", is_flag=True, help="With run: ignore the limits of a run.")
@pass_session
def jobs(session: Session, words: tuple[str, ...], dry_run: bool, force: bool) -> int:
    """List the jobs; or run one (or all, in their order) now; or pause and resume them.

    A paused job does not run automatically until it is resumed, also after a restart. `ormahctl history --job NAME`
    lists what a job changed, and `ormahctl undo` undoes it. Exit status 1 if a job failed.
    """
    context = click.get_current_context()
    if not words:
        if dry_run or force:
            raise click.UsageError("--dry-run and --force belong to: jobs run NAME", context)
        _list(session)
        return 0
    if words[0] not in JOB_DOES:
        raise Unknown(words[0], JOB_DOES, None, context)
    if len(words) != 2:
        raise click.UsageError(f"jobs {words[0]} takes the NAME of one job, or: all", context)
    if words[0] == "run":
        return _run(session, words[1], dry_run, force)
    if dry_run or force:
        raise click.UsageError("--dry-run and --force belong to: jobs run NAME", context)
    if words[1] == ALL:
        done = session.client.call(f"admin.{words[0]}_all", NoParams(), PausedResult)
    else:
        done = session.client.call(f"admin.{words[0]}", TaskParams(name=words[1]), PausedResult)
    if session.json:
        render.emit(done)
    elif done.paused:
        render.out("paused: " + ", ".join(map(render.line, done.paused)))
    else:
        render.out("no job is paused" if words[1] == ALL else f"{words[0]}d: {render.line(words[1])}")
    return 0


def _list(session: Session) -> None:
    tasks = session.client.call("admin.tasks", NoParams(), TasksResult).tasks
    if session.json:
        render.emit(tasks)
        return
    rows = []
    for task in tasks:
        state = "running" if task.running else "paused" if task.paused else ""
        next_run = "-" if task.next_run is None or task.paused else render.moment(task.next_run)
        last = render.moment(task.last_run) if task.last_run else "never"
        took = f"{task.last_duration_ms / 1000:.1f} s" if task.last_duration_ms is not None else ""
        rows.append([task.name, last, took, next_run, state])
    render.table(["job", "last run", "took", "next run", ""], rows, right=[2])
    sys.stdout.flush()
    for task in tasks:
        if task.last_error:
            render.note(f"{task.name} failed: {render.line(task.last_error)}", label="error", colour="red")


def _run(session: Session, name: str, dry_run: bool, force: bool) -> int:
    with Bar("at work") as bar:

        def draw(at: Progress) -> None:
            bar.set(at.done, at.total, what=at.stage)

        if name == ALL:
            both = RunAllParams(dry_run=dry_run, force=force)
            done = session.client.call(
                "admin.run_all", both, RunAllResult, on_progress=draw, timeout=RUN_SECONDS
            ).results
        else:
            one = RunTaskParams(name=name, dry_run=dry_run, force=force)
            done = [session.client.call("admin.run_task", one, RunTaskResult, on_progress=draw, timeout=RUN_SECONDS)]
    if session.json:
        render.emit(done)
    else:
        for ran in done:
            _print_run(ran, dry_run)
        sys.stdout.flush()
        if run := next((ran.run for ran in done if ran.commits), None):
            render.note(f"to take all of it back: ormahctl undo --run {run}", label="hint", colour="cyan")
    return FAILED if any(ran.error for ran in done) else 0


def _print_run(ran: RunTaskResult, dry_run: bool) -> None:
    """Print a line for each job; below it what a dry run would do, and what was dropped and why."""
    if dry_run:
        would = ran.proposals - ran.asked - ran.skipped
        parts = [f"{would} would be done"] if would > 0 else []
        parts += [render.count(ran.asked, "proposal") + " would wait for you"] if ran.asked else []
        parts += [f"{ran.skipped} would not"] if ran.skipped else []
    else:
        parts = [f"{ran.applied} done"] if ran.applied else []
        parts += [render.count(ran.asked, "proposal waits", "proposals wait") + " for you"] if ran.asked else []
        parts += [f"{ran.skipped} skipped"] if ran.skipped else []
    said = ", ".join(parts) or "nothing to do"
    if ran.error:
        said = render.paint(f"failed: {render.line(ran.error)}", "red") + (f" ({said})" if ran.applied else "")
    render.out(f"{render.pad(ran.job, 18)} {said}")
    for sentence in ran.planned if dry_run else ():
        render.out(f"  {render.line(sentence)}")
    for sentence in ran.dropped:
        render.out(f"  not: {render.line(sentence)}")
    if ran.more:
        render.out("  There is more to do: run it again, or with --force (without the limits of one run).")


BATCH_SECONDS = 600.0
HEADINGS = {
    "merge_candidates": "Pairs to merge: do both say the same?",
    "conflict_candidates": "Pairs that may conflict: did one replace the other, or do they contradict?",
    "link_candidates": "Pairs to link: how does one relate to the other?",
}
SESSIONS = "Parts of your sessions: what of it is worth remembering?"
CLUSTERS = "Clusters to unite: can one memory say what they say?"
ANSWER = (
    "Write results as JSON, with the ids above, and send them: ormahctl maintenance apply FILE\n"
    '  {"receipt": "%s",\n'
    '   "merges": [{"keep_id": …, "remove_id": …, "title": …, "content": …, "reason": …}],\n'
    '   "conflicts": [{"source_id": the newer, "target_id": …, "kind": "evolution" or "tension", "reason": …}],\n'
    '   "edges": [{"source_id": …, "target_id": …, "edge_type": "supports", "weight": 0.8, "reason": …}],\n'
    '   "consolidations": [{"node_ids": […], "title": …, "content": …, "type": "fact", "reason": …}],\n'
    '   "extractions": [{"batch_id": "s1", "turns": [2], "type": "fact", "title": …, "content": …}]}'
)


@click.command(
    cls=Verb,
    short_help="Answer questions that the jobs could not decide.",
    example="ormahctl --json maintenance\normahctl maintenance apply results.json\ncat results.json | ormahctl maintenance apply -",
)
@click.argument("words", metavar="[apply FILE|-]", nargs=-1, type=Words({"apply": click.Path()}))
@pass_session
def maintenance(session: Session, words: tuple[str, ...]) -> None:
    """Print pairs and clusters of memories that wait for a verdict; `apply` sends the verdicts.

    Verdicts are a JSON object with the receipt and any of the lists edges, merges, consolidations and conflicts. A
    question without a verdict counts as answered with no, and is not asked again. `ormahctl undo --run RUN` undoes
    everything that was applied.
    """
    context = click.get_current_context()
    if not words:
        _hand_out(session)
    elif len(words) == 2 and words[0] == "apply":
        file = click.File("rb").convert(words[1], None, context)
        _apply(session, _results(file, context))
    else:
        raise click.UsageError("give nothing, or: apply FILE (- for standard input)", context)


def _results(file: IO[bytes], context: click.Context) -> dict[str, Any]:
    if file.isatty():
        sys.stderr.write("reading JSON from the terminal; end with Ctrl-D\n")
    try:
        found = msgspec.json.decode(file.read())
    except msgspec.DecodeError as exc:
        raise click.UsageError(f"the results are no JSON: {exc}", context) from None
    inner = found.get("results", found) if isinstance(found, dict) else found
    if not isinstance(inner, dict):
        raise click.UsageError("the results are no JSON object", context)
    outer = found.get("receipt")
    return {**inner, "receipt": outer} if outer is not None and "receipt" not in inner else inner


def _call(session: Session, params: MaintenanceParams) -> MaintenanceResult:
    with Bar("looking") as bar:

        def draw(at: Progress) -> None:
            bar.set(at.done, at.total, what=at.stage)

        return session.client.call(
            "agent.maintenance", params, MaintenanceResult, on_progress=draw, timeout=BATCH_SECONDS
        )


def _apply(session: Session, results: Mapping[str, Any]) -> None:
    done = _call(session, MaintenanceParams(results=dict(results)))
    if session.json:
        render.emit(done)
        return
    if isinstance(done.summary, MaintenanceCounts):
        counts = [
            render.count(done.summary.edges, "link"), render.count(done.summary.conflicts, "conflict"),
            render.count(done.summary.merges, "merge"), render.count(done.summary.consolidations, "consolidation"),
        ]  # fmt: skip
        if isinstance(done.summary.extractions, int):
            counts.append(f"{render.count(done.summary.extractions, 'memory', 'memories')} of sessions")
        render.out(f"applied: {', '.join(counts)}; {done.summary.skipped} skipped")
    if isinstance(done.run, str):
        render.out(f"run {render.line(done.run)} (ormahctl undo --run {render.line(done.run)} takes it back)")
    sys.stdout.flush()
    for one in done.refused if isinstance(done.refused, list) else ():
        blamed = f" {render.line(one.id)}" if one.id else ""
        render.note(f"{render.line(one.item)}{blamed}: {render.line(one.why)}", label="refused", colour="red")


def _hand_out(session: Session) -> None:
    handed = _call(session, MaintenanceParams())
    if session.json:
        render.emit(handed)
        return
    found = False
    for name, heading in HEADINGS.items():
        pairs: Sequence[CandidatePair] = getattr(handed, name) or ()
        if pairs:
            found = True
            render.out(render.paint(heading, "bold"))
        for number, pair in enumerate(pairs, 1):
            render.out(f"{number}. similarity {pair.similarity:.2f}")
            _print_candidate(pair.node_a)
            _print_candidate(pair.node_b)
            render.out()
    clusters = handed.consolidation_clusters if isinstance(handed.consolidation_clusters, list) else []
    if clusters:
        found = True
        render.out(render.paint(CLUSTERS, "bold"))
    for number, cluster in enumerate(clusters, 1):
        render.out(f"{number}. {render.count(len(cluster), 'memory', 'memories')}")
        for node in cluster:
            _print_candidate(node)
        render.out()
    read = handed.extraction_batches if isinstance(handed.extraction_batches, list) else []
    if read:
        found = True
        render.out(render.paint(SESSIONS, "bold"))
    for batch in read:
        _print_turns(batch)
    render.out(render.line(str(handed.summary)))
    if found:
        render.out(ANSWER % render.line(handed.receipt))


def _print_turns(batch: ExtractionBatch) -> None:
    render.out(
        f"{batch.batch_id}. {batch.harness} · {render.line(batch.space or 'global')} · session {render.line(batch.session)}"
    )
    for turn in batch.turns:
        before = " (read before)" if turn.read else ""
        render.out(f"   {turn.turn}. {turn.who}{before} · {render.moment(turn.time)}")
        for text in render.safe(turn.text).splitlines():
            if text.strip():
                render.out(f"     {text.rstrip()}")
    render.out()


def _print_candidate(node: CandidateNode) -> None:
    where = f"{node.type} · {render.line(node.space or 'global')} · {render.moment(node.created, day=True)}"
    render.out(f"   {node.id}  {render.paint(where, 'dim')}")
    if node.title:
        render.out(f"     {render.paint(render.line(node.title), 'bold')}")
    for text in render.safe(node.content).splitlines():
        if text.strip():
            render.out(f"     {text.rstrip()}")


DOES = {"approve": "approved", "reject": "rejected"}
KEPT = ("newer", "older", "both")
STATUSES = ("pending", "approved", "rejected", "stale", "all")
DECLINED = 1
LINES = 8
"""Lines of a preview that are shown; `--json` has all."""
DECIDE_SECONDS = 120.0
"""Seconds that a decision may take: it is one commit, which waits if another program holds git."""


@click.command(
    cls=Verb,
    short_help="List, approve or reject proposals of the jobs.",
    example="ormahctl proposals\normahctl proposals approve 1f3a9c2e --keep newer\normahctl proposals approve 1f3a9c2e --edit\normahctl proposals reject 1f3a9c2e 77b0d412",
)
@click.argument("words", metavar="[approve|reject ID...]", nargs=-1, type=Words(dict.fromkeys(DOES, ProposalId())))
@click.option("--status", type=OneOf(STATUSES), metavar="STATUS",
              help=f"Only proposals with this status: {', '.join(STATUSES)}.  [default: pending]")  # fmt: skip
@click.option("--all", "everything", is_flag=True, help="Also decided and stale proposals.")
@click.option("--type", "kind", type=OneOf(["merge", "conflict", "decay", "memory"]),
              help="Only proposals of this type.")  # fmt: skip
@click.option(
    "--keep",
    type=OneOf(KEPT),
    help="With approve: which memory's text holds. both: both hold, and this is not proposed again.",
)
@click.option("--edit", is_flag=True, help="With approve and one ID: edit the remaining text in your editor.")
@limit_option(1_000, default=200, what="proposals")
@pass_session
def proposals(
    session: Session, words: tuple[str, ...], status: str | None, everything: bool, kind: str | None, keep: str | None,
    edit: bool, limit: int,
) -> int:  # fmt: skip
    """List what the jobs propose, newest first, each with the resulting text; or decide on some. An export of chats
    (`ormahctl ingest`) proposes memories, too.

    An approved change is a commit like any other, and `ormahctl undo` undoes it. A rejected change is not proposed
    again until one of its memories is edited; undoing the decision makes the proposal pending again. `--keep` chooses
    which memory's text holds, `--edit` lets you write the text.
    """
    context = click.get_current_context()
    if words:
        if words[0] not in DOES:
            raise Unknown(words[0], DOES, None, context)
        if len(words) < 2:
            raise click.UsageError("give nothing, or: approve ID..., reject ID...", context)
        if status or everything or kind or typed("limit"):
            raise click.UsageError("--status, --all, --type and --limit belong to the list", context)
        if (keep or edit) and words[0] != "approve":
            raise click.UsageError("--keep and --edit belong to: approve ID", context)
        if edit and (keep == "both" or len(words) > 2):
            raise click.UsageError("--edit is for one ID, of which one text stays", context)
        choice = ApprovalOptions(keep)
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
        _print_proposal(row)
    sys.stdout.flush()
    if not found.proposals:
        render.out("no proposal waits for you" if wanted == "pending" else "there is none")
    elif any(row.status == "pending" for row in found.proposals):
        render.note("ormahctl proposals approve ID, or reject ID", label="hint", colour="cyan")
    if found.behind:
        render.note(
            f"{found.behind:,} more {'waits' if found.behind == 1 else 'wait'} behind these, to be listed once some are decided on"
        )
    return 0


def _print_proposal(row: ProposalRow) -> None:
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
        render.out(f"  | … {render.count(len(lines) - LINES, 'more line')}")
    render.out()


def _value(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.2f}"
    if isinstance(value, list):
        return ", ".join(map(_value, value))
    return str(value)


class ApprovalOptions(NamedTuple):
    """How a proposal is approved. `keep`: which memory's text stays, "older" or "newer"; `title` and `content`: the text
    to use in place of both."""

    keep: str | None = None
    title: str | None = None
    content: str | None = None


def _written(session: Session, proposal_id: str, keep: str | None) -> ApprovalOptions | None:
    """Open the proposal's text in the person's editor, and return how to approve it with the result; None if the person
    left no text. `keep`: begin with the text of the older or newer memory."""
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
    return ApprovalOptions(keep, title, text.strip("\n")) if text.strip() else None


def _decide(session: Session, action: str, ids: tuple[str, ...], choice: ApprovalOptions) -> int:
    """Approve or reject (`action`) each proposal in a call of its own, so that one failure does not affect the others.
    Return the exit status. The first failure is raised at the end."""
    done: list[ResolveProposalResult] = []
    failed: list[OrmahError] = []
    for one in dict.fromkeys(ids):
        params = ResolveProposalParams(
            proposal_id=one, action=action, keep=choice.keep, title=choice.title, content=choice.content
        )
        try:
            made = session.client.call("agent.resolve_proposal", params, ResolveProposalResult, timeout=DECIDE_SECONDS)
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


# ---------------------------------------------------------------- the judge


TEST = "test"
SAYS = {
    "down": "does not answer",
    "rude": "answers what cannot be used",
    "budget": "is not asked any more today",
}
ANSWER_LINES = 12
"""Lines of an answer that are printed; `--json` has up to 2,000 characters."""


@click.command(
    cls=Verb,
    short_help="The judge of the jobs: how it is doing; test asks it once.",
    example="ormahctl judge\normahctl judge test",
)
@click.argument("words", metavar="[test]", nargs=-1, type=Words({TEST: None}))
@pass_session
def judge(session: Session, words: tuple[str, ...]) -> int:
    """Show what the jobs' judge (`jobs.judge`) cost today and what is wrong with it.

    `test` asks it one question that holds nothing of yours, and shows what came, how long it took, and what it cost. Exit
    status 1 when the answer could not be used.
    """
    if not words:
        return _show_judge(session)
    if words != (TEST,):
        wrong = next(word for word in words if word != TEST) if set(words) != {TEST} else TEST
        raise Unknown(wrong, [TEST], None, click.get_current_context())
    return _test_judge(session)


def _show_judge(session: Session) -> int:
    found = session.client.call("admin.health", NoParams(), HealthResult).judge
    if session.json:
        render.emit(msgspec.to_builtins(found))
    elif found is None:
        render.out("there is no judge: jobs.judge is none. Agents may judge instead: ormahctl maintenance")
    else:
        for name, text in judge_lines(found):
            render.out(f"{render.pad(name, 9)} {text}", hang=10)
    return 0


def judge_lines(judge: JudgeHealth) -> list[tuple[str, str]]:
    """Return what there is to say of a judge, as (heading, text): first who it is and what it cost, then what is wrong."""
    last = f"last answer {render.moment(judge.answered)}" if judge.answered else "no answer yet"
    cost = f"today {judge.calls:,} of {judge.calls_a_day:,} calls, {judge.tokens:,} of {judge.tokens_a_day:,} tokens"
    found = [("judge", f"{render.line(judge.name)} ({judge.kind}), {last}; {cost}")]
    for one in judge.troubles:
        often = f" ({one.times} times)" if one.times > 1 else ""
        text = f"{SAYS[one.kind]}, since {render.moment(one.since)}{often}: {render.line(one.reason)}"
        found.append(("judge", render.paint(text, "yellow")))
    if judge.left_alone_until is not None:
        found.append(
            ("judge", f"asked again from {render.moment(judge.left_alone_until)}: ormahctl judge test asks now")
        )
    return found


def _test_judge(session: Session) -> int:
    done = session.client.call("admin.judge_test", NoParams(), JudgeTestResult, timeout=RUN_SECONDS)
    if session.json:
        render.emit(done)
    else:
        _print_trial(done)
    return 0 if done.usable else FAILED


def _print_trial(done: JudgeTestResult) -> None:
    who = f"{render.line(done.name)} ({done.kind})"
    if not done.answer:
        render.out(render.paint(f"{who} gave no answer: {render.line(done.why or '?')}", "red"))
    else:
        render.out(f"{who} answered:")
        said = done.answer.strip().splitlines()
        for line in said[:ANSWER_LINES]:
            render.out(f"  {render.line(line)}")
        if len(said) > ANSWER_LINES:
            render.out(f"  … and {render.count(len(said) - ANSWER_LINES, 'more line')}")
        render.out(_verdict_on(done))
    tokens = f"{done.tokens:,} tokens" + ("" if done.counted else " (estimated)")
    if done.calls:
        render.out(f"took {done.seconds:.1f} s, {render.count(done.calls, 'call')}, {tokens}")
    render.out(f"left today: {render.count(done.calls_left, 'call')}, {done.tokens_left:,} tokens")


def _verdict_on(done: JudgeTestResult) -> str:
    if not done.usable:
        return render.paint(f"this cannot be used: {render.line(done.why or '?')}", "red")
    repaired = " after one repair" if done.calls > 1 else ""
    if not done.right:
        return render.paint(
            f"the form is right{repaired}, but the verdict is wrong: this model is too weak to judge", "yellow"
        )
    return render.paint(f"the form and the verdict are right{repaired}", "green")
