"""The actions of the MCP tools: each makes one call of the daemon, and returns the result as text."""

from __future__ import annotations

from typing import Any, Final, Literal

from mcp.server.context import ServerRequestContext
from msgspec import UNSET

from ormahctl.gateway import readable
from ormahctl.gateway.daemon import READ_SECONDS
from ormahctl.gateway.work import Workplace
from ormahctl.render import safe
from ormahd import api
from ormahd.rpc.wire import BadRequest

Context = ServerRequestContext[Any]
CHANGES: Final = 20
"""Number of changes that `history` shows by default."""
WORK: Final[tuple[Literal["how", "fix", "file"], ...]] = ("how", "fix", "file")
MAINTENANCE_SECONDS: Final = 600.0
"""Seconds for a phase of maintenance: the first compares many memories, the second makes a commit for each verdict."""


async def remember(place: Workplace, ctx: Context, given: dict[str, Any]) -> str:
    """Store a memory, and return what was stored and which similar memories exist."""
    space = place.space(given.pop("space", None))
    params = api.RememberParams(**given, space=space)
    done = await place.call(ctx, "agent.remember", params, api.RememberResult)
    return readable.written(done)


async def recall(place: Workplace, ctx: Context, given: dict[str, Any]) -> str:
    """Search the memories, or with `in_sessions` the archived sessions, and return the results."""
    sessions = given.pop("in_sessions", False)
    params = api.RecallParams(**given, sessions=sessions, space=place.space(None))
    found = await place.call(ctx, "agent.recall", params, api.RecallResult, timeout=READ_SECONDS)
    return safe(found.text) if sessions else readable.recall(found, given["query"])


async def recall_work(place: Workplace, ctx: Context, given: dict[str, Any]) -> str:
    """Search what agents did in archived sessions. `given` has one of: how (commands that worked), fix (an error),
    file (a path)."""
    kinds = [kind for kind in WORK if given.get(kind)]
    if len(kinds) != 1:
        raise BadRequest(
            "give one of how, fix and file", hint="how: what you want to run; fix: an error; file: its path"
        )
    params = api.WorkParams(kind=kinds[0], query=given[kinds[0]], space=place.space(given.get("space")))
    found = await place.call(ctx, "agent.work", params, api.WorkResult, timeout=READ_SECONDS)
    return "\n".join(map(safe, found.text.splitlines()))


async def recall_node(place: Workplace, ctx: Context, given: dict[str, Any]) -> str:
    """Return one memory in full."""
    found = await place.call(
        ctx, "agent.get", api.NodeParams(node_id=given["node_id"]), api.NodeResult, timeout=READ_SECONDS
    )
    return readable.node(found)


async def update(place: Workplace, ctx: Context, given: dict[str, Any]) -> str:
    """Change fields of a memory. `expected`: the memory's digest; the change fails if the memory has another one
    now."""
    expected = given.pop("expected", None)
    named = given.pop("space", "").strip()
    space = place.space(named) if named else UNSET
    if not given.keys() - {"node_id"} and space is UNSET:
        raise BadRequest(
            "nothing to change was given",
            hint="pass content, title, type, tier, space, tags, rejected, commands or paths",
        )
    if given.get("rejected") == "":
        given["rejected"] = None
    params = api.UpdateParams(**given, space=space, expect=expected)
    done = await place.call(ctx, "agent.update", params, api.WriteResult)
    return readable.written(done)


async def mark_outdated(place: Workplace, ctx: Context, given: dict[str, Any]) -> str:
    """Mark a memory as outdated. `replaced_by`: the id of the memory that replaces it."""
    by = given.pop("replaced_by", None)
    params = api.OutdatedParams(**given, by=by)
    done = await place.call(ctx, "agent.outdated", params, api.WriteResult)
    return readable.written(done)


async def forget(place: Workplace, ctx: Context, given: dict[str, Any]) -> str:
    """Forget a memory."""
    done = await place.call(ctx, "agent.forget", api.ForgetParams(**given), api.WriteResult)
    return readable.written(done)


async def submit_feedback(place: Workplace, ctx: Context, given: dict[str, Any]) -> str:
    """Store whether a whispered memory was useful."""
    params = api.FeedbackParams(**{"source": "implicit", **given})
    done = await place.call(ctx, "agent.feedback", params, api.FeedbackResult)
    return safe(done.text)


async def run_maintenance(place: Workplace, ctx: Context, given: dict[str, Any]) -> str:
    """Return questions for the agent to judge; or, if `given` has `results`, apply the agent's verdicts and return
    what that did."""
    results = given.get("results")
    params = api.MaintenanceParams(results=results)
    done = await place.call(ctx, "agent.maintenance", params, api.MaintenanceResult, timeout=MAINTENANCE_SECONDS)
    return readable.batches(done) if results is None else readable.applied(done)


async def history(place: Workplace, ctx: Context, given: dict[str, Any]) -> str:
    """Return the newest changes of the vault; or, if `given` has `node_id`, the versions of that memory."""
    limit = given.get("limit", CHANGES)
    since = given.get("since")
    if "node_id" in given:
        of = api.LifeParams(node_id=given["node_id"], since=since, limit=limit)
        life = await place.call(ctx, "history.life", of, api.LifeResult, timeout=READ_SECONDS)
        return readable.life(life, limit)
    found = await place.call(
        ctx, "history.list", api.HistoryParams(since=since, limit=limit), api.HistoryResult, timeout=READ_SECONDS
    )
    return readable.history(found, limit)


async def undo(place: Workplace, ctx: Context, given: dict[str, Any]) -> str:
    """Undo one change (`op`), or all changes of a run (`run`)."""
    op, run = given.get("op"), given.get("run")
    if (op is None) == (run is None):
        raise BadRequest("give op or run, and not both", hint="history shows the ids of changes")
    params = api.UndoParams(ops=[] if op is None else [op], run=run)
    done = await place.call(ctx, "history.undo", params, api.UndoResult)
    return readable.undone(done)
