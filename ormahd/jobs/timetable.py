"""Run jobs periodically: each a fixed number of hours after its last run, also across restarts (with the library
`schedule`).

A job whose time passed while the daemon was off runs once, `CATCH_UP_S` after the start. Jobs that are due together
run in the order of `JOBS`.
"""

from __future__ import annotations

import logging
import threading
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import schedule

from ormahd.actions.views import iso, of_row
from ormahd.api import TaskRow, TasksResult
from ormahd.errors import OrmahError
from ormahd.jobs.runner import Runner
from ormahd.settings import JobSettings

log = logging.getLogger("ormahd.jobs")

LOOK_S = 30.0
"""Maximum seconds between two checks for jobs that are due."""
CATCH_UP_S: Final = 120.0
"""Seconds after the daemon's start until the jobs run whose time passed while the daemon was off."""
HOURS: Final = {"importance_scorer": 2.0, "index_updater": 1.0}
"""Hours between two runs of a job; for the other jobs it is `jobs.nightly_hours`."""


class Timetable:
    """Runs jobs when they are due, in a thread that lives from `start` to `stop`."""

    def __init__(self, runner: Runner, settings: JobSettings, *, catch_up_s: float = CATCH_UP_S) -> None:
        self.runner = runner
        self._settings = settings
        self._catch_up_s = catch_up_s
        self._due: set[str] = set()
        self._scheduler = self._planned()  # before `start`, so that a daemon that is still warming tells the times
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="timetable", daemon=True)

    def start(self) -> None:
        """Start running jobs when they are due. Do nothing if the setting `jobs.enabled` is off.

        The times are computed again from now, so that missed runs begin `catch_up_s` after this call even if the
        start of the daemon took long.
        """
        if self._settings.enabled:
            self._scheduler = self._planned()
            self._thread.start()

    def _planned(self) -> schedule.Scheduler:
        """Return a scheduler with the next run of each job that runs by itself."""
        scheduler = schedule.Scheduler()
        soonest = datetime.now(UTC) + timedelta(seconds=self._catch_up_s)
        for name in filter(self._hours, self.runner.jobs if self._settings.enabled else ()):
            hours = self._hours(name)
            every = scheduler.every(max(1, round(hours * 3600))).seconds.do(self._due.add, name).tag(name)
            last = self.runner.runs.latest(name)
            if last is not None:
                every.next_run = _local_time(max(soonest, min(last, soonest) + timedelta(hours=hours)))
        return scheduler

    def _hours(self, name: str) -> float:
        """Return the hours between two runs of a job; 0 means that it never runs by itself."""
        return HOURS.get(name, self._settings.nightly_hours)

    def stop(self, seconds: float) -> bool:
        """Start no further run, and end the current one after its current change. Wait for that, at most `seconds`.

        Return False if the run has not ended by then.
        """
        self._stopping.set()
        self.runner.stop()
        if self._thread.ident is not None:
            self._thread.join(seconds)
        return not self._thread.is_alive()

    def soon(self, name: str) -> None:
        """Mark a job as due at the next check. Do nothing for a job that never runs by itself."""
        if self._hours(name):
            self._due.add(name)

    def next_run(self, name: str) -> datetime | None:
        """Return when the job runs next by itself; None if never."""
        return next((job.next_run.astimezone(UTC) for job in self._scheduler.get_jobs(name) if job.next_run), None)

    def tasks(self) -> TasksResult:
        """Return every job with the times of its last and its next run."""
        rows = []
        for task in self.runner.tasks():
            state: dict[str, Any] = {"paused": task.paused is not None, "running": task.running}
            rows.append(of_row(TaskRow, task.past, name=task.name, next_run=iso(self.next_run(task.name)), **state))
        return TasksResult(rows)

    def _run(self) -> None:
        """Run the jobs that are due, and check for missed ones, until `stop` is called. The body of the thread."""
        while not self._stopping.is_set():
            for job in self._scheduler.get_jobs():  # the clock may have been ahead when the run was planned
                latest = _local_time(datetime.now(UTC)) + timedelta(seconds=job.interval)
                job.next_run = min(job.next_run or latest, latest)
            self._scheduler.run_pending()
            try:
                self._maintain()
            except OrmahError as exc:
                log.info("maintenance did not run: %s", exc.message)
            except Exception:  # a failure must not end the thread: the next check follows
                log.exception("maintenance failed")
            idle = self._scheduler.idle_seconds
            self._stopping.wait(LOOK_S if idle is None else min(LOOK_S, max(1.0, idle)))

    def _maintain(self) -> None:
        """Run the jobs that are due, in the order of `JOBS`. A paused job remains due, and runs once when it is
        resumed."""
        if self._due:
            paused = self.runner.runs.paused()
            due = [name for name in self.runner.jobs if name in self._due and name not in paused]
            self._due.difference_update(due)
            if due:
                self.runner.run(due, by_itself=True)


def _local_time(time: datetime) -> datetime:
    """Convert to local time without a time zone, the form that `schedule` uses."""
    return time.astimezone().replace(tzinfo=None)
