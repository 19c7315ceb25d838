"""`admin.*`: looking after the daemon, its index and its jobs."""

from __future__ import annotations

from typing import Any, Final

from ormahd.rpc.schema.base import Count, LineNumber, NoParams, Params, Result


class JobHealth(Result):
    last_run: str | None = None
    last_success: str | None = None
    last_error: str | None = None
    last_error_time: str | None = None
    run_count: int = 0
    error_count: int = 0
    last_duration_ms: float | None = None


class IndexHealth(Result):
    directory: str
    notes: int
    pending_vectors: int
    """Pieces of text that wait for the model."""
    bytes: int
    model: str
    head: str | None
    fresh: bool
    """True when nothing that was seen in the vault is still to be indexed."""


class HealthResult(Result):
    """Answered only after a real read of the index, so that it proves work and not only a pid."""

    status: str
    phase: str
    version: str
    protocol: int
    pid: int
    uptime_seconds: float
    vault: str
    vault_id: str
    socket: str
    nodes: int
    index: IndexHealth
    degraded: list[str]
    queued: int
    """Writes that are safe and wait for git."""
    busy: str | None
    watcher: str
    rss_mb: float
    threads: int
    clients: int
    jobs: dict[str, JobHealth] = {}
    warnings: list[str] = []
    log_file: str | None = None
    """Null where the log goes to stderr only (under systemd: the journal)."""


class StatsResult(Result):
    total_nodes: int
    by_tier: dict[str, int]
    by_type: dict[str, int]
    by_space: dict[str, int]
    total_edges: int
    by_edge: dict[str, int]
    plain_files: int
    """Files that are findable as text but are no memories (foreign, broken, not adopted)."""


class RebuildResult(Result):
    status: str
    nodes_indexed: int
    seconds: float


class Difference(Result):
    what: str
    path: str | None = None
    id: str | None = None
    detail: str = ""


class VerifyResult(Result):
    ok: bool
    differences: list[Difference]


class Finding(Result):
    level: str
    """error, warning or info."""
    what: str
    path: str | None = None
    line: int | None = None
    mend: str = ""


class DoctorResult(Result):
    findings: list[Finding]


class DoctorParams(Params):
    fix: bool = False


class ImportParams(Params):
    """One batch of an import. `lines` are the raw JSON lines, `first_line` the number of the first one."""

    lines: list[str]
    first_line: LineNumber = 1
    run: str | None = None
    """Unset on the first batch; the reply's `run` on all others, so that the import is one run."""


class ImportFailure(Result):
    line: int
    error: str


class ImportResult(Result):
    added: int
    skipped: int
    failed: list[ImportFailure]
    run: str
    redacted: int = 0


class ExportParams(Params):
    after: str | None = None
    """The reply's `next`: export goes on behind it."""
    limit: Count = 500


class ExportResult(Result):
    items: list[dict[str, Any]]
    next: str | None


class RunTaskParams(Params):
    name: str


class RunTaskResult(Result):
    job: str
    proposals: int
    applied: int
    skipped: int
    commits: list[str]


ADMIN: Final[dict[str, tuple[type[Params], type[Result]]]] = {
    "admin.health": (NoParams, HealthResult),
    "admin.stats": (NoParams, StatsResult),
    "admin.rebuild": (NoParams, RebuildResult),
    "admin.verify": (NoParams, VerifyResult),
    "admin.doctor": (DoctorParams, DoctorResult),
    "admin.import": (ImportParams, ImportResult),
    "admin.export": (ExportParams, ExportResult),
    "admin.run_task": (RunTaskParams, RunTaskResult),
}
