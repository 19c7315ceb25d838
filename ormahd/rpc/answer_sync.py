"""`admin.sync…`: several machines, through a git remote."""

from __future__ import annotations

from ormahd.actions.caller import Caller
from ormahd.actions.sync import Synced, sync
from ormahd.actions.sync_setup import setup
from ormahd.actions.take_back import take_back
from ormahd.ormah import Ormah
from ormahd.rpc import schema
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

    def sync(self, params: schema.SyncParams, caller: Caller, progress: ProgressFn) -> schema.Result:
        return self._synced(sync(self.ormah, caller, steps(progress), yes=params.yes))

    def setup(self, params: schema.SyncSetupParams, caller: Caller, progress: ProgressFn) -> schema.Result:
        done = setup(
            self.ormah, params.url, caller, steps(progress), replace=params.replace, agreed=not params.ask,
            yes=params.yes,
        )  # fmt: skip
        return schema.SyncSetupResult(
            state=done.state, remote=done.remote, url=done.url, vault_id=done.vault_id, former_id=done.former_id,
            memories=done.memories, synced=None if done.synced is None else self._synced(done.synced),
        )  # fmt: skip

    def conflicts(self, _params: schema.NoParams, _caller: Caller, _: ProgressFn) -> schema.Result:
        return schema.ConflictsResult(conflicts=[_item(one) for one in conflicts.waiting(self.ormah.vault.root)])

    def resolve(self, params: schema.ResolveConflictParams, _caller: Caller, _: ProgressFn) -> schema.Result:
        root = self.ormah.vault.root
        settled = [_item(one) for one in conflicts.resolve(root, params.name)]
        return schema.ResolveConflictResult(settled=settled, waiting=len(conflicts.waiting(root)))

    def take_back(self, params: schema.ResolveConflictParams, caller: Caller, _: ProgressFn) -> schema.Result:
        done = take_back(self.ormah, params.name, caller)
        return schema.TakeBackResult(
            settled=[_item(one) for one in done.settled], commits=done.commits, waiting=done.waiting
        )

    def _synced(self, done: Synced) -> schema.SyncResult:
        return schema.SyncResult(
            pulled=done.pulled, pushed=done.pushed, conflicts=[_item(one) for one in done.conflicts],
            replaced=[_item(one) for one in done.replaced], told=done.told,
            waiting=len(conflicts.waiting(self.ormah.vault.root)), remote=done.remote, branch=done.branch,
            commit=done.commit,
        )  # fmt: skip


def _item(one: conflicts.Aside) -> schema.ConflictItem:
    return result({**conflicts.as_row(one)}, schema.ConflictItem)
