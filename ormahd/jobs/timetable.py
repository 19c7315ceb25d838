"""When jobs run by themselves: each so many hours after its last run, also across restarts (the library `schedule`).

What was missed while the machine was off runs once, some minutes after the start, in the order of the sleep cycle.
"""

from __future__ import annotations

import logging
import threading
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import schedule

from ormahd.actions.views import iso
from ormahd.api import TaskRow, TasksResult
from ormahd.errors import OrmahError

if TYPE_CHECKING:
    from ormahd.jobs.runner import Runner
    from ormahd.settings import JobSettings

log = logging.getLogger("ormahd.jobs")

LOOK_S = 30.0
"""Seconds between two looks at the timetable, at most."""


class Timetable:
    """A thread from `start` to `stop`."""

    def __init__(self, runner: Runner, settings: JobSettings) -> None:
        self.runner = runner
        self._settings = settings
        self._scheduler = schedule.Scheduler()
        self._due: set[str] = set()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="timetable", daemon=True)

    def start(self) -> None:
        """From now on jobs run when they are due. Nothing happens where jobs are not to run by themselves."""
        if not self._settings.enabled:
            return
        soonest = datetime.now(UTC) + timedelta(seconds=self._settings.catch_up_seconds)
        for name in self.runner.jobs:
            hours = self._hours(name)
            if not hours:
                continue
            every = self._scheduler.every(max(1, round(hours * 3600))).seconds.do(self._due.add, name).tag(name)
            last = self.runner.runs.latest(name)
            if last is not None:
                every.next_run = _local(max(soonest, last + timedelta(hours=hours)))
        self._thread.start()

    def _hours(self, name: str) -> float:
        """Hours between two runs of a job; 0: it never runs by itself."""
        own = {
            "importance_scorer": self._settings.importance_scorer_hours,
            "index_updater": self._settings.index_updater_hours,
        }
        return own.get(name, self._settings.nightly_hours)

    def stop(self, seconds: float) -> bool:
        """Nothing new begins, and the run under way ends after the change it is at. False: it goes on after `seconds`."""
        self._stopping.set()
        self.runner.stop()
        if self._thread.ident is not None:
            self._thread.join(seconds)
        return not self._thread.is_alive()

    def next_run(self, name: str) -> datetime | None:
        """When the job runs next by itself; None: never."""
        times = [job.next_run for job in self._scheduler.get_jobs(name) if job.next_run is not None]
        return times[0].astimezone(UTC) if times else None

    def tasks(self) -> TasksResult:
        """Return every job, with when it ran and runs next."""
        return TasksResult([
            TaskRow(
                task.name, iso(task.past.last_run), iso(self.next_run(task.name)), task.paused is not None,
                iso(task.paused), task.running, task.past.last_error, iso(task.past.last_success), task.past.run_count,
                task.past.error_count, task.past.last_duration_ms,
            )
            for task in self.runner.tasks()
        ])  # fmt: skip

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._scheduler.run_pending()
            try:
                self._maintain()
            except OrmahError as exc:
                log.info("maintenance did not run: %s", exc.message)
            except Exception:  # the next turn comes all the same
                log.exception("maintenance failed")
            idle = self._scheduler.idle_seconds
            self._stopping.wait(LOOK_S if idle is None else min(LOOK_S, max(1.0, idle)))

    def _maintain(self) -> None:
        """Run what is due, in the order of the sleep cycle. What is due while it is paused runs once when it is resumed."""
        if self._due:
            paused = self.runner.runs.paused()
            due = [name for name in self.runner.jobs if name in self._due and name not in paused]
            self._due.difference_update(due)
            if due:
                self.runner.run(due, by_itself=True)


def _local(time: datetime) -> datetime:
    """As `schedule` has times: local, without a zone."""
    return time.astimezone().replace(tzinfo=None)
