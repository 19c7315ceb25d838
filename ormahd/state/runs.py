"""When each job ran and what came of it, and which jobs are paused: kept across restarts, so that a daily job also runs on
a laptop that is rebooted daily."""

from __future__ import annotations

import json
from datetime import datetime

from msgspec import Struct

from ormahd.state.state import State

KEPT = 500
"""Runs of each job that are remembered."""


class JobPast(Struct, frozen=True):
    """What the book says of one job. Durations in milliseconds."""

    last_run: datetime | None = None
    last_success: datetime | None = None
    last_error: str | None = None
    """Null when the last run went well."""
    last_error_time: datetime | None = None
    run_count: int = 0
    error_count: int = 0
    last_duration_ms: float | None = None


STOPPED = "stopped before its end"
"""What stands in the place of an error where the daemon stopped, or the job was paused, in the middle of a run. It did not
fail; but it counts as not run, so that a machine that is switched off every evening gets there."""
CUT_OFF = "the daemon ended in the middle of it"
"""After a crash. It counts as run: were a job to bring the daemon down, it would do so at every start."""


class Runs:
    """Safe for many threads."""

    def __init__(self, state: State) -> None:
        self._state = state

    def born(self, jobs: list[str]) -> None:
        """Jobs that were never heard of count as run now: a fresh vault has nothing to tidy, and a start none to wait for."""
        now = self._state.clock().isoformat()
        with self._state.transaction() as db:
            db.execute("UPDATE job_run SET ended = ?, error = ? WHERE ended IS NULL", (now, CUT_OFF))
            known = {row[0] for row in db.execute("SELECT DISTINCT job FROM job_run")}
            db.executemany(
                "INSERT INTO job_run (run, job, begun, ended) VALUES ('born', ?, ?, ?)",
                [(job, now, now) for job in jobs if job not in known],
            )

    def begin(self, run: str, job: str) -> None:
        with self._state.transaction() as db:
            db.execute(
                "INSERT INTO job_run (run, job, begun) VALUES (?, ?, ?)", (run, job, self._state.clock().isoformat())
            )

    def end(
        self, run: str, job: str, *, error: str | None, proposals: int, applied: int, skipped: int, commits: list[str],
        milliseconds: float,
    ) -> None:  # fmt: skip
        with self._state.transaction() as db:
            db.execute(
                "UPDATE job_run SET ended = ?, error = ?, proposals = ?, applied = ?, skipped = ?, commits = ?, "
                "milliseconds = ? WHERE run = ? AND job = ?",
                (
                    self._state.clock().isoformat(),
                    error,
                    proposals,
                    applied,
                    skipped,
                    json.dumps(commits),
                    milliseconds,
                    run,
                    job,
                ),
            )
            db.execute(
                "DELETE FROM job_run WHERE job = ? AND begun < (SELECT begun FROM job_run WHERE job = ? "
                "ORDER BY begun DESC LIMIT 1 OFFSET ?)",
                (job, job, KEPT),
            )

    def past(self, job: str) -> JobPast:
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
            last_run=_time(ran[0][0]), last_success=_time(well[0]) if well else None,
            last_error=None if ran[0][1] == STOPPED else ran[0][1], last_error_time=_time(wrong[0][0]) if wrong else None,
            run_count=len(ran), error_count=len(wrong), last_duration_ms=ran[0][2],
        )  # fmt: skip

    def latest(self, job: str) -> datetime | None:
        """When it was begun last, or else when it was first heard of: what the next run is counted from. A run that was
        stopped does not count."""
        with self._state.transaction() as db:
            row = db.execute(
                "SELECT max(begun) FROM job_run WHERE job = ? AND error IS NOT ?", (job, STOPPED)
            ).fetchone()
        return _time(row[0]) if row[0] is not None else None

    def paused(self) -> dict[str, datetime]:
        """Paused jobs, and since when."""
        with self._state.transaction() as db:
            return {job: _time(since) for job, since in db.execute("SELECT job, since FROM job_pause")}

    def pause(self, jobs: list[str]) -> None:
        now = self._state.clock().isoformat()
        with self._state.transaction() as db:
            db.executemany("INSERT OR IGNORE INTO job_pause (job, since) VALUES (?, ?)", [(job, now) for job in jobs])

    def resume(self, jobs: list[str]) -> None:
        with self._state.transaction() as db:
            db.executemany("DELETE FROM job_pause WHERE job = ?", [(job,) for job in jobs])


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)
