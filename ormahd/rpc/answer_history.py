"""`history.*`: looking back and taking back."""

from __future__ import annotations

from typing import Any

from ormahd import api
from ormahd.actions.caller import Caller
from ormahd.actions.looking_back import NoteChange, life, show_op
from ormahd.actions.undo import Wish, undo
from ormahd.actions.views import iso
from ormahd.ormah import Ormah
from ormahd.rpc.handling import Handler, ProgressFn, result, steps
from ormahd.vault.history import Op, list_ops


class HistoryMethods:
    """One method here answers one method of the wire; nothing is decided."""

    def __init__(self, ormah: Ormah) -> None:
        self.ormah = ormah

    def table(self) -> dict[str, Handler]:
        return {
            "history.list": self.history,
            "history.show": self.show,
            "history.life": self.life,
            "history.undo": self.undo,
        }

    def history(self, params: api.HistoryParams, _caller: Caller, _: ProgressFn) -> api.Result:
        node_id = None if params.node_id is None else self.ormah.anyone(params.node_id)
        ops = list_ops(
            self.ormah.vault,
            node_id=node_id,
            kind=params.kind,
            job=params.job,
            run=params.run,
            since=params.since,
            before=params.before,
            limit=params.limit,
        )
        return api.HistoryResult(ops=[api.OpResult(**_fields(op)) for op in ops])

    def show(self, params: api.ShowOpParams, _caller: Caller, _: ProgressFn) -> api.Result:
        view = show_op(self.ormah, params.op, limit=params.limit)
        return api.ShowOpResult(**_fields(view.op), notes=[_change(one) for one in view.notes], total=view.total)

    def life(self, params: api.LifeParams, _caller: Caller, _: ProgressFn) -> api.Result:
        node_id = self.ormah.anyone(params.node_id)
        found = life(self.ormah, node_id, limit=params.limit, since=params.since, before=params.before)
        return api.LifeResult(
            node_id=node_id,
            versions=[
                api.VersionResult(
                    **_fields(view.op),
                    change=next((_change(one) for one in view.notes if one.node_id in {node_id, None}), None),
                )
                for view in found
            ],
        )

    def undo(self, params: api.UndoParams, caller: Caller, progress: ProgressFn) -> api.Result:
        wish = Wish(
            tuple(params.ops), params.run, params.job, params.since, params.node_id, params.edge, params.force,
            params.dry_run, params.yes,
        )  # fmt: skip
        return result(undo(self.ormah, wish, caller, steps(progress)), api.UndoResult)


def _fields(op: Op) -> dict[str, Any]:
    """An op as `OpResult` has it."""
    return {
        "op": op.op, "commit": op.commit, "time": iso(op.time) or "", "kind": op.kind, "source": op.source,
        "subject": op.subject, "body": op.body, "nodes": list(op.nodes), "run": op.run, "undone_by": op.undone_by,
    }  # fmt: skip


def _change(change: NoteChange) -> api.NoteChange:
    return result(change, api.NoteChange)
