"""Types of `agent.*`: what agents use to store, find, read and change memories."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, UnsetType

from ormahd.api.base import Connections, Count, Edge, Link, Near, Params, Result

WEAK = 0.12
"""Score of a search below which a result is weak: that of 2 % of the best results that answer, and of 20 % of others."""


class RememberParams(Params):
    content: str
    type: str = "fact"
    tier: str = "working"
    source: str | None = None
    space: str | UnsetType | None = UNSET
    """Absent: detected from `cwd`. Null: global on purpose, so that no job gives it a space (`global: true` in the
    note)."""
    tags: list[str] = []
    connections: list[Link] = []
    links: list[str] = []
    """Ids of memories; each becomes a `related_to` connection of weight 0.5."""
    title: str | None = None
    about_self: bool = False
    """About the person. If `space` is absent, the memory is global on purpose."""
    confidence: float = 1.0
    replaces: list[str] = []
    """Ids of memories that this one replaces. Each is marked as superseded in the same commit, and gets an
    `evolved_from` edge."""
    rejected: str | None = None
    """Why what the memory is about was tried and rejected; null: it was not."""
    paths: list[str] = []
    """Globs of the files that it is about, besides those that its text names; `commands`: of commands."""
    commands: list[str] = []
    guard: str | None = None
    """`ask` or `deny`: before such a file is edited or such a command is run. Only a person may set it."""
    evidence: list[str] = []
    """Files of the caller's project that it rests on: paths from its folder, or `path@blob` with git's id of the content.
    When the memory is told after one has changed, that is said."""
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
    degraded: list[str] = []
    near: list[Near] = []
    """Existing memories that are close in meaning; the new memory may replace one of them."""
    replaced: list[str] = []


class RecallParams(Params):
    query: str
    limit: int = 10
    types: list[str] | None = None
    tiers: list[str] | None = None
    spaces: list[str] | None = None
    """Only memories of these spaces; `global` means memories without a space."""
    tags: list[str] | None = None
    created_after: str | None = None
    created_before: str | None = None
    session_id: str | None = None
    space: str | UnsetType | None = UNSET
    """The space in which the caller works. Its memories are preferred; others are found too."""
    explain: bool = False
    as_of: str | None = None
    """Answer from the vault as it was at this time or commit: an ISO date (its end) or time, `yesterday`, an age such
    as `7d`; or an op, a commit, a branch, a tag. Times without a zone are local. Progress frames are sent while that
    state is rebuilt. Nothing counts as used.
    """
    sessions: bool = False
    """Search the archive of sessions instead of the memories; the results are in `exchanges`. Filters by type, tier,
    space and tag are refused."""


class AsOf(Result):
    """The state of the vault that an answer is about."""

    commit: str
    op: str | None
    time: str
    """When the commit was made."""
    now: str
    """The time that counts as the present for ages and expiry."""
    notes: int
    """Number of memories in that state."""
    seconds: float
    """Time that it took to rebuild the state."""


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
    """How it was found. `search`; `activated`: by an edge from a better result; `temporal`: by the period that the
    query names; `conflict`: it contradicts a better result; `id`: the query is its id, or the beginning of it (with 8
    characters or more it is the only result).
    """
    content: str
    created: str
    origin: str
    """The source in the note: who or what wrote the memory."""
    path: str
    excerpt: str = ""
    """The beginning of the text, at most 1,600 characters, without inline images, encoded data, minified code, digests
    and logs."""
    also: list[str] = []
    """Full ids of memories that say the same and are therefore not listed separately."""
    older_than: str | None = None
    """Full id of the newer memory that seems to have replaced this one. It is listed before this one."""
    rejected: str | None = None
    """`tried and rejected (12 Nov 2026): WHY`, if what it is about was."""
    stale: str | None = None
    """`cart/total.py changed since`, if a file of the caller's project that it rests on has."""
    said_in: str | None = None
    """`<session>#<turn>`, if it was extracted from an archived session (`agent.sessions`)."""
    trace: dict[str, Any] | UnsetType = UNSET


class SaidTurn(Result):
    """A turn of one side. `text`: its beginning, or the part that matches."""

    role: str
    text: str


class Exchange(Result):
    """A turn of the person in an archived session, and the agent's answer."""

    session: str
    """The session's id, as the harness names it."""
    harness: str
    """The source of the session: claude-code, codex, gemini, chatgpt, claude-ai, text."""
    turn: int
    """Number of the matching turn, counted from 1."""
    score: float
    time: str | None
    cwd: str | None
    title: str | None
    said: list[SaidTurn]
    open: str
    """The command or address that opens the session."""


class RecallResult(Result):
    text: str
    results: list[RecallHit]
    degraded: list[str] = []
    """What the search went without. `vectors`: it was by words alone; `period`: no memory is of the time that the query
    names, so it was by the query's words."""
    trace: dict[str, Any] | UnsetType = UNSET
    as_of: AsOf | UnsetType | None = UNSET
    """Set if `as_of` was given."""
    exchanges: list[Exchange] | UnsetType = UNSET
    """Set if `sessions` was given."""

    @property
    def weak(self) -> bool:
        """Whether no result is likely to answer: each was found by a search, with a low score."""
        weak = [hit.source in {"search", "activated"} and hit.score < WEAK for hit in self.results]
        return bool(weak) and all(weak) and not self.degraded


class NodeParams(Params):
    node_id: str
    session_id: str | None = None
    touch: bool = True
    """False: reading does not count as a use (for programs, such as one that waits for an edit)."""
    as_of: str | None = None
    """Return the memory as it was then, also one that was forgotten since; see `agent.recall`. Does not count as a use.
    """


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
    """sha256 of the note's bytes as indexed. `UpdateParams.expect` takes it; it also shows when an editor's save was
    indexed."""
    said_in: str | None = None
    """`<session>#<turn>`, if it was extracted from an archived session (`agent.sessions`)."""
    as_of: AsOf | UnsetType | None = UNSET
    """Set if `as_of` was given."""
    older_than: str | None = None
    """Full id of the newer memory that seems to have replaced this one."""
    rejected: str | None = None
    """As in `RecallHit`."""
    paths: list[str] = []
    commands: list[str] = []
    guard: str | None = None
    guard_waits: bool = False
    """Whether the guard counts for nothing until a person sets it again: another wrote it, or the text that it has."""
    evidence: list[str] = []
    """The files that it rests on, as `path@blob`."""
    stale: str | None = None


class UpdateParams(Params):
    node_id: str
    content: str | UnsetType = UNSET
    title: str | UnsetType | None = UNSET
    type: str | UnsetType = UNSET
    tier: str | UnsetType = UNSET
    space: str | UnsetType | None = UNSET
    """Null: global on purpose, as in `agent.remember`."""
    tags: list[str] | UnsetType = UNSET
    """Replaces all tags; `add_tags` and `remove_tags` change single ones."""
    add_tags: list[str] = []
    remove_tags: list[str] = []
    confidence: float | UnsetType = UNSET
    valid_until: str | UnsetType | None = UNSET
    rejected: str | UnsetType | None = UNSET
    """As in `agent.remember`, like the next three; null takes the property away."""
    paths: list[str] | UnsetType | None = UNSET
    commands: list[str] | UnsetType | None = UNSET
    guard: str | UnsetType | None = UNSET
    evidence: list[str] | UnsetType | None = UNSET
    add_connections: list[Link] = []
    expect: str | None = None
    """sha256 of the note's bytes that the update is based on. If the note has changed since, the update is refused
    (`conflict`)."""
    request_id: str | None = None


class WriteResult(Result):
    """The result of update, forget, outdated and connect."""

    text: str
    node_id: str
    short_id: str
    path: str | None = None
    commit: str | None = None
    op: str | None = None
    changed: bool = True
    redacted: list[str] = []
    demoted: list[str] = []
    degraded: list[str] = []
    near: list[Near] = []
    """After an `agent.update` of the content: as in `RememberResult`."""


class ForgetParams(Params):
    node_id: str
    request_id: str | None = None


class OutdatedParams(Params):
    node_id: str
    reason: str | None = None
    revoke: bool = False
    by: str | None = None
    """The id of the memory that replaces it. It gets an `evolved_from` edge, in the same commit. If another memory was
    marked as replacing it before, that mark's edge goes."""
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
    """A unique prefix of the merge's op or commit."""
    request_id: str | None = None


class UndoMergeResult(Result):
    text: str
    op: str
    """The commit of the merge that was undone."""
    commit: str
    """The commit of the undo."""
    nodes: list[str]


class MergesParams(Params):
    limit: Count = 20


class MergeRow(Result):
    """A merge: one memory became part of another. Read from the history."""

    id: str
    """The commit, as `agent.undo_merge` takes it."""
    commit: str
    kept: str | None
    kept_title: str
    removed: str
    removed_title: str
    snapshot: dict[str, Any]
    """The removed memory as it was: its fields, `path`, and `connections` as its note named them."""
    reason: str
    """The reasons: scores, or a judge's verdict."""
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
    """A destructive change of one memory. Read from the history."""

    id: str
    """The commit, as `history.show` and `history.undo` take it."""
    operation: str
    """delete, update (also edits by hand, and moves between tiers) or mark_outdated."""
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
    """Only beliefs of this space; `global`: of memories without a space."""


class Belief(Result):
    """One memory of an insight. `valid_until` and `outdated_reason` are set if it no longer holds."""

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
    """The date of the edge; if it has none, the date on which the newer memory was created."""
    reason: str | None
    weight: float


class Tension(Result):
    a: Belief
    b: Belief
    time: str
    reason: str | None
    weight: float
    settled: bool
    """True if one of the two is outdated by now."""


class InsightsResult(Result):
    text: str
    evolutions: list[Evolution]
    """`evolved_from` edges, newest first, at most `limit`."""
    tensions: list[Tension]
    """`contradicts` edges, newest first, at most `limit`."""
    degraded: list[str] = []
    """`index` while the index may still lack memories of the vault: the answer is then not all of it."""
