"""The runner: takes what a job plans, and acts: within limits, one commit a change, with a record of the run.

A change is applied only when the notes it was decided on are still those (DESIGN section 5): a person's edit in between
drops that one change, and says so. Nothing is held while a job thinks or a judge is asked.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ormahd import way
from ormahd.actions.amend import Outcome, commit, see
from ormahd.actions.caller import Caller
from ormahd.errors import BadRequest, Conflict, InvalidNote, NotFound, OrmahError, Unavailable
from ormahd.jobs.index_updater import IndexUpdater
from ormahd.jobs.job import Ask, Change, Done, Job, Stopped, Turn
from ormahd.jobs.near import Near
from ormahd.jobs.proposals import Proposals
from ormahd.journal.runs import Past, Runs
from ormahd.journal.verdicts import Verdicts

if TYPE_CHECKING:
    from datetime import datetime

    from ormahd.judge.port import Judge
    from ormahd.ormah import Ormah
    from ormahd.vault.transaction import Transaction

log = logging.getLogger("ormahd.jobs")

FEW = 20
"""Changes that a run may always make, however small the vault is."""
LOW_PRIORITY = 5
"""Niceness of a run's thread. Not more: now and then it holds what others wait for."""

Progress = Callable[[int, int, str], None]


@dataclass(slots=True)
class Ran:
    """What one run of one job came to. `proposals`: what it planned; `skipped`: what was dropped or is over the limit."""

    job: str
    proposals: int = 0
    applied: int = 0
    skipped: int = 0
    commits: list[str] = field(default_factory=list)
    error: str | None = None
    more: bool = False
    """The limit was reached before the plan had ended."""
    planned: list[str] = field(default_factory=list)
    """Subjects of the changes and proposals, in order; of a dry run what would be done."""
    dropped: list[str] = field(default_factory=list)
    """Why what was skipped was."""


@dataclass(frozen=True, slots=True)
class Task:
    """A job as `status` and `ormahctl jobs` tell of it."""

    name: str
    past: Past
    paused: datetime | None
    running: bool


class Runner:
    """One run at a time; whoever asks for another one waits. Safe for many threads."""

    def __init__(self, ormah: Ormah, jobs: Sequence[Job], judge: Judge | None = None) -> None:
        self._ormah = ormah
        self._judge = judge
        self.jobs = {job.name: job for job in jobs}
        self.runs = Runs(ormah.state)
        self.verdicts = Verdicts(ormah.state)
        self.proposals = Proposals(ormah)
        self._turn = threading.Lock()
        self._running: str | None = None
        self._stopping = threading.Event()
        self.runs.born(list(self.jobs))

    # ------------------------------------------------------------ what others ask

    def named(self, name: str, *, one: bool = False) -> list[str]:
        """The jobs that a name means: one, or `all` in the sleep cycle's order. Raises NotFound."""
        if name == "all" and not one:
            return list(self.jobs)
        if name not in self.jobs:
            raise NotFound(f"there is no job '{name[:100]}'", hint="there are: " + ", ".join(self.jobs))
        return [name]

    def tasks(self) -> list[Task]:
        paused = self.runs.paused()
        return [Task(name, self.runs.past(name), paused.get(name), name == self._running) for name in self.jobs]

    def stop(self) -> None:
        """Let the run under way end after the change it is at; nothing new begins."""
        self._stopping.set()

    # ------------------------------------------------------------ running

    def run(
        self, names: Sequence[str], *, dry: bool = False, force: bool = False, progress: Progress = lambda *_: None,
        stopping: Callable[[], bool] = lambda: False,
    ) -> list[Ran]:  # fmt: skip
        """Run these jobs one after the other as one run. A job that fails is told in its `error`, and the next one runs.

        Raises:
            Unavailable: the daemon stops.
        """
        # A scan keeps its own order, and whoever asks for one need not wait for a night's work.
        with self._alone() if set(names) - {IndexUpdater.name} else contextlib.nullcontext():
            done: list[Ran] = []

            def work() -> None:
                way.step_back(LOW_PRIORITY)
                self._all(names, done, dry, force, progress, stopping)

            thread = threading.Thread(target=work, name="jobs", daemon=True)
            thread.start()
            thread.join()
            return done

    def _all(
        self, names: Sequence[str], done: list[Ran], dry: bool, force: bool, progress: Progress, stopping: Callable[[], bool]
    ) -> None:  # fmt: skip
        run, near = self._ormah.new_run(), Near(self._ormah.index)
        for name in names:
            if self._stopping.is_set() or stopping():
                break
            self._running = name
            try:
                done.append(self._job(self.jobs[name], run, near, dry, force, progress, stopping))
            finally:
                self._running = None

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        while not self._turn.acquire(timeout=0.2):
            if self._stopping.is_set():
                raise Unavailable("the daemon stops", hint="start it again: ormahctl up")
        try:
            yield
        finally:
            self._turn.release()

    def _job(
        self, job: Job, run: str, near: Near, dry: bool, force: bool, progress: Progress, stopping: Callable[[], bool]
    ) -> Ran:
        ran, begun = Ran(job.name), time.monotonic()
        turn = Turn(
            self._ormah, self.verdicts, near, self._judge, run, self._ormah.ranking_clock(), dry,
            lambda: self._stopping.is_set() or stopping(),
            lambda done, total, stage: progress(done, total, f"{job.name}: {stage}"),
        )  # fmt: skip
        if not dry:
            self.runs.begin(run, job.name)
        try:
            self._act(job, turn, ran, self._limit(force))
        except Stopped:
            ran.more = True
        except OrmahError as exc:
            ran.error = exc.message
            log.warning("%s: %s", job.name, exc.message)
        except Exception as exc:  # a fault in one job must not keep the others from their work
            ran.error = f"a fault of its own: {exc!r}"
            log.exception("%s met a fault", job.name)
        if not dry:
            self.runs.end(
                run, job.name, error=ran.error, proposals=ran.proposals, applied=ran.applied, skipped=ran.skipped,
                commits=ran.commits, milliseconds=1000 * (time.monotonic() - begun),
            )  # fmt: skip
            log.info("%s: %d planned, %d applied, %d skipped", job.name, ran.proposals, ran.applied, ran.skipped)
        return ran

    def _limit(self, force: bool) -> tuple[float, float]:
        """Commits, and weight (notes or edges), that a run may come to."""
        if force:
            return float("inf"), float("inf")
        jobs = self._ormah.settings.jobs
        return jobs.max_changes, max(FEW, jobs.max_share * self._ormah.index.count())

    def _act(self, job: Job, turn: Turn, ran: Ran, limit: tuple[float, float]) -> None:
        commits, weight = 0, 0
        for step in job.plan(turn):
            turn.give()
            if isinstance(step, Done):
                ran.applied += step.applied
                ran.skipped += step.skipped
                continue
            if isinstance(step, Ask):
                if self.proposals.keep(step, turn.run, dry=turn.dry):
                    ran.proposals += 1
                    ran.planned.append(step.action)
                continue
            ran.proposals += 1
            ran.planned.append(step.subject)
            if commits + 1 > limit[0] or weight + step.weight > limit[1]:
                ran.skipped += 1
                ran.more = True
                ran.dropped.append(f"{step.subject}: over the limit of one run")
                return
            commits, weight = commits + 1, weight + step.weight
            if not turn.dry:
                self.apply(step, job.name, turn.run, turn.near, ran)

    def apply(
        self, change: Change, job: str, run: str, near: Near, ran: Ran, *, caller: Caller | None = None
    ) -> Outcome | None:
        """Commit one change, or drop it and say why (in `ran`). Raises VaultBusy when it could not even be queued.

        `caller`: who decided on it, where that was not the job.
        """
        try:
            done = self._commit(change, caller or Caller(f"job:{job}"), run)
        except (Conflict, NotFound, InvalidNote, BadRequest) as exc:
            ran.skipped += 1
            ran.dropped.append(f"{change.subject}: {exc.message}")
            log.info("%s: dropped “%s”: %s", job, change.subject, exc.message)
            return None
        if done is None:
            ran.skipped += 1
            ran.dropped.append(f"{change.subject}: it is so already")
            return None
        ran.applied += 1
        if done.commit is not None:
            ran.commits.append(done.commit)
        near.forget(change.based_on)
        change.done()
        return done

    def _commit(self, change: Change, caller: Caller, run: str) -> Outcome | None:
        with self._ormah.writing:
            for node_id, digest in change.based_on.items():
                seen = see(self._ormah, node_id)
                if seen.digest != digest:
                    raise Conflict(f"{seen.path} was edited meanwhile", data={"id": node_id})
            edits = change.edits()

            def fill(tx: Transaction) -> None:
                for edit in edits:
                    if edit.data is None:
                        tx.remove(edit.path, node_id=edit.node_id, expect=edit.expect)
                    else:
                        tx.put(edit.path, edit.data, node_id=edit.node_id, expect=edit.expect)

            if not edits:
                return None
            done = commit(
                self._ormah, change.subject, kind=change.kind, caller=caller, body=change.body, run=run, fill=fill
            )
            return done if done.op is not None else None
