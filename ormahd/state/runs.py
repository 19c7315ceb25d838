"""The runs of jobs with their results, and which jobs are paused.

They survive restarts of the daemon, so that a daily job is run even on a laptop that is rebooted daily.
"""

from __future__ import annotations

import json
from datetime import datetime

from msgspec import Struct

from ormahd.api import RunTaskResult
from ormahd.state.state import State

MAX_RUNS = 500
"""Number of past runs that are kept for each job."""


class JobPast(Struct, frozen=True):
    """A summary of the past runs of one job. Durations are in milliseconds."""

    last_run: datetime | None = None
    last_success: datetime | None = None
    last_error: str | None = None
    """Error of the last run; None if it succeeded or was stopped."""
    run_count: int = 0
    error_count: int = 0
    last_duration_ms: float | None = None


STOPPED = "stopped before its end"
"""Stored as the error of a run during which the daemon stopped or the job was paused. It does not count as a run, so
the job is soon run again, even on a machine that is switched off every evening."""
CUT_OFF = "the daemon ended in the middle of it"
"""Stored as the error of a run during which the daemon crashed. It counts as a run: otherwise a job that crashes the
daemon would do so at every start."""


class Runs:
    """Stores the runs of jobs, and which jobs are paused. Thread-safe."""

    def __init__(self, state: State) -> None:
        self._state = state

    def born(self, jobs: list[str]) -> None:
        """Prepare the record at the daemon's start: mark runs that never ended as cut off, and register new jobs as
        just run, so that none is due at once."""
        now = self._state.clock().isoformat()
        with self._state.transaction() as db:
            db.execute("UPDATE job_run SET ended = ?, error = ? WHERE ended IS NULL", (now, CUT_OFF))
            known = {row[0] for row in db.execute("SELECT DISTINCT job FROM job_run")}
            db.executemany(
                "INSERT INTO job_run (run, job, begun, ended) VALUES ('born', ?, ?, ?)",
                [(job, now, now) for job in jobs if job not in known],
            )

    def begin(self, run: str, job: str) -> None:
        """Record that a run of a job begins now."""
        with self._state.transaction() as db:
            begun = self._state.clock().isoformat()
            db.execute("INSERT INTO job_run (run, job, begun) VALUES (?, ?, ?)", (run, job, begun))

    def end(self, ran: RunTaskResult, *, error: str | None, milliseconds: float) -> None:
        """Store the result of a run. `error`: its error, or why it was stopped."""
        counts = (ran.proposals, ran.applied, ran.skipped, json.dumps(ran.commits), milliseconds, ran.run, ran.job)
        with self._state.transaction() as db:
            db.execute(
                "UPDATE job_run SET ended = ?, error = ?, proposals = ?, applied = ?, skipped = ?, commits = ?, "
                "milliseconds = ? WHERE run = ? AND job = ?",
                (self._state.clock().isoformat(), error, *counts),
            )
            db.execute(
                "DELETE FROM job_run WHERE job = ? AND begun < (SELECT begun FROM job_run WHERE job = ? "
                "ORDER BY begun DESC LIMIT 1 OFFSET ?)",
                (ran.job, ran.job, MAX_RUNS),
            )

    def past(self, job: str) -> JobPast:
        """Return a summary of a job's past runs."""
        with self._state.transaction() as db:
            rows = db.execute(
                "SELECT begun, error, milliseconds, run FROM job_run WHERE job = ? AND ended IS NOT NULL ORDER BY begun DESC",
                (job,),
            ).fetchall()
        ran = [row for row in rows if row[3] != "born"]
        if not ran:
            return JobPast()
        wrong = [row for row in ran if row[1] not in (None, STOPPED)]
        well = next((row for row in ran if row[1] is None), None)
        return JobPast(
            last_run=_time(ran[0][0]),
            last_success=_time(well[0]) if well else None,
            last_error=None if ran[0][1] == STOPPED else ran[0][1],
            run_count=len(ran),
            error_count=len(wrong),
            last_duration_ms=ran[0][2],
        )

    def latest(self, job: str) -> datetime | None:
        """Return when the job last began, or if it never did, when it was registered. The next run is due from this
        time.

        A run that was stopped does not count. None if the job is unknown.
        """
        with self._state.transaction() as db:
            select = "SELECT max(begun) FROM job_run WHERE job = ? AND error IS NOT ?"
            row = db.execute(select, (job, STOPPED)).fetchone()
        return _time(row[0]) if row[0] is not None else None

    def paused(self) -> dict[str, datetime]:
        """Return {paused job: when it was paused}."""
        with self._state.transaction() as db:
            return {job: _time(since) for job, since in db.execute("SELECT job, since FROM job_pause")}

    def pause(self, jobs: list[str]) -> None:
        """Record that these jobs are paused from now on. A job that is paused already keeps its time."""
        now = self._state.clock().isoformat()
        with self._state.transaction() as db:
            db.executemany("INSERT OR IGNORE INTO job_pause (job, since) VALUES (?, ?)", [(job, now) for job in jobs])

    def resume(self, jobs: list[str]) -> None:
        """Record that these jobs are no longer paused."""
        with self._state.transaction() as db:
            db.executemany("DELETE FROM job_pause WHERE job = ?", [(job,) for job in jobs])


def _time(text: str) -> datetime:
    """Return the time of an ISO text."""
    return datetime.fromisoformat(text)
