"""`admin.sync…`: several machines, through a git remote."""

from __future__ import annotations

from typing import Final

from ormahd.api.base import NoParams, Params, Result


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
