"""Jobs, proposals, two-phase maintenance: `admin.tasks` and its like, `agent.proposals`, `agent.maintenance`."""

from __future__ import annotations

from typing import Final

from ormahd.rpc.schema.base import NoParams, Params, Result


class TaskRow(Result):
    """A job. Times in ISO 8601; `next_run` null: not by itself."""

    name: str
    last_run: str | None
    next_run: str | None
    paused: bool
    paused_since: str | None
    running: bool
    last_error: str | None
    """Null when the last run went well."""
    last_success: str | None
    run_count: int
    error_count: int
    last_duration_ms: float | None


class TasksResult(Result):
    tasks: list[TaskRow]


class RunTaskParams(Params):
    """`name`: a job. `dry_run`: nothing is changed, `planned` says what would be. `force`: without the limits of one run."""

    name: str
    dry_run: bool = False
    force: bool = False


class RunTaskResult(Result):
    """`proposals`: what was planned; `applied` of it; `skipped`: dropped, or over the limit. Commits are full ids."""

    job: str
    proposals: int
    applied: int
    skipped: int
    commits: list[str]
    error: str | None = None
    more: bool = False
    """There is more to do than one run may; run it again, or with `force`."""
    planned: list[str] = []
    """The first 1,000 sentences."""
    dropped: list[str] = []


class RunAllParams(Params):
    dry_run: bool = False
    force: bool = False


class RunAllResult(Result):
    results: list[RunTaskResult]


class TaskParams(Params):
    name: str


class PausedResult(Result):
    """The jobs that are paused now."""

    paused: list[str]


JOBS: Final[dict[str, tuple[type[Params], type[Result]]]] = {
    "admin.tasks": (NoParams, TasksResult),
    "admin.run_task": (RunTaskParams, RunTaskResult),
    "admin.run_all": (RunAllParams, RunAllResult),
    "admin.pause": (TaskParams, PausedResult),
    "admin.resume": (TaskParams, PausedResult),
    "admin.pause_all": (NoParams, PausedResult),
    "admin.resume_all": (NoParams, PausedResult),
}
