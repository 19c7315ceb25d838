"""The state of syncs. In memory: the result of the last one. In git's configuration: the last commit that both sides
had."""

from __future__ import annotations

import threading
from datetime import datetime

from msgspec import Struct, field

from ormahd.errors import Conflict
from ormahd.git.refs import is_ancestor
from ormahd.git.remote import Network, Remote, config_value, set_config_value, synced_key
from ormahd.vault.vault import Vault


class SyncState(Struct):
    """The result of the last sync of one running vault, in RAM. `busy`: held while a sync runs. `stopping`: set to end
    the running sync. `offline_since`: since when the remote is out of reach; None: it is not."""

    busy: threading.Lock = field(default_factory=threading.Lock)
    stopping: threading.Event = field(default_factory=threading.Event)
    last: datetime | None = None
    """When the last sync succeeded."""
    offline_since: datetime | None = None
    trouble: str | None = None
    """Why the last sync failed, as a sentence; None: it succeeded."""

    def record_success(self, when: datetime) -> None:
        """Record that a sync succeeded."""
        self.last, self.offline_since, self.trouble = when, None, None

    def record_failure(self, when: datetime, why: str, *, offline: bool) -> None:
        """Record that a sync failed because of `why`. `offline`: the remote was out of reach."""
        self.trouble = why
        self.offline_since = (self.offline_since or when) if offline else None


def note_synced(vault: Vault, remote: Remote, commit: str) -> None:
    """Record `commit` as the last one that both this vault and the remote have. Its id is stored in git's
    configuration, because a ref would keep purged commits alive, or be rewritten by the purge."""
    set_config_value(vault.git, _synced_setting(remote), commit)


def _synced_setting(remote: Remote) -> str:
    """Return the name of git's setting for the last commit that both this vault and the remote had."""
    return synced_key(remote.tracking.removeprefix("refs/remotes/"))


def check_our_history(vault: Vault, remote: Remote, wire: Network) -> None:
    """Raise Conflict when this vault's history was rewritten since the last sync (a purge, `git commit --amend`) and
    the remote still has the old one. `wire` asks the remote for the last commit of its branch.

    To be called before anything is fetched, so that purged content does not get back into this repository.
    """
    head, synced = vault.head(), config_value(vault.git, _synced_setting(remote))
    if head is None or synced is None or _related(vault, synced, head):
        return
    known = vault.git.resolve(f"{remote.tracking}^{{commit}}")
    if known is not None and is_ancestor(vault.git, known, head):
        return  # the rewritten history was pushed already
    commit = wire.heads(remote.address).branches.get(remote.branch)
    if commit is None or (vault.git.resolve(f"{commit}^{{commit}}") and is_ancestor(vault.git, commit, head)):
        return
    branch = remote.branch.removeprefix("refs/heads/")
    raise Conflict(
        f"this vault's history was rewritten since the last sync (it lacks {synced[:8]}): "
        f"a sync would bring back from {remote.name} what was taken out here; nothing was changed",
        hint="to rewrite it there too, in the vault: "
        f"git push --force-with-lease={branch}:{commit} {remote.name} HEAD:{branch} (a git pull brings it all back)",
        data={"reason": "rewritten", "synced": synced},
    )


def check_remote_history(vault: Vault, remote: Remote, tip: str) -> None:
    """Raise Conflict when the remote's history was rewritten since the last sync (a purge, a forced push): joining it
    would restore what was removed from it. `tip`: the last commit of the remote's branch."""
    branch = remote.branch.removeprefix("refs/heads/")
    head, synced = vault.head(), config_value(vault.git, _synced_setting(remote))
    if head is None or synced is None or _related(vault, synced, tip) or not _related(vault, synced, head):
        return
    raise Conflict(
        f"the history of {remote.name}/{branch} was rewritten since the last sync (it lacks {synced[:8]}): "
        "a sync would bring back what was taken out there; nothing was taken in",
        hint="to go on from theirs with what is new here, in the vault: "
        f"git status && git rebase --onto {remote.name}/{branch} {synced[:12]} (a git pull brings it all back)",
        data={"reason": "rewritten", "synced": synced},
    )


def _related(vault: Vault, synced: str, commit: str) -> bool:
    """Whether one of the two commits descends from the other. `commit` may be an ancestor of `synced` after a reset, or
    when a remote was restored from a backup. False if the commit `synced` is not in the repository."""
    if vault.git.resolve(f"{synced}^{{commit}}") is None:
        return False
    return is_ancestor(vault.git, synced, commit) or is_ancestor(vault.git, commit, synced)
