"""The actions of the MCP tools: each makes one call of the daemon, and returns the result as text and ids."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import UNSET

from ormahctl.gateway import readable
from ormahctl.gateway.daemon import READ_SECONDS
from ormahd.api import (
    FeedbackParams,
    FeedbackResult,
    HistoryParams,
    HistoryResult,
    LifeParams,
    LifeResult,
    MaintenanceParams,
    MaintenanceResult,
    NodeParams,
    NodeResult,
    OutdatedParams,
    RecallParams,
    RecallResult,
    RememberParams,
    RememberResult,
    UndoParams,
    UndoResult,
    UpdateParams,
    WriteResult,
)
from ormahd.rpc.wire import BadRequest

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext

    from ormahctl.gateway.work import Workplace

    Context = ServerRequestContext[Any]

CHANGES: Final = 20
"""Number of changes that `history` shows by default."""
MAINTENANCE_SECONDS: Final = 600.0
"""Seconds for a phase of maintenance: the first compares many memories, the second makes a commit for each verdict."""


class ToolAnswer(msgspec.Struct, frozen=True):
    """A tool's answer. `text`: for the agent. `facts`: the ids and values in it, for programs."""

    text: str
    facts: dict[str, Any]


async def remember(place: Workplace, ctx: Context, given: dict[str, Any]) -> ToolAnswer:
    space = place.space(given.pop("space", None))
    params = RememberParams(**given, space=space, request_id=place.request_id(ctx))
    done = await place.call(ctx, "agent.remember", params, RememberResult)
    similar = [{"node_id": one.id, "title": one.title, "similarity": one.similarity} for one in done.near]
    facts = {"node_id": done.node_id, "existing": done.existing, "op": done.op, "space": done.space, "similar": similar}
    return ToolAnswer(readable.remembered(done), facts)


async def recall(place: Workplace, ctx: Context, given: dict[str, Any]) -> ToolAnswer:
    params = RecallParams(**given, space=place.space(None))
    found = await place.call(ctx, "agent.recall", params, RecallResult, timeout=READ_SECONDS)
    ids = [{"node_id": hit.id, "title": hit.title, "score": round(hit.score, 3)} for hit in found.results]
    return ToolAnswer(readable.recall(found, given["query"]), {"results": ids, "degraded": found.degraded})


async def recall_node(place: Workplace, ctx: Context, given: dict[str, Any]) -> ToolAnswer:
    found = await place.call(ctx, "agent.get", NodeParams(node_id=given["node_id"]), NodeResult, timeout=READ_SECONDS)
    return ToolAnswer(readable.node(found), {"node_id": found.id, "digest": found.digest})


async def update(place: Workplace, ctx: Context, given: dict[str, Any]) -> ToolAnswer:
    expected = given.pop("expected", None)
    named = given.pop("space", "").strip()
    space = place.space(named) if named else UNSET
    if not given.keys() - {"node_id"} and space is UNSET:
        raise BadRequest(
            "nothing to change was given", hint="pass content, title, type, tier, space, tags or confidence"
        )
    params = UpdateParams(**given, space=space, expect=expected, request_id=place.request_id(ctx))
    done = await place.call(ctx, "agent.update", params, WriteResult)
    return ToolAnswer(readable.written(done), {"node_id": done.node_id, "op": done.op, "changed": done.changed})


async def mark_outdated(place: Workplace, ctx: Context, given: dict[str, Any]) -> ToolAnswer:
    by = given.pop("replaced_by", None)
    params = OutdatedParams(**given, by=by, request_id=place.request_id(ctx))
    done = await place.call(ctx, "agent.outdated", params, WriteResult)
    return ToolAnswer(readable.written(done), {"node_id": done.node_id, "op": done.op, "changed": done.changed})


async def submit_feedback(place: Workplace, ctx: Context, given: dict[str, Any]) -> ToolAnswer:
    params = FeedbackParams(**given, request_id=place.request_id(ctx))
    done = await place.call(ctx, "agent.feedback", params, FeedbackResult)
    return ToolAnswer(readable.judged(done), {"node_id": done.node_id, "counted": done.counted, "op": done.op})


async def run_maintenance(place: Workplace, ctx: Context, given: dict[str, Any]) -> ToolAnswer:
    results = given.get("results")
    params = MaintenanceParams()
    if results is not None:
        params = MaintenanceParams(results=results, request_id=place.request_id(ctx))
    done = await place.call(ctx, "agent.maintenance", params, MaintenanceResult, timeout=MAINTENANCE_SECONDS)
    if results is None:
        return ToolAnswer(readable.batches(done), {"status": done.status, "receipt": done.receipt})
    run = done.run if isinstance(done.run, str) else None
    return ToolAnswer(
        readable.applied(done), {"status": done.status, "run": run, "summary": msgspec.to_builtins(done.summary)}
    )


async def history(place: Workplace, ctx: Context, given: dict[str, Any]) -> ToolAnswer:
    limit = given.get("limit", CHANGES)
    since = given.get("since")
    if "node_id" in given:
        of = LifeParams(node_id=given["node_id"], since=since, limit=limit)
        life = await place.call(ctx, "history.life", of, LifeResult, timeout=READ_SECONDS)
        return ToolAnswer(readable.life(life, limit), {"ops": [one.op for one in life.versions]})
    found = await place.call(
        ctx, "history.list", HistoryParams(since=since, limit=limit), HistoryResult, timeout=READ_SECONDS
    )
    return ToolAnswer(readable.history(found, limit), {"ops": [one.op for one in found.ops]})


async def undo(place: Workplace, ctx: Context, given: dict[str, Any]) -> ToolAnswer:
    op, run = given.get("op"), given.get("run")
    if (op is None) == (run is None):
        raise BadRequest("give op or run, and not both", hint="history shows the ids of changes")
    params = UndoParams(ops=[] if op is None else [op], run=run, request_id=place.request_id(ctx))
    done = await place.call(ctx, "history.undo", params, UndoResult)
    facts = {
        "undone": [one.op for one in done.undone],
        "undo_ops": [one.undo_op for one in done.undone],
        "run": done.run,
    }
    return ToolAnswer(readable.undone(done), facts)
