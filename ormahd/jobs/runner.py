"""The runner: run jobs, apply the changes that they plan, within limits and in one commit each, and record the runs.

A change is applied only if the notes that it is based on are unchanged (DESIGN section 5). If a person edited one
meanwhile, that change is dropped and reported. No vault lock is held while a job plans or a judge answers. `JOBS`
lists all jobs in the order in which `run all` runs them.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Final

from msgspec import Struct

from ormahd.actions.amend import Caller, Progress, silent
from ormahd.api import Finding, PausedResult, RunTaskResult
from ormahd.errors import BadRequest, Conflict, InvalidNote, NotFound, OrmahError, Unavailable, VaultBusy, near
from ormahd.jobs.clusters.job import AutoCluster
from ormahd.jobs.conflicts.change import approved_conflict
from ormahd.jobs.conflicts.job import ConflictDetector
from ormahd.jobs.consolidation.job import Consolidator
from ormahd.jobs.decay.job import DecayManager, ImportanceScorer
from ormahd.jobs.duplicates.change import from_payload
from ormahd.jobs.duplicates.job import DuplicateMerger
from ormahd.jobs.job import QUESTIONS, Ask, Done, Job, PlannedChange, RunContext, Step, Stopped, apply
from ormahd.jobs.links.job import AutoLinker
from ormahd.jobs.memories import new_memory
from ormahd.jobs.neighbours import TEXT_STAYS, NearMemories
from ormahd.jobs.proposals import MAX_PROPOSALS, ChangeOf, Proposals, StoreOutcome
from ormahd.judge.port import Judge
from ormahd.model.node import ProposalType, short_id
from ormahd.ormah import Ormah
from ormahd.process import priority
from ormahd.state.proposals import Verdicts
from ormahd.state.runs import CUT_OFF, STOPPED, JobPast, Runs


class IndexUpdater:
    """The job that runs the reconciler's scan. It plans no changes, because the scan makes its own commits."""

    name = "index_updater"

    def plan(self, context: RunContext) -> Iterator[Step]:
        """Scan the vault, then yield the numbers of changed and skipped files. A dry run does nothing."""
        if not context.dry:
            found = context.ormah.reconciler.scan(progress=lambda done, total: context.progress(done, total, "files"))
            yield Done(found.edited + found.removed + found.indexed, len(found.skipped))


JOBS: tuple[Job, ...] = (
    ImportanceScorer(),
    IndexUpdater(),
    DuplicateMerger(),
    ConflictDetector(),
    AutoLinker(),
    AutoCluster(),
    Consolidator(),
    DecayManager(),
)

CHANGES_OF: Mapping[ProposalType, ChangeOf] = {
    ProposalType.MERGE: from_payload,
    ProposalType.CONFLICT: approved_conflict,
    ProposalType.MEMORY: new_memory,
    # decay: decay_manager
}
"""{type of proposal: function that makes the change of an approved proposal from its payload}."""


log = logging.getLogger("ormahd.jobs")

LISTED: Final = 1_000
"""Maximum length of the lists of planned and of dropped changes in a reply."""
MAX_SHARE: Final = 0.1
"""Maximum weight of the changes of one run of a job, as a share of the number of memories, so that a faulty job
is noticed early."""
FEW = 20
"""Minimum of that limit, for small vaults, in notes or edges."""
WAIT_S = 0.2
"""Seconds between two checks whether the current run has ended."""
LOW_PRIORITY = 5
"""Niceness of a run's thread. It is moderate because the thread sometimes holds locks that others wait for."""


class JobStatus(Struct, frozen=True):
    """The status of a job, as shown by `ormahctl status` and `ormahctl jobs`. `past`: a summary of its runs.
    `paused`: since when, or None."""

    name: str
    past: JobPast
    paused: datetime | None
    running: bool


class Runner:
    """Runs jobs, one run at a time. A caller that requests another run waits until the current one ends. Thread-safe."""

    def __init__(
        self,
        ormah: Ormah,
        jobs: Sequence[Job],
        judge: Judge | None = None,
        *,
        proposals_at_a_time: int = MAX_PROPOSALS,
        max_share: float = MAX_SHARE,
        questions: int = QUESTIONS,
    ) -> None:
        self.ormah = ormah
        self._judge = judge
        self._max_share, self._questions = max_share, questions
        self._max_changes = ormah.settings.jobs.max_changes
        self.jobs = {job.name: job for job in jobs}
        self.runs = Runs(ormah.state)
        self.verdicts = Verdicts(ormah.state)
        self.proposals = Proposals(ormah, CHANGES_OF, proposals_at_a_time)
        self._alone = threading.Lock()
        self._running: set[str] = set()
        self._halted: set[str] = set()
        """Names of running jobs that were paused, and so must end."""
        self._marks = threading.Lock()
        self._stopping = threading.Event()
        self.stopping = self._stopping.is_set
        self.runs.born(list(self.jobs))

    # ------------------------------------------------------------ status and pausing

    def named(self, name: str, *, one: bool = False) -> list[str]:
        """Return the names of the jobs that `name` means: one job, or every job for "all" (not allowed with `one`).

        Raises:
            NotFound: there is no such job.
        """
        if name == "all" and not one:
            return list(self.jobs)
        if name not in self.jobs:
            meant = near(name, self.jobs)
            hint = f"did you mean {meant}?" if meant else "there are: " + ", ".join(self.jobs)
            raise NotFound(f"there is no job '{name[:100]}'", hint=hint)
        return [name]

    def tasks(self) -> list[JobStatus]:
        """Return the status of each job."""
        paused = self.runs.paused()
        with self._marks:
            running = set(self._running)
        return [JobStatus(name, self.runs.past(name), paused.get(name), name in running) for name in self.jobs]

    def pause(self, names: Sequence[str]) -> PausedResult:
        """Pause jobs: until resumed, they do not run by themselves. A running job ends after its current change. Return
        the jobs that are paused now."""
        self.runs.pause(list(names))
        with self._marks:
            self._halted.update(self._running.intersection(names))
        return self._paused()

    def resume(self, names: Sequence[str]) -> PausedResult:
        """Let these jobs run again when they are due. Return the jobs that are still paused."""
        self.runs.resume(list(names))
        return self._paused()

    def _paused(self) -> PausedResult:
        """Return the names of the paused jobs."""
        paused = self.runs.paused()
        return PausedResult([name for name in self.jobs if name in paused])

    def findings(self) -> Iterator[Finding]:
        """Yield what `doctor` reports: jobs that failed or are paused, and unreadable decisions on proposals."""
        for task in self.tasks():
            if task.past.last_error == CUT_OFF:
                what = f"the job {task.name} was cut off: {CUT_OFF}"
                mend = f"nothing is lost; it goes on with its next run (ormahctl jobs run {task.name})"
                yield Finding("info", what, mend=mend)
            elif task.past.last_error is not None:
                what = f"the job {task.name} failed: {task.past.last_error}"
                mend = f"the log says more (ormahctl logs); when it is mended: ormahctl jobs run {task.name}"
                yield Finding("warning", what, mend=mend)
            if task.paused is not None:
                what = f"the job {task.name} is paused since {task.paused:%Y-%m-%d}"
                yield Finding("info", what, mend=f"ormahctl jobs resume {task.name}")
        for path, line, why in self.proposals.bad_lines():
            what = f"a decision on a proposal cannot be read: {why}"
            yield Finding("warning", what, path, line, "mend the line, or delete it")

    def stop(self) -> None:
        """End the current run after its current change, and start no further run."""
        self._stopping.set()

    # ------------------------------------------------------------ running

    def run(
        self,
        names: Sequence[str],
        *,
        dry: bool = False,
        force: bool = False,
        by_itself: bool = False,
        progress: Progress = silent,
    ) -> list[RunTaskResult]:
        """Run these jobs one after the other as one run, and return their results.

        If a job fails, its result has an `error`, and the next job runs. Jobs that did not start because the daemon
        stops have no result. `dry`: change nothing. `force`: without limits. `by_itself`: the timetable requested the
        run, so paused jobs are left out.

        Raises:
            Unavailable: the daemon stops.
        """
        done: list[RunTaskResult] = []
        faults: list[BaseException] = []

        def work() -> None:
            """Run the jobs at low priority, which a thread cannot undo. Store results and exceptions in the lists."""
            priority.step_back(LOW_PRIORITY)
            try:
                run, near = self.ormah.new_run(), NearMemories(self.ormah.index)
                if not dry:
                    self.proposals.follow()  # stale proposals must not use up the limit of pending ones
                for name in names:
                    if self._stopping.is_set():
                        break
                    if by_itself and name in self.runs.paused():
                        continue
                    with self._marks:
                        self._running.add(name)
                        self._halted.discard(name)
                    context = RunContext(
                        self.ormah,
                        self.verdicts,
                        near,
                        self._judge,
                        run,
                        self.ormah.ranking_clock(),
                        dry,
                        stopping=lambda: self._stopping.is_set() or name in self._halted,  # noqa: B023 - for this job
                        progress=lambda at, total, stage: progress(at, total, f"{name}: {stage}"),  # noqa: B023 - for this job
                        limit=math.inf if force else max(FEW, self._max_share * self.ormah.index.stats().nodes),
                        questions=self._questions,
                    )
                    try:
                        done.append(self._job(self.jobs[name], context, math.inf if force else self._max_changes))
                    finally:
                        with self._marks:
                            self._running.discard(name)
            except BaseException as exc:  # noqa: BLE001 - raised again below, in the thread that asked
                faults.append(exc)

        # The scan has a lock of its own, so a request for a scan alone need not wait for a long run
        wait = bool(set(names) - {IndexUpdater.name})
        while wait and not self._alone.acquire(timeout=WAIT_S):
            self._check_stopping()
            progress(0, 0, "waiting for the run under way")
        try:
            self._check_stopping()
            thread = threading.Thread(target=work, name="jobs", daemon=True)
            thread.start()
            thread.join()
        finally:
            if wait:
                self._alone.release()
        if faults:
            raise faults[0]
        return done

    def run_whole(self, names: Sequence[str], *, dry: bool, force: bool, progress: Progress) -> list[RunTaskResult]:
        """Run these jobs for a caller's request. Return the result of each, with its lists cut to LISTED entries.

        Raises:
            Unavailable: the daemon stops, and not all of the jobs ran.
        """
        done = self.run(names, dry=dry, force=force, progress=progress)
        if len(done) < len(names):
            raise Unavailable("the daemon stops; what was committed stands", hint="start it again: ormahctl up")
        for ran in done:
            del ran.planned[LISTED:], ran.dropped[LISTED:]
        return done

    def _check_stopping(self) -> None:
        """Raise Unavailable if the daemon is stopping."""
        if self._stopping.is_set():
            raise Unavailable("the daemon stops", hint="start it again: ormahctl up")

    def _job(self, job: Job, context: RunContext, commits: float) -> RunTaskResult:
        """Run one job, and record the run. `commits`: maximum number of its commits."""
        ran, begun, stopped = RunTaskResult(job.name, 0, 0, 0, [], run=context.run), time.monotonic(), False
        publish = partial(self.ormah.events.publish, "job", job=job.name, run=context.run)

        # Runs are recorded before and after, so that one that was killed is seen
        if not context.dry:
            self.runs.begin(context.run, job.name)
            publish(state="began")
        try:
            if job.name != IndexUpdater.name:
                context.wait_for_vectors()
            context.progress(0, 0, "thinking")
            self._carry_out(job, context, ran, commits)
        except Stopped:
            ran.more = stopped = True
            ran.dropped.append(STOPPED)
        except OrmahError as exc:
            ran.error = exc.message
            log.warning("%s was broken off (%s); `ormahctl jobs` says why", job.name, exc.code)
        except Exception as exc:  # a bug in one job must not stop the other jobs
            ran.error = f"a fault of its own: {exc!r}"
            log.exception("%s met a fault", job.name)

        # What is told of the run
        if (unanswered := context.asked.left_open()) is not None:
            ran.dropped.append(unanswered)
        if not context.dry:
            took = 1000 * (time.monotonic() - begun)
            self.runs.end(ran, error=STOPPED if stopped else ran.error, milliseconds=took)
            publish(state="ended", proposals=ran.proposals, applied=ran.applied, error=ran.error)
            log.info("%s: %d planned, %d applied, %d skipped", job.name, ran.proposals, ran.applied, ran.skipped)
        return ran

    def _carry_out(self, job: Job, context: RunContext, ran: RunTaskResult, commits: float) -> None:
        """Carry out the steps of a job's plan, and add their numbers to `ran`. Ends at the limits of one run.

        `commits`: maximum number of changes; the limit of memories is in the context.
        """
        weight = context.limit  # number of memories that may still change
        for step in job.plan(context):
            context.give()

            # A report of work done
            if isinstance(step, Done):
                ran.applied += step.applied
                ran.skipped += step.skipped
                ran.more = ran.more or step.more
                continue

            # A proposal
            if isinstance(step, Ask):
                outcome = self.proposals.store(step, context.run, dry=context.dry)
                if outcome is StoreOutcome.FULL:
                    ran.more = True
                    ran.dropped.append(f"{step.action}: too many proposals wait to be decided on (ormahctl review)")
                    return
                if outcome is StoreOutcome.NEW:
                    ran.proposals += 1
                    ran.asked += 1
                    ran.planned.append(f"proposal: {step.action}")
                continue

            # A change, if the limits of the run allow it
            ran.proposals += 1
            if step.weight > context.limit:
                ran.skipped += 1
                ran.dropped.append(f"{step.subject}: more than a whole run may change (--force)")
                continue
            commits, weight = commits - 1, weight - step.weight
            if commits < 0 or weight < 0:
                ran.skipped += 1
                ran.more = True
                ran.dropped.append(f"{step.subject}: over the limit of one run")
                return
            ran.planned.append(step.subject)
            if not context.dry:
                self._apply(step, job.name, context, ran)

    def _apply(self, change: PlannedChange, job: str, context: RunContext, ran: RunTaskResult) -> None:
        """Commit one change, or drop it and record the reason in `ran`.

        Raises:
            VaultBusy: another process holds git. Otherwise each change would wait for git, and block other writes.
        """
        if why := self.ormah.vault.busy():
            raise VaultBusy(f"git is held: {why}; what is left waits for the next run", hint="finish it (git status)")
        dropped = "it is so already"
        try:
            done = apply(self.ormah, change, Caller(f"job:{job}"), run=context.run)
        except (Conflict, NotFound, InvalidNote, BadRequest) as exc:
            done, dropped = None, exc.message
            ids = ", ".join(map(short_id, change.based_on))
            log.info("%s: a change of kind %s was dropped (%s): %s", job, change.kind, exc.code, ids)
        if done is None:
            ran.skipped += 1
            ran.dropped.append(f"{change.subject}: {dropped}")
            return
        ran.applied += 1
        if done.commit is not None:
            ran.commits.append(done.commit)
        if change.kind not in TEXT_STAYS:
            context.near.forget(change.based_on)
        change.done()
