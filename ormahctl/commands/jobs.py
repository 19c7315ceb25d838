"""`ormahctl jobs`: the maintenance that runs while nobody looks; run now, look before, pause, resume."""

from __future__ import annotations

import sys

import click

from ormahctl import render
from ormahctl.complete import JobOrAll, Words
from ormahctl.options import Unknown
from ormahctl.progress import Bar
from ormahctl.registry import Verb
from ormahctl.session import Session, pass_session
from ormahd.api import (
    NoParams,
    PausedResult,
    Progress,
    RunAllParams,
    RunAllResult,
    RunTaskParams,
    RunTaskResult,
    TaskParams,
    TasksResult,
)

LONG_SECONDS = 24 * 3600.0
FAILED = 1
DOES = ("run", "pause", "resume")
ALL = "all"


@click.command(
    cls=Verb,
    short_help="The maintenance jobs: list, run, pause, resume.",
    example="ormahctl jobs\normahctl jobs run all --dry-run\normahctl jobs run duplicate_merger\normahctl jobs pause all",
)
@click.argument("words", metavar="[run|pause|resume NAME|all]", nargs=-1, type=Words(dict.fromkeys(DOES, JobOrAll())))
@click.option("--dry-run", is_flag=True, help="With run: say what would be done, and change nothing.")
@click.option("--force", is_flag=True, help="With run: without the limits of one run.")
@pass_session
def jobs(session: Session, words: tuple[str, ...], dry_run: bool, force: bool) -> int:
    """List the jobs; or run one (or all, in their order) now; or pause and resume them.

    A paused job does not run by itself until it is resumed, also after a restart. What a job changed is in the history
    (`ormahctl history --job NAME`) and can be taken back (`ormahctl undo`). Exit status 1 when a job failed.
    """
    context = click.get_current_context()
    if not words:
        if dry_run or force:
            raise click.UsageError("--dry-run and --force belong to: jobs run NAME", context)
        _list(session)
        return 0
    if words[0] not in DOES:
        raise Unknown(words[0], DOES, None, context)
    if len(words) != 2:
        raise click.UsageError("give nothing, or: run NAME, pause NAME, resume NAME (or all)", context)
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
        render.out("no job is paused")
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
                "admin.run_all", both, RunAllResult, on_progress=draw, timeout=LONG_SECONDS
            ).results
        else:
            one = RunTaskParams(name=name, dry_run=dry_run, force=force)
            done = [session.client.call("admin.run_task", one, RunTaskResult, on_progress=draw, timeout=LONG_SECONDS)]
    if session.json:
        render.emit(done)
    else:
        for ran in done:
            _print(ran, dry_run)
        sys.stdout.flush()
        if run := next((ran.run for ran in done if ran.commits), None):
            render.note(f"to take all of it back: ormahctl undo --run {run}", label="hint", colour="cyan")
    return FAILED if any(ran.error for ran in done) else 0


def _print(ran: RunTaskResult, dry_run: bool) -> None:
    """One line a job; what a dry run would do, and what was dropped and why, below it."""
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
