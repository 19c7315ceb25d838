"""Types of `admin.*`: health, statistics, index, doctor, import, export and purge."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from ormahd.api.base import LineNumber, Params, Result
from ormahd.api.ingest import LearningHealth, SourceHealth
from ormahd.api.jobs import JudgeHealth, TaskRow


class IndexHealth(Result):
    notes: int
    pending_vectors: int
    """Pieces of text that are not embedded yet."""
    bytes: int
    model: str
    fresh: bool
    """True if everything that was seen in the vault is indexed."""


class VectorsHealth(Result):
    """How vectors are searched."""

    searched: str
    """`memory`: exactly, in the daemon; `chroma`: by the embedded Chroma; `server`: by the Chroma server; `nowhere`:
    the model is not loaded yet, so only words are searched."""
    server: str | None
    """Host and port of the configured Chroma server (`vectors.url`), which is sent each vector; null if none is
    configured."""
    trouble: str | None
    """Why Chroma does not answer at the moment (vectors are then searched in memory), or null."""


class EmbeddingHealth(Result):
    """What runs the embedding model."""

    runtime: str
    """`onnx`, `torch` or `hashing`."""
    version: str


class SyncHealth(Result):
    """The results of syncs since the daemon started."""

    remote: str
    interval_minutes: float
    """0: a sync runs only on request."""
    last: str | None
    offline_since: str | None
    trouble: str | None
    conflicts: int
    """Number of conflicts that wait for a person."""


class HealthResult(Result):
    """The daemon's health. Answering reads the index, so an answer proves that the daemon works."""

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
    busy: str | None
    watcher: str
    learning: LearningHealth
    """Who reads archived sessions for memories."""
    vectors: VectorsHealth
    rss_mb: float
    threads: int
    clients: int
    jobs: dict[str, TaskRow] = {}
    proposals: int = 0
    """Proposals that wait for a person (`agent.proposals`)."""
    sync: SyncHealth | None = None
    """Null until a sync ran or is configured."""
    archived: int = 0
    """How many of `nodes` are in the archive."""
    conflicts: int = 0
    """Versions that a sync set aside for a person."""
    last_whisper: str | None = None
    """Time of the last whisper in the log that was not silent."""
    last_whisper_agent: str | None = None
    warnings: list[str] = []
    log_file: str | None = None
    """Null if the log goes to stderr only (under systemd: to the journal)."""
    embedding: EmbeddingHealth | None = None
    """Null until the model is loaded."""
    judge: JudgeHealth | None = None
    """Null if the jobs have no judge (`jobs.judge`)."""
    free_bytes: int | None = None
    """Room on the vault's disk."""
    sources: list[SourceHealth] = []
    """The ways in by which Ormah learns by itself, and those that were ever used."""


class WhisperStats(Result):
    """Counts of whispers since `since`, and of judgements. `prompts` includes silent ones."""

    since: str | None
    """Null if nothing is logged. Older entries were deleted (`whisper.keep_days`)."""
    prompts: int
    spoken: int
    silent: dict[str, int]
    """Number of silent whispers by reason."""
    median_ms: float | None
    told: int
    """Memories shown in whispers."""
    heeded: int
    """How many of these the agent's reply shows as used."""
    useful: int
    """Judgements in the vault, of any age."""
    not_useful: int
    idle: int
    """How many of these were made with another embedding model, so that they cannot be compared with prompts now."""
    asked: int
    """Review questions asked."""
    answered: int


class StatsParams(Params):
    """What to count besides: the last `days` days one by one, and the `tags` most used tags."""

    days: Annotated[int, Meta(ge=0, le=366)] = 0
    tags: Annotated[int, Meta(ge=0, le=1_000)] = 0


class DayStats(Result):
    """What happened on a day of this machine's time zone. `new`: memories made on it that are in the vault now."""

    day: str
    whispers: int
    silences: int
    new: int


class StatsResult(Result):
    total_nodes: int
    by_tier: dict[str, int]
    by_type: dict[str, int]
    by_space: dict[str, int]
    total_edges: int
    by_edge: dict[str, int]
    plain_files: int
    """Files that are no memories: templates, drawings, copies of a note, files with a secret."""
    whisper: WhisperStats | None = None
    degraded: list[str] = []
    """`index` while the index may still lack memories of the vault: the answer is then not all of it."""
    by_tag: dict[str, int] = {}
    """The most used tags, most used first, as many as were asked for."""
    daily: list[DayStats] = []
    """The days that were asked for, oldest first."""


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
    """One batch of an import. `lines`: the raw JSON lines. `first_line`: the number of the first one."""

    lines: list[str]
    first_line: LineNumber = 1
    run: str | None = None
    """Absent on the first batch. All other batches send the first reply's `run`, so that the import is one run."""


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
    """The `next` of the previous reply: the export continues there."""
    limit: Annotated[int, Meta(ge=1, le=2_000)] = 500


class ExportResult(Result):
    items: list[dict[str, Any]]
    next: str | None


class PurgeParams(Params):
    """What to purge. `node_id`: a memory, also a forgotten one. `texts`: exact texts, wherever they occur. At least one
    of the two is required. With `dry_run` the result says what would be done."""

    node_id: str | None = None
    texts: list[str] = []
    dry_run: bool = False


class PurgeRemote(Result):
    """A remote that may have the old history. `push`: commands that push the new one; the person has to run them."""

    name: str
    url: str
    push: list[str]


class PurgeLeft(Result):
    """A file that still names the memory, and why. `path`: absolute if the file is not in the vault."""

    path: str
    why: str


class PurgeResult(Result):
    """Sizes in bytes, paths relative to the vault. A dry run leaves the numbers of commits 0, and `op`, `commit` and
    `size_after` null."""

    node_id: str | None
    dry_run: bool
    versions: int
    """Number of versions of the note in the whole history."""
    paths: list[str]
    """All paths that the note had."""
    others: list[str]
    """Other files of which some version named the memory."""
    size_before: int
    remotes: list[PurgeRemote]
    commits: int = 0
    """Number of commits that got another id, of `commits_total`."""
    commits_total: int = 0
    left: list[PurgeLeft] = []
    kept: dict[str, int] = {}
    """`{store: number of places that had it}` of what is kept beside the history: turns and titles of archived
    `sessions`, rows of the `state`, lines of the `log`, files that were `set aside`."""
    size_after: int | None = None
    op: str | None = None
    commit: str | None = None
