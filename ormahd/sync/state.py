"""What is known of the syncs so far: in memory how the last one went, in git up to where both sides were one."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import datetime

from msgspec import Struct, field

from ormahd.errors import Conflict
from ormahd.git.refs import is_ancestor
from ormahd.git.remote import Remote, set_value, value
from ormahd.vault.purge_records import check_same
from ormahd.vault.vault import Vault


class SyncState(Struct):
    """Of one running vault. `busy` is held by the sync that is under way; `stopping` ends it."""

    busy: threading.Lock = field(default_factory=threading.Lock)
    stopping: threading.Event = field(default_factory=threading.Event)
    last: datetime | None = None
    """When the last sync came to its end."""
    offline_since: datetime | None = None
    trouble: str | None = None
    """Why the last sync did not come to its end, as a sentence."""

    def done(self, when: datetime) -> None:
        self.last, self.offline_since, self.trouble = when, None, None

    def failed(self, when: datetime, why: str, *, offline: bool) -> None:
        self.trouble = why
        self.offline_since = (self.offline_since or when) if offline else None


def note_synced(vault: Vault, remote: Remote, commit: str) -> None:
    """From now on both sides are known to have this commit. It stands in git's configuration, by its id alone: a ref
    would keep alive, or follow, what a purge takes out of the history."""
    set_value(vault.git, _key(remote), commit)


def _key(remote: Remote) -> str:
    return f"ormah.{remote.name}/{remote.branch.removeprefix('refs/heads/')}.synced"


def check_here(vault: Vault, remote: Remote, tip: Callable[[], str | None]) -> None:
    """Raise Conflict when our history was rewritten since the last sync (a purge, `git commit --amend`) and the remote
    still has the old one, whose commit `tip` asks for. Before anything is fetched: what was purged must not even get
    back into this repository."""
    head, synced = vault.head(), value(vault.git, _key(remote))
    if head is None or synced is None or _related(vault, synced, head):
        return
    known = vault.git.resolve(f"{remote.tracking}^{{commit}}")
    if known is not None and is_ancestor(vault.git, known, head):
        return  # the rewritten history was pushed
    there = tip()
    if there is None or (vault.git.resolve(f"{there}^{{commit}}") and is_ancestor(vault.git, there, head)):
        return
    branch = remote.branch.removeprefix("refs/heads/")
    raise Conflict(
        f"this vault's history was rewritten since the last sync (it lacks {synced[:8]}): "
        f"a sync would bring back from {remote.name} what was taken out here; nothing was changed",
        hint="to rewrite it there too, in the vault: "
        f"git push --force-with-lease={branch}:{there} {remote.name} HEAD:{branch} (a git pull brings it all back)",
        data={"reason": "rewritten", "synced": synced},
    )


def check_there(vault: Vault, remote: Remote, tip: str) -> None:
    """Raise Conflict when the remote's history was rewritten since the last sync (a purge, a forced push): joining it
    with ours would bring back what was taken out there. Also without a sync before: a purge leaves a line."""
    branch = remote.branch.removeprefix("refs/heads/")
    head, synced = vault.head(), value(vault.git, _key(remote))
    if head is None or synced is None or _related(vault, synced, tip) or not _related(vault, synced, head):
        check_same(vault, tip, remote.name, branch)
        return
    raise Conflict(
        f"the history of {remote.name}/{branch} was rewritten since the last sync (it lacks {synced[:8]}): "
        "a sync would bring back what was taken out there; nothing was taken in",
        hint="to go on from theirs with what is new here, in the vault: "
        f"git status && git rebase --onto {remote.name}/{branch} {synced[:12]} (a git pull brings it all back)",
        data={"reason": "rewritten", "synced": synced},
    )


def _related(vault: Vault, synced: str, commit: str) -> bool:
    """Whether a history goes on from the last sync, or went back to before it (a reset, a remote from a backup)."""
    if vault.git.resolve(f"{synced}^{{commit}}") is None:
        return False
    return is_ancestor(vault.git, synced, commit) or is_ancestor(vault.git, commit, synced)
