"""Types of `agent.*`: what agents use to store, find, read and change memories."""

from __future__ import annotations

from typing import Any, Final

from msgspec import UNSET, UnsetType

from ormahd.api.base import Connections, Count, Edge, Link, Near, Params, Result


class RememberParams(Params):
    content: str
    type: str = "fact"
    tier: str = "working"
    source: str | None = None
    space: str | UnsetType | None = UNSET
    """Absent: detected from `cwd`. Null: global on purpose, and no job gives it a space (`global: true` in the note)."""
    tags: list[str] = []
    connections: list[Link] = []
    links: list[str] = []
    """Ids; each becomes a `related_to` connection of weight 0.5."""
    title: str | None = None
    about_self: bool = False
    confidence: float = 1.0
    replaces: list[str] = []
    """Ids of memories that this one replaces: each is marked superseded in the same commit, and gets an `evolved_from` edge."""
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
    near: list[Near] = []
    """Memories that exist already and are close in meaning: one of them may be what this one replaces."""
    replaced: list[str] = []


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
    as_of: str | None = None
    """What was known then. An ISO date (its end) or time, `yesterday`, an age such as `7d`; or an op, a commit, a branch, a
    tag. Times without a zone are UTC. Progress frames come while that state is brought back. Nothing counts as used."""


class AsOf(Result):
    """The state of the vault that an answer stands for, and what it took to bring it back."""

    commit: str
    op: str | None
    time: str
    """When the commit was made."""
    now: str
    """What counted as the present: ages and expiry are as of then."""
    notes: int
    """Memories that there were."""
    seconds: float
    cached: bool
    """True: the state was still there from an earlier question."""


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
    """How it was found: search, activated, temporal; conflict: it contradicts a better result, found by search or not; id: the
    query is its id, or a beginning of it (with 8 characters or more it is the only result)."""
    content: str
    created: str
    origin: str
    """Who wrote it: the node's own source."""
    path: str
    excerpt: str = ""
    """The beginning of its text, at most 1,600 characters, without inline images, encoded data, minified code, digests and logs."""
    also: list[str] = []
    """Full ids of memories that say the same; they have no place of their own."""
    older_than: str | None = None
    """Full id of the newer memory that seems to have replaced this one; it stands before it."""
    trace: dict[str, Any] | UnsetType = UNSET


class RecallResult(Result):
    text: str
    results: list[RecallHit]
    degraded: list[str] = []
    trace: dict[str, Any] | UnsetType = UNSET
    as_of: AsOf | UnsetType | None = UNSET
    """There when `as_of` was asked."""


class NodeParams(Params):
    node_id: str
    session_id: str | None = None
    touch: bool = True
    """False: looked at by a program (to wait for an edit, to print what changed); it does not count as use."""
    as_of: str | None = None
    """The memory as it was then, also one that is forgotten since: see `agent.recall`. Does not count as use."""


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
    """How often it was found or opened."""
    use_count: int
    """How often it was opened or judged useful."""
    last_accessed: str | None
    last_review: str | None
    stability: float
    path: str
    connections: Connections
    digest: str | None = None
    """sha256 of the note's bytes as indexed: what `UpdateParams.expect` takes, and how an editor's save is recognised."""
    as_of: AsOf | UnsetType | None = UNSET
    """There when `as_of` was asked."""
    older_than: str | None = None
    """Full id of the newer memory that seems to have replaced this one."""


class UpdateParams(Params):
    node_id: str
    content: str | UnsetType = UNSET
    title: str | UnsetType | None = UNSET
    type: str | UnsetType = UNSET
    tier: str | UnsetType = UNSET
    space: str | UnsetType | None = UNSET
    """Null: global on purpose, as in `agent.remember`."""
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
    near: list[Near] = []
    """After `agent.update` with a new content: as in `RememberResult`."""


class ForgetParams(Params):
    node_id: str
    request_id: str | None = None


class OutdatedParams(Params):
    node_id: str
    reason: str | None = None
    revoke: bool = False
    by: str | None = None
    """The id of the memory that replaces it: it gets an `evolved_from` edge, in the same commit."""
    request_id: str | None = None


class ConnectParams(Params):
    source_id: str
    target_id: str
    edge: str = "related_to"
    weight: float = 0.5
    reason: str | None = None
    remove: bool = False
    request_id: str | None = None


class UndoMergeParams(Params):
    merge_id: str
    """A unique beginning of the merge's op or commit."""
    request_id: str | None = None


class UndoMergeResult(Result):
    text: str
    op: str
    undo_op: str
    commit: str
    nodes: list[str]


class MergesParams(Params):
    limit: Count = 20


class MergeRow(Result):
    """One memory that became part of another, told by the history."""

    id: str
    """The op: what `agent.undo_merge` takes."""
    commit: str
    kept: str | None
    kept_title: str
    removed: str
    removed_title: str
    snapshot: dict[str, Any]
    """The removed memory as it was: its fields, `path`, and `connections` with the names that its note used."""
    reason: str
    """Why: scores, verdict."""
    source: str
    merged_at: str
    undone_at: str | None
    undone_by: str | None


class MergesResult(Result):
    merges: list[MergeRow]
    """Newest first."""


class AuditParams(Params):
    limit: Count = 20
    node_id: str | None = None
    operation: str | None = None
    """delete, update or mark_outdated."""


class AuditRow(Result):
    """One operation on one memory, told by the history."""

    id: str
    """The op: what `history.show` and `history.undo` take."""
    operation: str
    """delete, update (edits by hand, fading and promotion too) or mark_outdated."""
    node_id: str
    title: str
    detail: str
    snapshot: dict[str, Any]
    """The memory before the operation, as in `MergeRow`."""
    created: str
    source: str
    commit: str
    undone_by: str | None


class AuditResult(Result):
    entries: list[AuditRow]
    """Newest first."""


class InsightsParams(Params):
    limit: Count = 50
    space: str | None = None
    """Only what is about this space; `global`: about memories without one."""


class Belief(Result):
    """One end of an insight; `valid_until` and `outdated_reason` where it does not hold any more."""

    id: str
    short_id: str
    type: str
    space: str | None
    title: str
    content: str
    created: str
    valid_until: str | None
    outdated_reason: str | None


class Evolution(Result):
    newer: Belief
    older: Belief
    time: str
    """When it was noted; of an edge without a date, when the newer one was made."""
    reason: str | None
    weight: float


class Tension(Result):
    a: Belief
    b: Belief
    time: str
    reason: str | None
    weight: float
    settled: bool
    """One of the two is outdated by now."""


class InsightsResult(Result):
    text: str
    evolutions: list[Evolution]
    """`evolved_from` edges, newest first, at most `limit`."""
    tensions: list[Tension]
    """`contradicts` edges, newest first, at most `limit`."""


AGENT: Final[dict[str, tuple[type[Params], type[Result]]]] = {
    "agent.remember": (RememberParams, RememberResult),
    "agent.recall": (RecallParams, RecallResult),
    "agent.get": (NodeParams, NodeResult),
    "agent.update": (UpdateParams, WriteResult),
    "agent.forget": (ForgetParams, WriteResult),
    "agent.outdated": (OutdatedParams, WriteResult),
    "agent.connect": (ConnectParams, WriteResult),
    "agent.undo_merge": (UndoMergeParams, UndoMergeResult),
    "agent.merges": (MergesParams, MergesResult),
    "agent.audit": (AuditParams, AuditResult),
    "agent.insights": (InsightsParams, InsightsResult),
}
