"""`admin.tasks` and its like: jobs, run, paused and resumed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ormahd import api
from ormahd.actions.caller import Caller
from ormahd.actions.views import iso
from ormahd.errors import Unavailable
from ormahd.jobs.runner import Ran, Runner
from ormahd.jobs.timetable import Timetable
from ormahd.rpc.answer_proposals import ProposalMethods
from ormahd.rpc.handling import Handler, ProgressFn, steps
from ormahd.state.runs import CUT_OFF

SAID = 1_000
"""Sentences of a run that are sent."""


class JobMethods:
    """One method here answers one method of the wire; nothing is decided."""

    def __init__(self, runner: Runner, timetable: Timetable) -> None:
        self._runner = runner
        self._timetable = timetable

    def table(self) -> dict[str, Handler]:
        return {
            "admin.tasks": self.tasks,
            "admin.run_task": self.run_task,
            "admin.run_all": self.run_all,
            "admin.pause": self.pause,
            "admin.resume": self.resume,
            "admin.pause_all": self.pause_all,
            "admin.resume_all": self.resume_all,
            **ProposalMethods(self._runner.proposals).table(),
        }

    def health(self) -> dict[str, api.JobHealth]:
        return {
            task.name: api.JobHealth(
                last_run=iso(task.past.last_run), last_success=iso(task.past.last_success), last_error=task.past.last_error,
                last_error_time=iso(task.past.last_error_time), run_count=task.past.run_count,
                error_count=task.past.error_count, last_duration_ms=task.past.last_duration_ms,
                paused=task.paused is not None, running=task.running,
            )
            for task in self._runner.tasks()
        }  # fmt: skip

    def pending(self) -> int:
        """Proposals that wait for a person."""
        return self._runner.proposals.pending()

    def findings(self) -> Iterator[api.Finding]:
        """What `doctor` says of jobs and of what was decided."""
        for task in self._runner.tasks():
            if task.past.last_error == CUT_OFF:
                what = f"the job {task.name} was cut off: {CUT_OFF}"
                mend = f"nothing is lost; it goes on with its next run (ormahctl jobs run {task.name})"
                yield api.Finding(level="info", what=what, mend=mend)
            elif task.past.last_error is not None:
                what = f"the job {task.name} failed: {task.past.last_error}"
                mend = f"the log says more (ormahctl logs); when it is mended: ormahctl jobs run {task.name}"
                yield api.Finding(level="warning", what=what, mend=mend)
            if task.paused is not None:
                what = f"the job {task.name} is paused since {task.paused:%Y-%m-%d}"
                yield api.Finding(level="info", what=what, mend=f"ormahctl jobs resume {task.name}")
        for path, line, why in self._runner.proposals.bad_lines():
            what = f"a decision on a proposal cannot be read: {why}"
            yield api.Finding(level="warning", what=what, path=path, line=line, mend="mend the line, or delete it")

    def tasks(self, _params: api.NoParams, _caller: Caller, _: ProgressFn) -> api.Result:
        return api.TasksResult(tasks=[
            api.TaskRow(
                name=task.name, last_run=iso(task.past.last_run), next_run=iso(self._timetable.next_run(task.name)),
                paused=task.paused is not None, paused_since=iso(task.paused), running=task.running,
                last_error=task.past.last_error, last_success=iso(task.past.last_success), run_count=task.past.run_count,
                error_count=task.past.error_count, last_duration_ms=task.past.last_duration_ms,
            )
            for task in self._runner.tasks()
        ])  # fmt: skip

    def run_task(self, params: api.RunTaskParams, _caller: Caller, progress: ProgressFn) -> api.Result:
        (ran,) = self._run(self._runner.named(params.name, one=True), params.dry_run, params.force, progress)
        return _told(ran)

    def run_all(self, params: api.RunAllParams, _caller: Caller, progress: ProgressFn) -> api.Result:
        done = self._run(self._runner.named("all"), params.dry_run, params.force, progress)
        return api.RunAllResult(results=[_told(ran) for ran in done])

    def _run(self, names: Sequence[str], dry: bool, force: bool, progress: ProgressFn) -> list[Ran]:
        done = self._runner.run(names, dry=dry, force=force, progress=steps(progress))
        if len(done) < len(names):
            raise Unavailable("the daemon stops; what was committed stands", hint="start it again: ormahctl up")
        return done

    def pause(self, params: api.TaskParams, _caller: Caller, _: ProgressFn) -> api.Result:
        return self._paused(pause=self._runner.named(params.name))

    def resume(self, params: api.TaskParams, _caller: Caller, _: ProgressFn) -> api.Result:
        return self._paused(resume=self._runner.named(params.name))

    def pause_all(self, _params: api.NoParams, _caller: Caller, _: ProgressFn) -> api.Result:
        return self._paused(pause=self._runner.named("all"))

    def resume_all(self, _params: api.NoParams, _caller: Caller, _: ProgressFn) -> api.Result:
        return self._paused(resume=self._runner.named("all"))

    def _paused(self, *, pause: Sequence[str] = (), resume: Sequence[str] = ()) -> api.Result:
        self._runner.pause(pause)
        self._runner.resume(resume)
        paused = self._runner.runs.paused()
        return api.PausedResult(paused=[name for name in self._runner.jobs if name in paused])


def _told(ran: Ran) -> api.RunTaskResult:
    return api.RunTaskResult(
        job=ran.job, run=ran.run, proposals=ran.proposals, asked=ran.asked, applied=ran.applied, skipped=ran.skipped, commits=ran.commits,
        error=ran.error, more=ran.more, planned=ran.planned[:SAID], dropped=ran.dropped[:SAID],
    )  # fmt: skip
