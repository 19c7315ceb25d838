"""`history.*`: looking back and taking back."""

from __future__ import annotations

from ormahd.actions.caller import Caller
from ormahd.actions.views import iso
from ormahd.ormah import Ormah
from ormahd.rpc import schema
from ormahd.rpc.handling import Handler, ProgressFn


class HistoryMethods:
    """One method here answers one method of the wire; nothing is decided."""

    def __init__(self, ormah: Ormah) -> None:
        self.ormah = ormah

    def table(self) -> dict[str, Handler]:
        return {
            "history.list": self.history,
        }

    def history(self, params: schema.HistoryParams, _caller: Caller, _: ProgressFn) -> schema.Result:
        node_id = None if params.node_id is None else self.ormah.anyone(params.node_id)
        ops = self.ormah.history(
            node_id=node_id,
            kind=params.kind,
            job=params.job,
            since=params.since,
            before=params.before,
            limit=params.limit,
        )
        return schema.HistoryResult(
            ops=[
                schema.OpResult(
                    op=op.op, commit=op.commit, time=iso(op.time) or "", kind=op.kind, source=op.source,
                    subject=op.subject, body=op.body, nodes=list(op.nodes), run=op.run, undone_by=op.undone_by,
                )
                for op in ops
            ]
        )  # fmt: skip
