"""What is known of the syncs so far: in memory how the last one went, in git up to where both sides were one."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from datetime import datetime

from ormahd.errors import Conflict
from ormahd.vault.git_refs import is_ancestor
from ormahd.vault.git_remote import Remote, set_ref
from ormahd.vault.purge_records import check_same
from ormahd.vault.vault import Vault


@dataclass(slots=True)
class SyncState:
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


def _ref(remote: Remote) -> str:
    return f"refs/ormah/synced/{remote.name}/{remote.branch.removeprefix('refs/heads/')}"


def note_synced(vault: Vault, remote: Remote, commit: str) -> None:
    """From now on both sides are known to have this commit."""
    set_ref(vault.git, _ref(remote), commit)


def check_not_rewritten(vault: Vault, remote: Remote, head: str, tip: str) -> None:
    """Raise Conflict when one side's history was rewritten since the last sync (a purge, a forced push): joining both
    would bring back what was taken out."""
    check_same(vault, tip, remote.name, remote.branch.removeprefix("refs/heads/"))
    synced = vault.git.resolve(f"{_ref(remote)}^{{commit}}")
    if synced is None:
        return
    here = is_ancestor(vault.git, synced, head) or is_ancestor(vault.git, head, synced)
    there = is_ancestor(vault.git, synced, tip) or is_ancestor(vault.git, tip, synced)
    branch = remote.branch.removeprefix("refs/heads/")
    if not there and here:
        raise Conflict(
            f"the history of {remote.name}/{branch} was rewritten since the last sync (it lacks {synced[:8]}): "
            "a sync would bring back what was taken out there; nothing was changed",
            hint=f"to go on from theirs, in the vault: git reset --keep {remote.name}/{branch} "
            f"(git log {remote.name}/{branch}..HEAD shows what only you have); to bring both together: git pull --no-rebase",
            data={"reason": "rewritten", "synced": synced},
        )
    if not here and there:
        raise Conflict(
            f"this vault's history was rewritten since the last sync (it lacks {synced[:8]}): "
            f"a sync would bring back from {remote.name} what was taken out here; nothing was changed",
            hint=f"to rewrite it there too, in the vault: git push --force-with-lease {remote.name} HEAD:{branch}; "
            "to bring both together: git pull --no-rebase",
            data={"reason": "rewritten", "synced": synced},
        )
