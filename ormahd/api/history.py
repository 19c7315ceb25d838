"""Types of `history.*` (read the history, undo ops) and of `admin.sync*` (synchronise through a git remote)."""

from __future__ import annotations

from typing import Final

from ormahd.api.base import Count, NoParams, Params, Result


class HistoryParams(Params):
    node_id: str | None = None
    job: str | None = None
    run: str | None = None
    kind: str | None = None
    since: str | None = None
    """An ISO time, or a date: the whole day. Without a zone it is UTC."""
    before: str | None = None
    """The same, a day included; or an op or a commit: what stands behind it in the list, that is the next page."""
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


class ShowOpParams(Params):
    op: str
    """A unique beginning, of 4 or more characters, of an op's id or a commit's."""
    limit: Count = 50
    """Notes whose differences are told."""


class NoteChange(Result):
    node_id: str | None
    """Null: the file is no memory."""
    title: str
    path: str
    """Where the note stands after the op, or stood before it was removed."""
    old_path: str | None
    """Where it stood before, when it was moved."""
    change: str
    """added, edited, removed or moved (and perhaps edited)."""
    diff: str
    """For people. `field: old -> new`, `tags: +new -old`, `+ supports -> Title`, then `content:` and a unified diff."""
    cut: bool = False
    """True: lines were left out."""


class ShowOpResult(OpResult):
    notes: list[NoteChange]
    total: int
    """Files that the op changed; more than `notes` when the list is cut."""


class LifeParams(Params):
    """A memory's versions, newest first; also of one that is forgotten."""

    node_id: str
    since: str | None = None
    before: str | None = None
    limit: Count = 50


class VersionResult(OpResult):
    change: NoteChange | None
    """What the op did to this note; null when it named the note without changing it."""


class LifeResult(Result):
    node_id: str
    versions: list[VersionResult]


class UndoParams(Params):
    """What to take back: `ops`, or all of `run`, or all that `job` did `since`."""

    ops: list[str] = []
    """Unique beginnings, of 4 or more characters, of ops' ids or commits'. One alone is undone or raises."""
    run: str | None = None
    job: str | None = None
    since: str | None = None
    """An ISO time, or a date."""
    node_id: str | None = None
    """Only what the one op did to this note."""
    edge: str | None = None
    """Only that note's edges to another: its id, or `supports:` and its id."""
    force: bool = False
    """Remove a note that the op brought, although it was edited since."""
    dry_run: bool = False
    """Change nothing: say what would be undone. `undo_op` and `commit` are empty then."""
    yes: bool = False
    """Also where more than three files that the person made are removed or moved; else that is refused (`unconfirmed`)."""
    request_id: str | None = None


class UndoChange(Result):
    """What became of one file. `did`: removed, brought back, restored, moved back, merged (with later edits), released (our
    lines are out of a file of the person's, which stays and is no memory), or adopted (it is a memory again)."""

    node_id: str | None
    path: str
    title: str | None
    did: str


class UndoneOp(Result):
    """An op that was taken back, byte for byte where nobody edited since; undoing `undo_op` brings it back."""

    op: str
    undo_op: str
    commit: str
    subject: str
    nodes: list[str]
    merged: list[str]
    """Those of `nodes` that keep later edits."""
    changes: list[UndoChange]


class SkippedOp(Result):
    op: str
    commit: str
    subject: str
    why: str


class UndoConflict(Result):
    """One thing that excludes an undo. `base`: what the op left; `ours`: today; `theirs`: what was before it; each at most
    20,000 characters."""

    op: str
    node_id: str | None
    path: str
    title: str | None
    field: str
    """A key of the frontmatter, `supports:1a2b3c4d` for an edge, `content`, `id`, `text`; `note`: one side has none;
    `uncommitted`: it was edited and is not committed yet; `path`: its old place is taken."""
    base: str | None
    ours: str | None
    theirs: str | None
    what: str


class UndoResult(Result):
    undone: list[UndoneOp]
    """Newest first."""
    skipped: list[SkippedOp]
    """Undone already, or nothing of it left."""
    conflicts: list[UndoConflict]
    """Of ops that were left alone as a whole; the first 100."""
    run: str | None = None
    """The run of the undos, when there are several: undoing it brings all of them back."""
    dry_run: bool = False


HISTORY: Final[dict[str, tuple[type[Params], type[Result]]]] = {
    "history.list": (HistoryParams, HistoryResult),
    "history.show": (ShowOpParams, ShowOpResult),
    "history.life": (LifeParams, LifeResult),
    "history.undo": (UndoParams, UndoResult),
}


class ConflictItem(Result):
    """A version that was set aside until a person has looked at it."""

    op: str
    path: str
    """The note, relative to the vault."""
    node: str | None
    fields: list[str]
    kept: str
    """Which version the vault has: `ours` (this machine's), `theirs`; empty where a later edit simply stands."""
    commits: dict[str, str | None]
    """`base`, `ours`, `theirs` to the commit that has this version."""
    values: dict[str, dict[str, str | None]]
    """Of each field what it says in `base`, `ours` and `theirs`; null: nothing."""
    files: dict[str, str]
    """`base`, `ours`, `theirs` (or `aside`) to the file with this version, relative to the vault. A side that is missing
    had no such file."""
    what: str
    by: str = ""
    """The machine that joined the versions, where that was another one."""


class SyncResult(Result):
    """Commits that came in and went out, and the true conflicts that this sync met and set aside."""

    pulled: int
    pushed: int
    conflicts: list[ConflictItem]
    replaced: list[ConflictItem]
    """Where a sync on another machine kept its words, and those of this machine lost: `admin.sync_take_back` brings them back."""
    told: list[str]
    """Files that one machine released and another one changed: what became of each, a sentence with the command for it."""
    waiting: int
    """Conflicts that wait for a person, with those of earlier syncs."""
    remote: str
    branch: str
    commit: str | None
    """Where both sides are now."""


class SyncParams(Params):
    """`yes`: also where more than three files that the person made are removed or moved; else that is refused (`unconfirmed`)."""

    yes: bool = False


class SyncSetupParams(Params):
    """`replace`: also where another remote is configured. `ask`: a vault that would be joined is only told of. `yes`: as in
    `admin.sync`."""

    url: str
    replace: bool = False
    ask: bool = False
    yes: bool = False


class SyncSetupResult(Result):
    state: str
    """`empty`: the remote was, and has all of this vault now; `ours`: it had this vault; `joined`: it had another one,
    which this one is part of now; `would_join`: nothing was done (`ask`)."""
    remote: str
    url: str
    vault_id: str
    former_id: str | None
    """The id that this vault had, where it joined (or would join) another."""
    memories: int
    """Notes that the other vault has."""
    synced: SyncResult | None


class ConflictsResult(Result):
    conflicts: list[ConflictItem]


class ResolveConflictParams(Params):
    """`name`: an op, the path of a note, a memory's id (a unique beginning of either), or the path of a set-aside file."""

    name: str


class ResolveConflictResult(Result):
    settled: list[ConflictItem]
    waiting: int


class TakeBackResult(Result):
    """`commits`: one for each note in which this machine's words stand again."""

    settled: list[ConflictItem]
    commits: list[str]
    waiting: int


SYNC: Final[dict[str, tuple[type[Params], type[Result]]]] = {
    "admin.sync": (SyncParams, SyncResult),
    "admin.sync_setup": (SyncSetupParams, SyncSetupResult),
    "admin.sync_conflicts": (NoParams, ConflictsResult),
    "admin.sync_resolve": (ResolveConflictParams, ResolveConflictResult),
    "admin.sync_take_back": (ResolveConflictParams, TakeBackResult),
}
