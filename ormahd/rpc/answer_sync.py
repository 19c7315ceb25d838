"""`admin.sync…`: several machines, through a git remote."""

from __future__ import annotations

from ormahd import api
from ormahd.actions.caller import Caller
from ormahd.actions.sync import Synced, sync
from ormahd.actions.sync_setup import setup
from ormahd.actions.take_back import take_back
from ormahd.ormah import Ormah
from ormahd.rpc.handling import Handler, ProgressFn, result, steps
from ormahd.vault import conflicts


class SyncMethods:
    """One method here answers one method of the wire; nothing is decided."""

    def __init__(self, ormah: Ormah) -> None:
        self.ormah = ormah

    def table(self) -> dict[str, Handler]:
        return {
            "admin.sync": self.sync,
            "admin.sync_setup": self.setup,
            "admin.sync_conflicts": self.conflicts,
            "admin.sync_resolve": self.resolve,
            "admin.sync_take_back": self.take_back,
        }

    def sync(self, params: api.SyncParams, caller: Caller, progress: ProgressFn) -> api.Result:
        return self._synced(sync(self.ormah, caller, steps(progress), yes=params.yes))

    def setup(self, params: api.SyncSetupParams, caller: Caller, progress: ProgressFn) -> api.Result:
        done = setup(
            self.ormah, params.url, caller, steps(progress), replace=params.replace, agreed=not params.ask,
            yes=params.yes,
        )  # fmt: skip
        return api.SyncSetupResult(
            state=done.state, remote=done.remote, url=done.url, vault_id=done.vault_id, former_id=done.former_id,
            memories=done.memories, synced=None if done.synced is None else self._synced(done.synced),
        )  # fmt: skip

    def conflicts(self, _params: api.NoParams, _caller: Caller, _: ProgressFn) -> api.Result:
        return api.ConflictsResult(conflicts=[_item(one) for one in conflicts.waiting(self.ormah.vault.root)])

    def resolve(self, params: api.ResolveConflictParams, _caller: Caller, _: ProgressFn) -> api.Result:
        root = self.ormah.vault.root
        settled = [_item(one) for one in conflicts.resolve(root, params.name)]
        return api.ResolveConflictResult(settled=settled, waiting=len(conflicts.waiting(root)))

    def take_back(self, params: api.ResolveConflictParams, caller: Caller, _: ProgressFn) -> api.Result:
        done = take_back(self.ormah, params.name, caller)
        return api.TakeBackResult(
            settled=[_item(one) for one in done.settled], commits=done.commits, waiting=done.waiting
        )

    def _synced(self, done: Synced) -> api.SyncResult:
        return api.SyncResult(
            pulled=done.pulled, pushed=done.pushed, conflicts=[_item(one) for one in done.conflicts],
            replaced=[_item(one) for one in done.replaced], told=done.told,
            waiting=len(conflicts.waiting(self.ormah.vault.root)), remote=done.remote, branch=done.branch,
            commit=done.commit,
        )  # fmt: skip


def _item(one: conflicts.Aside) -> api.ConflictItem:
    return result({**conflicts.as_row(one)}, api.ConflictItem)
