"""`ormahctl jobs` and `maintenance`: run and pause jobs, and answer the questions that they could not decide."""

from __future__ import annotations

import sys
from typing import Any

import click
import msgspec

from ormahctl import render
from ormahctl.options import Unknown
from ormahctl.registry import Verb
from ormahctl.session import Session, pass_session
from ormahd import api

RUN_SECONDS = 24 * 3600.0
FAILED = 1
JOB_DOES = ("run", "pause", "resume")
ALL = "all"


@click.command(
    cls=Verb,
    short_help="List, run, pause or resume the maintenance jobs.",
    example="ormahctl jobs\normahctl jobs run all --dry-run\normahctl jobs run duplicate_merger\normahctl jobs pause all",
)
@click.argument("words", metavar="[run|pause|resume NAME|all]", nargs=-1)
@click.option("--dry-run", is_flag=True, help="With run: say what would be done, and change nothing.")
@click.option("--force", is_flag=True, help="With run: ignore the limits of a run.")
@pass_session
def jobs(session: Session, words: tuple[str, ...], dry_run: bool, force: bool) -> int:
    """List the jobs; or run one (or all) now; or pause and resume them.

    A paused job does not run by itself until it is resumed. `ormahctl history --source job:NAME` lists what a job changed. Exit
    status 1 if a job failed.
    """
    if not words:
        if dry_run or force:
            raise click.UsageError("--dry-run and --force belong to: jobs run NAME")
        _print_jobs(session)
        return 0
    if words[0] not in JOB_DOES:
        raise Unknown(words[0], JOB_DOES, None, None)
    if len(words) != 2:
        raise click.UsageError(f"jobs {words[0]} takes the NAME of one job, or: all")
    if words[0] == "run":
        return _run_jobs(session, words[1], dry_run, force)
    if dry_run or force:
        raise click.UsageError("--dry-run and --force belong to: jobs run NAME")
    if words[1] == ALL:
        done = session.client.call(f"admin.{words[0]}_all", api.NoParams(), api.PausedResult)
    else:
        done = session.client.call(f"admin.{words[0]}", api.TaskParams(name=words[1]), api.PausedResult)
    if session.json:
        render.emit(done)
    elif done.paused:
        render.out("paused: " + ", ".join(map(render.line, done.paused)))
    else:
        render.out("no job is paused" if words[1] == ALL else f"{words[0]}d: {render.line(words[1])}")
    return 0


def _print_jobs(session: Session) -> None:
    """Print a table of the jobs with their last and next runs, and the error of each job that failed."""
    tasks = session.client.call("admin.tasks", api.NoParams(), api.TasksResult).tasks
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
            render.note(f"{task.name} failed: {render.line(task.last_error)}", label="error")


def _run_jobs(session: Session, name: str, dry_run: bool, force: bool) -> int:
    """Run the job `name`, or all jobs, and print what each did. Return the exit status: `FAILED` if a job failed.
    With `force`, the limits of one run do not hold."""
    if name == ALL:
        every = api.RunAllParams(dry_run=dry_run, force=force)
        done = session.follow("at work", "admin.run_all", every, api.RunAllResult, timeout=RUN_SECONDS).results
    else:
        single = api.RunTaskParams(name=name, dry_run=dry_run, force=force)
        done = [session.follow("at work", "admin.run_task", single, api.RunTaskResult, timeout=RUN_SECONDS)]
    if session.json:
        render.emit(done)
    else:
        for ran in done:
            _print_run(ran, dry_run)
        sys.stdout.flush()
        if commits := [commit for ran in done for commit in ran.commits]:
            render.note(f"to take all of it back: ormahctl undo --run {commits[0][:8]}", label="hint")
    return FAILED if any(ran.error for ran in done) else 0


def _print_run(ran: api.RunTaskResult, dry_run: bool) -> None:
    """Print what one job did. Below it, print what a dry run would do, and which changes were dropped for which
    reason."""
    text = outcome(ran, dry_run=dry_run)
    if ran.error:
        text = render.paint(f"failed: {render.line(ran.error)}", "red") + (f" ({text})" if ran.applied else "")
    render.out(f"{render.pad(ran.job, 18)} {text}")
    for sentence in ran.planned if dry_run else ():
        render.out(f"  {render.line(sentence)}")
    for sentence in ran.dropped:
        render.out(f"  not: {render.line(sentence)}")
    if ran.more:
        render.out("  There is more to do: run it again, or with --force (without the limits of one run).")


def outcome(ran: api.RunTaskResult, *, dry_run: bool) -> str:
    """Return how many proposals of a job's run were applied, wait for a person or were skipped, in a few words. With
    `dry_run`: how many would be. The job's error is not in it."""
    if dry_run:
        would = ran.proposals - ran.asked - ran.skipped
        parts = [f"{would} would be done"] if would > 0 else []
        parts += [render.count(ran.asked, "proposal") + " would wait for you"] if ran.asked else []
        parts += [f"{ran.skipped} would not"] if ran.skipped else []
    else:
        parts = [f"{ran.applied} done"] if ran.applied else []
        parts += [render.count(ran.asked, "proposal waits", "proposals wait") + " for you"] if ran.asked else []
        parts += [f"{ran.skipped} skipped"] if ran.skipped else []
    return ", ".join(parts) or "nothing to do"


BATCH_SECONDS = 600.0


@click.command(
    cls=Verb,
    short_help="Answer questions that the jobs could not decide.",
    example="ormahctl maintenance\normahctl maintenance apply results.json\ncat results.json | ormahctl maintenance apply -",
)
@click.argument("words", metavar="[apply FILE|-]", nargs=-1)
@pass_session
def maintenance(session: Session, words: tuple[str, ...]) -> None:
    """Print pairs and clusters of memories that wait for a verdict, as JSON; `apply` sends the verdicts.

    Verdicts are a JSON object with the receipt and any of the lists edges, merges, consolidations, conflicts and
    extractions. A question without a verdict counts as answered with no. `ormahctl undo --run COMMIT` undoes all.
    """
    if words and (len(words) != 2 or words[0] != "apply"):
        raise click.UsageError("give nothing, or: apply FILE (- for standard input)")
    params = api.MaintenanceParams()
    if words:
        params.results = _read_verdicts(words[1])
    render.emit(session.follow("looking", "agent.maintenance", params, api.MaintenanceResult, timeout=BATCH_SECONDS))


def _read_verdicts(path: str) -> dict[str, Any]:
    """Return the verdicts in the JSON file `path` (`-`: stdin). The object may be the verdicts themselves, or have
    them in `results` beside their `receipt`; the receipt is then moved into them.

    Raises:
        UsageError: the file has no JSON object.
    """
    file = click.File("rb").convert(path, None, click.get_current_context())
    if file.isatty():
        sys.stderr.write("reading JSON from the terminal; end with Ctrl-D\n")
    try:
        found = msgspec.json.decode(file.read())
    except msgspec.DecodeError as exc:
        raise click.UsageError(f"the results are no JSON: {exc}") from None
    inner = found.get("results", found) if isinstance(found, dict) else found
    if not isinstance(inner, dict):
        raise click.UsageError("the results are no JSON object")
    outer = found.get("receipt")
    return {**inner, "receipt": outer} if outer is not None and "receipt" not in inner else inner
