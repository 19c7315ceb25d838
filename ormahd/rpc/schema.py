"""Parameters and results of every method, one Struct each (msgspec only: clients import this file too).

Unset and null differ where a field can be cleared: unset leaves it, null clears it. `space` unset means "detect it
from the caller's `cwd`", null means global. Ids in parameters may be any unique prefix of 4 or more characters.
Times are ISO 8601 strings; a bare date in `created_before` includes that day.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

from msgspec import UNSET, Meta, Struct, UnsetType, field

PROTOCOL: Final = 1
"""Raised when an old client can no longer talk to a new daemon."""


Count = Annotated[int, Meta(ge=1, le=10_000)]
LineNumber = Annotated[int, Meta(ge=1, le=2**53)]


class Params(Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    pass


class Result(Struct, kw_only=True):
    pass


# ---------------------------------------------------------------- envelope


class Call(Struct, kw_only=True, omit_defaults=True):
    """A request. `agent` is who asks (`claude-code`, `person`), `cwd` is from where (an absolute path)."""

    method: str
    id: int | str | None = None
    params: Any = {}
    """A map on its way; read by the daemon into the method's own Struct of parameters."""
    agent: str | None = None
    cwd: str | None = None


class ErrorBody(Struct, kw_only=True):
    code: str
    message: str
    hint: str | None = None
    data: dict[str, Any] = {}


class Progress(Struct, kw_only=True):
    """`total` 0: not known. `stage` is a word for people: reading, embedding, indexing."""

    done: int
    total: int
    stage: str


class Reply(Struct, kw_only=True):
    """Exactly one of `result`, `error` and `progress` is there; progress frames come before the last one."""

    id: int | str | None = None
    result: Any = UNSET
    error: ErrorBody | UnsetType = UNSET
    progress: Progress | UnsetType = UNSET


# ---------------------------------------------------------------- values


class Edge(Result):
    """One connection as seen from a node: `id` is the other end."""

    id: str
    short_id: str
    edge: str
    weight: float
    title: str | None = None
    created: str | None = None
    reason: str | None = None


class Connections(Result):
    out: list[Edge] = []
    incoming: list[Edge] = field(default_factory=list, name="in")


class Link(Params):
    target: str
    edge: str = "related_to"
    weight: float = 0.5
    reason: str | None = None


# ---------------------------------------------------------------- hello


class HelloParams(Params):
    client: str = ""
    protocol: int = PROTOCOL


class HelloResult(Result):
    version: str
    protocol: int
    capabilities: list[str]
    vault: str
    vault_id: str
    phase: str


# ---------------------------------------------------------------- agent.*


class RememberParams(Params):
    content: str
    type: str = "fact"
    tier: str = "working"
    source: str | None = None
    space: str | UnsetType | None = UNSET
    tags: list[str] = []
    connections: list[Link] = []
    links: list[str] = []
    """Ids; each becomes a `related_to` connection of weight 0.5."""
    title: str | None = None
    about_self: bool = False
    confidence: float = 1.0
    request_id: str | None = None


class RememberResult(Result):
    text: str
    node_id: str
    short_id: str
    path: str | None = None
    commit: str | None = None
    op: str | None = None
    space: str | None = None
    links: list[Edge] = []
    redacted: list[str] = []
    demoted: list[str] = []
    existing: bool = False
    stored: bool = False
    """True with `commit` null: git was busy, the write is safe and will follow."""
    degraded: list[str] = []


class RecallParams(Params):
    query: str
    limit: int = 10
    types: list[str] | None = None
    tiers: list[str] | None = None
    spaces: list[str] | None = None
    """Keep only these; the word `global` stands for memories without a space."""
    tags: list[str] | None = None
    created_after: str | None = None
    created_before: str | None = None
    session_id: str | None = None
    space: str | UnsetType | None = UNSET
    """Where the caller works: favoured, not required."""
    explain: bool = False


class RecallHit(Result):
    id: str
    short_id: str
    title: str | None
    type: str
    tier: str
    space: str | None
    tags: list[str]
    score: float
    source: str
    """How it was found: search, activated, conflict, temporal."""
    content: str
    created: str
    origin: str
    """Who wrote it: the node's own source."""
    path: str
    trace: dict[str, Any] | UnsetType = UNSET


class RecallResult(Result):
    text: str
    results: list[RecallHit]
    degraded: list[str] = []
    trace: dict[str, Any] | UnsetType = UNSET


class NodeParams(Params):
    node_id: str
    session_id: str | None = None
    touch: bool = True
    """False: looked at by a program (to wait for an edit, to print what changed); it does not count as use."""


class NodeResult(Result):
    text: str
    node_id: str
    id: str
    short_id: str
    type: str
    tier: str
    space: str | None
    title: str | None
    content: str
    tags: list[str]
    source: str
    confidence: float
    created: str
    updated: str
    valid_until: str | None
    outdated_reason: str | None
    importance: float
    access_count: int
    last_accessed: str | None
    last_review: str | None
    stability: float
    path: str
    connections: Connections
    digest: str | None = None
    """sha256 of the note's bytes as indexed: what `UpdateParams.expect` takes, and how an editor's save is recognised."""


class UpdateParams(Params):
    node_id: str
    content: str | UnsetType = UNSET
    title: str | UnsetType | None = UNSET
    type: str | UnsetType = UNSET
    tier: str | UnsetType = UNSET
    space: str | UnsetType | None = UNSET
    tags: list[str] | UnsetType = UNSET
    """Replaces the tags; `add_tags` and `remove_tags` change them one by one."""
    add_tags: list[str] = []
    remove_tags: list[str] = []
    confidence: float | UnsetType = UNSET
    valid_until: str | UnsetType | None = UNSET
    add_connections: list[Link] = []
    expect: str | None = None
    """The sha256 of the note's bytes that the decision was based on; refused (`conflict`) when it changed since."""
    request_id: str | None = None


class WriteResult(Result):
    """What update, forget, outdated and connect answer."""

    text: str
    node_id: str
    short_id: str
    path: str | None = None
    commit: str | None = None
    op: str | None = None
    changed: bool = True
    redacted: list[str] = []
    demoted: list[str] = []
    stored: bool = False
    degraded: list[str] = []


class ForgetParams(Params):
    node_id: str
    request_id: str | None = None


class OutdatedParams(Params):
    node_id: str
    reason: str | None = None
    revoke: bool = False
    request_id: str | None = None


class ConnectParams(Params):
    source_id: str
    target_id: str
    edge: str = "related_to"
    weight: float = 0.5
    reason: str | None = None
    remove: bool = False
    request_id: str | None = None


# ---------------------------------------------------------------- admin.*


class NoParams(Params):
    pass


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


# ---------------------------------------------------------------- history.*


class HistoryParams(Params):
    node_id: str | None = None
    job: str | None = None
    kind: str | None = None
    since: str | None = None
    before: str | None = None
    limit: Count = 50


class OpResult(Result):
    op: str | None
    """Null for a commit that is not ours."""
    commit: str
    time: str
    kind: str | None
    source: str
    subject: str
    body: str
    nodes: list[str]
    run: str | None
    undone_by: str | None


class HistoryResult(Result):
    ops: list[OpResult]


METHODS: Final[dict[str, tuple[type[Params], type[Result]]]] = {
    "hello": (HelloParams, HelloResult),
    "agent.remember": (RememberParams, RememberResult),
    "agent.recall": (RecallParams, RecallResult),
    "agent.get": (NodeParams, NodeResult),
    "agent.update": (UpdateParams, WriteResult),
    "agent.forget": (ForgetParams, WriteResult),
    "agent.outdated": (OutdatedParams, WriteResult),
    "agent.connect": (ConnectParams, WriteResult),
    "admin.health": (NoParams, HealthResult),
    "admin.stats": (NoParams, StatsResult),
    "admin.rebuild": (NoParams, RebuildResult),
    "admin.verify": (NoParams, VerifyResult),
    "admin.doctor": (DoctorParams, DoctorResult),
    "admin.import": (ImportParams, ImportResult),
    "admin.export": (ExportParams, ExportResult),
    "admin.run_task": (RunTaskParams, RunTaskResult),
    "history.list": (HistoryParams, HistoryResult),
}
"""The methods of this protocol, with the Structs of their parameters and results."""
