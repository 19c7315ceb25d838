"""`history.*`: looking back and taking back."""

from __future__ import annotations

from typing import Final

from ormahd.rpc.schema.base import Count, Params, Result


class HistoryParams(Params):
    node_id: str | None = None
    job: str | None = None
    kind: str | None = None
    since: str | None = None
    before: str | None = None
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


HISTORY: Final[dict[str, tuple[type[Params], type[Result]]]] = {
    "history.list": (HistoryParams, HistoryResult),
}
