"""Types of `history.*` (read the history, undo ops) and of `admin.sync*` (synchronise through a git remote)."""

from __future__ import annotations

from ormahd.api.base import Count, Params, Result


class HistoryParams(Params):
    node_id: str | None = None
    job: str | None = None
    run: str | None = None
    kind: str | None = None
    source: str | None = None
    """`person`, `agent:NAME` or `job:NAME`; or `agent` or `job`, for all of them."""
    space: str | None = None
    """Only changes of memories that this space has or had; `global`: of memories without a space."""
    since: str | None = None
    """An ISO time; or a date or month, which are included as a whole. Times without a zone are local."""
    before: str | None = None
    """As `since`; or an op or a commit: then the list continues after it, as the next page."""
    limit: Count = 50


class OpResult(Result):
    op: str | None
    """Null for a commit that Ormah did not make."""
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


class MonthsResult(Result):
    months: dict[str, int]
    """{month of local time, as `2026-11`: number of ops}, newest first; at most `limit` months."""


class ShowOpParams(Params):
    op: str
    """A unique prefix (4 characters or more) of an op's or a commit's id."""
    limit: Count = 50
    """Number of notes whose differences are shown."""


class NoteChange(Result):
    """What an op changed in one file."""

    node_id: str | None
    """Null if the file is no memory."""
    title: str
    path: str
    """The path after the op, or before it if the note was removed."""
    old_path: str | None
    """The path before, if the note was moved."""
    change: str
    """added, edited, removed or moved (and possibly edited)."""
    diff: str
    """For people. `field: old -> new`, `tags: +new -old`, `+ supports -> Title`, then `content:` and a unified diff."""
    cut: bool = False
    """True if lines were left out."""


class ShowOpResult(OpResult):
    notes: list[NoteChange]
    total: int
    """Number of files that the op changed; larger than the length of `notes` if the list was shortened."""


class LifeParams(Params):
    """Parameters for a memory's versions, newest first; the memory may be forgotten."""

    node_id: str
    since: str | None = None
    before: str | None = None
    limit: Count = 50


class VersionResult(OpResult):
    change: NoteChange | None
    """What the op did to this note; null if the op names the note without changing it."""


class LifeResult(Result):
    node_id: str
    versions: list[VersionResult]


class UndoParams(Params):
    """What to undo: `ops`, or all of `run`, or all that `job` did `since` a time."""

    ops: list[str] = []
    """Unique prefixes (4 characters or more) of ids of ops or commits. A single one that cannot be undone is an error.
    """
    run: str | None = None
    job: str | None = None
    since: str | None = None
    """An ISO time, or a date."""
    force: bool = False
    """Also remove a note that the op added and that was edited since."""
    dry_run: bool = False
    """Change nothing; the result, without commits, says what undoing each op by itself would do."""
    request_id: str | None = None


class UndoChange(Result):
    """What the undo did to one file. `did`: removed, brought back, restored, moved back, or merged (with later
    edits)."""

    node_id: str | None
    path: str
    title: str | None
    did: str


class UndoneOp(Result):
    """An op that was undone. Files that were not edited since have their old bytes. To redo the op, undo `commit`."""

    op: str
    """The commit of the op that was undone."""
    commit: str
    """The commit of the undo."""
    subject: str
    nodes: list[str]
    merged: list[str]
    """Those of `nodes` in which later edits were kept."""
    changes: list[UndoChange]


class SkippedOp(Result):
    commit: str
    subject: str
    why: str


class UndoConflict(Result):
    """A reason why an op cannot be undone. `base`: the text after the op; `ours`: today's; `theirs`: the text before
    the op; each at most 20,000 characters."""

    op: str
    node_id: str | None
    path: str
    title: str | None
    field: str
    """A key of the frontmatter, `supports:1a2b3c4d` for an edge, `content`, `id`, `text`; `note`: one side has no note;
    `uncommitted`: it was edited and is not committed yet; `path`: another file is at its old path."""
    base: str | None
    ours: str | None
    theirs: str | None
    what: str


class UndoResult(Result):
    undone: list[UndoneOp]
    """Newest first."""
    skipped: list[SkippedOp]
    """Ops that were undone already, or of which nothing is left."""
    conflicts: list[UndoConflict]
    """Conflicts of ops that were therefore not undone at all; the first 100."""
    run: str | None = None
    """The run of the undos, if there are several: undoing it redoes all of them."""


class ConflictItem(Result):
    """A version that a sync set aside until a person has looked at it."""

    op: str
    path: str
    """Path of the note, relative to the vault."""
    node: str | None
    fields: list[str]
    kept: str
    """Which version the vault has: `ours` (this machine's) or `theirs`; empty if a later edit was kept."""
    commits: dict[str, str | None]
    """`base`, `ours` and `theirs`: the commit that has this version."""
    values: dict[str, dict[str, str | None]]
    """The value of each field in `base`, `ours` and `theirs`; null: none."""
    files: dict[str, str]
    """`base`, `ours`, `theirs` (or `aside`): path of the file with this version, relative to the vault. A side without
    such a file is missing."""
    what: str
    by: str = ""
    """The machine that joined the versions, if it was another one."""


class SyncResult(Result):
    """The result of a sync: number of commits pulled and pushed, and the conflicts that it set aside."""

    pulled: int
    pushed: int
    conflicts: list[ConflictItem]
    replaced: list[ConflictItem]
    """Notes where a sync on another machine replaced this machine's text: `admin.sync_take_back` restores it."""
    waiting: int
    """Number of conflicts that wait for a person, also of earlier syncs."""
    remote: str
    branch: str
    commit: str | None
    """The commit that both sides have now."""


class SyncSetupParams(Params):
    """Parameters for setting up a remote. `replace`: replace another configured remote. `ask`: if the remote has
    another vault, report that and do nothing."""

    url: str
    replace: bool = False
    ask: bool = False


class SyncSetupResult(Result):
    state: str
    """`empty`: the remote was empty and has this vault now; `ours`: it had this vault; `joined`: it had another vault,
    and the two are one now; `would_join`: nothing was done (`ask`)."""
    remote: str
    url: str
    vault_id: str
    former_id: str | None = None
    """The former id of this vault if it joined (or would join) another."""
    memories: int = 0
    """Number of notes in the other vault."""
    synced: SyncResult | None = None


class ConflictsResult(Result):
    conflicts: list[ConflictItem]


class ResolveConflictParams(Params):
    """Names conflicts. `name`: an op, the path of a note, the id of a memory (or a unique prefix of either id), or the
    path of a file that was set aside."""

    name: str


class ResolveConflictResult(Result):
    settled: list[ConflictItem]
    waiting: int


class TakeBackResult(Result):
    """The result of restoring this machine's text. `commits`: one for each restored note."""

    settled: list[ConflictItem]
    commits: list[str]
    waiting: int
