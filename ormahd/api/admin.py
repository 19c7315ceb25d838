"""Types of `admin.*`: health, statistics, index, doctor, adoption, import, export, release and purge."""

from __future__ import annotations

from typing import Any, Final

from ormahd.api.base import Count, LineNumber, NoParams, Params, Result


class JobHealth(Result):
    last_run: str | None = None
    last_success: str | None = None
    last_error: str | None = None
    last_error_time: str | None = None
    run_count: int = 0
    error_count: int = 0
    last_duration_ms: float | None = None
    paused: bool = False
    running: bool = False


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


class VectorsHealth(Result):
    """Where vectors are searched."""

    searched: str
    """`memory`: each is compared, in the daemon; `chroma`: by the embedded Chroma; `server`: by the Chroma server; `nowhere`: the model
    is not loaded yet, and words are searched alone."""
    server: str | None
    """Host and port of the Chroma server that is configured (`vectors.url`) and given each vector; null: none is."""
    trouble: str | None
    """Why Chroma cannot be asked at the moment; vectors are searched in memory then."""


class EmbeddingHealth(Result):
    """What runs the embedding model, and what was measured of it."""

    runtime: str
    """`onnx`, `torch` or `hashing`."""
    version: str
    precision: str
    """`fp32`, or `int8`: in eight bits."""
    why: str | None
    """Why it is nothing quicker, where the settings leave the choice."""
    vectors: float | None
    tokens: float | None
    """The least cosine to what sentence-transformers gives, of vectors and token vectors; null where nothing was compared."""
    texts: int
    """How many were compared."""
    milliseconds: float | None
    full_milliseconds: float | None
    """Of the processor's time for one short note, some 36 tokens, in eight bits and in full; null where it is not in eight bits."""


class SyncHealth(Result):
    """How syncing goes, as far as this life of the daemon knows."""

    remote: str
    interval_minutes: float
    """0: only when somebody asks for it."""
    last: str | None
    offline_since: str | None
    trouble: str | None
    conflicts: int
    """Conflicts that wait for a person."""


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
    proposals: int = 0
    """That wait for a person (`agent.proposals`)."""
    sync: SyncHealth | None = None
    """Null until something was synced, or is to be."""
    archived: int = 0
    """Of `nodes`, how many rest in the archive."""
    conflicts: int = 0
    """Versions that a sync set aside, and that wait for a person."""
    last_whisper: str | None = None
    """When something was last whispered, as far as the log goes back."""
    last_whisper_agent: str | None = None
    warnings: list[str] = []
    log_file: str | None = None
    """Null where the log goes to stderr only (under systemd: the journal)."""
    embedding: EmbeddingHealth | None = None
    """Null until the model is loaded."""
    vectors: VectorsHealth | None = None
    """Null: the daemon is of an older version, which does not say."""


class WhisperStats(Result):
    """What was whispered since `since`, and what was said of it. Prompts are all that were asked, silent ones too."""

    since: str | None
    """Null: nothing is logged. What is older was forgotten (`whisper.keep_days`)."""
    prompts: int
    spoken: int
    silent: dict[str, int]
    """How often nothing was said, by reason."""
    median_ms: float | None
    useful: int
    """Judgements in the vault, of all times."""
    not_useful: int
    idle: int
    """Of these, made with another embedding model, so that no prompt can be compared with them now."""
    asked: int
    """Questions of the review loop."""
    answered: int


class StatsResult(Result):
    total_nodes: int
    by_tier: dict[str, int]
    by_type: dict[str, int]
    by_space: dict[str, int]
    total_edges: int
    by_edge: dict[str, int]
    plain_files: int
    """Files that are no memories: templates, drawings, copies of a note, files that hold a secret."""
    whisper: WhisperStats | None = None


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


class AdoptParams(Params):
    """Which of a person's notes are to be adopted. Paths are relative to the vault, or absolute inside of it."""

    paths: list[str] = []
    folders: list[str] = []
    patterns: list[str] = []
    """Globs on the whole path; `*` also stands for `/`."""
    everything: bool = False
    space: str | None = None
    """Of the notes in `folders`, also of those that come later."""
    index: bool = False
    """Only find the notes of the folders (or all): nothing is written into them."""
    dry_run: bool = False
    yes: bool = False
    """Write also to more than three of the person's files."""


class PlannedAdoption(Result):
    path: str
    lines: list[str]
    """That are put into the file."""


class LeftOut(Result):
    path: str
    why: str


class AdoptResult(Result):
    adopt: list[PlannedAdoption]
    left_out: list[LeftOut]
    already: int
    """Notes that were adopted before."""
    people: int
    """Of `adopt`, how many are files of the person's that are written to."""
    folders: list[str]
    """Folders for whose new notes the same holds from now on; "" is the whole vault."""
    done: bool
    waiting: list[str]
    """Files that were saved a moment ago, and follow when they rest."""
    op: str | None = None
    run: str | None = None
    """Where it took several ops, the one that says what holds from now on among them: undoing the run takes all of it back."""


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


class ReleaseParams(Params):
    """The person's files at or below `paths` are theirs alone again, or `everything`; see `ormahctl vault release`."""

    paths: list[str] = []
    """Relative to the vault, or absolute."""
    everything: bool = False
    remove_data: bool = False
    """`.ormah` and our settings in git's files go too. The daemon is to be stopped then."""
    dry_run: bool = False


class ReleaseResult(Result):
    dry_run: bool
    released: list[str]
    kept: list[str]
    """Changes of Ormah's that could not be taken out, because the person edited the same lines."""
    removed: list[str]
    """What of Ormah's own went."""
    stays: list[str]
    """What of Ormah's stays, and how to remove it."""
    ops: list[str]
    run: str | None
    """Undoing it brings all of it back."""
    stopped: bool
    """The folder is no vault any more: the daemon has nothing to do here."""


class PurgeParams(Params):
    """`node_id`: a memory, also one that is forgotten already; `texts`: exact texts, wherever they stand. At least one
    of the two. Of `dry_run` the result says what would be done."""

    node_id: str | None = None
    texts: list[str] = []
    dry_run: bool = False
    rewrite_foreign: bool = False
    """Also commits that Ormah did not make get other ids, and lose their signatures."""


class PurgeRemote(Result):
    """A remote that may have the old history; `push` are the commands that put the new one there. Nobody runs them."""

    name: str
    url: str
    push: list[str]


class PurgeLeft(Result):
    """Where it still is. `echo`: the place has the same words, but does not name the memory."""

    path: str
    why: str
    echo: bool = False


class PurgeResult(Result):
    """Sizes in bytes, paths relative to the vault. `op`, `commit` and `size_after` are null for a dry run."""

    node_id: str | None
    dry_run: bool
    commits: int
    """That got another id, of `commits_total`."""
    commits_total: int
    versions: int
    """Of the note, in the whole history."""
    paths: list[str]
    """That the note had."""
    others: list[str]
    """Other files of which some version named it."""
    refs: list[str]
    foreign: int
    size_before: int
    size_after: int | None
    op: str | None
    commit: str | None
    remotes: list[PurgeRemote]
    left: list[PurgeLeft]
    seconds: float


ADMIN: Final[dict[str, tuple[type[Params], type[Result]]]] = {
    "admin.health": (NoParams, HealthResult),
    "admin.stats": (NoParams, StatsResult),
    "admin.rebuild": (NoParams, RebuildResult),
    "admin.verify": (NoParams, VerifyResult),
    "admin.doctor": (DoctorParams, DoctorResult),
    "admin.adopt": (AdoptParams, AdoptResult),
    "admin.import": (ImportParams, ImportResult),
    "admin.export": (ExportParams, ExportResult),
    "admin.purge": (PurgeParams, PurgeResult),
    "admin.release": (ReleaseParams, ReleaseResult),
}
