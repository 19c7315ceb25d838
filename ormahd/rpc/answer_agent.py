"""`agent.*`: remembering, recalling, changing."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, TypeVar

from msgspec import UNSET, UnsetType

from ormahd import api
from ormahd.actions.audit import audit, merges
from ormahd.actions.caller import Caller, check_space
from ormahd.actions.connect import connect
from ormahd.actions.forget import forget
from ormahd.actions.get import get, get_as_of
from ormahd.actions.insights import insights
from ormahd.actions.outdated import outdated
from ormahd.actions.projects import settle, space_of
from ormahd.actions.recall import recall, recall_as_of
from ormahd.actions.remember import remember
from ormahd.actions.undo import undo_merge
from ormahd.actions.update import CLEARABLE, Update, update
from ormahd.model.node import CreateNodeRequest, EdgeType, LinkRequest, MemoryNode, SearchQuery
from ormahd.ormah import Ormah
from ormahd.rpc.handling import Handler, ProgressFn, checked, result, steps


class AgentMethods:
    """One method here answers one method of the wire; nothing is decided."""

    def __init__(self, ormah: Ormah) -> None:
        self.ormah = ormah

    def table(self) -> dict[str, Handler]:
        return {
            "agent.remember": self.remember,
            "agent.recall": self.recall,
            "agent.get": self.get,
            "agent.update": self.update,
            "agent.forget": self.forget,
            "agent.outdated": self.outdated,
            "agent.connect": self.connect,
            "agent.undo_merge": self.undo_merge,
            "agent.merges": self.merges,
            "agent.audit": self.audit,
            "agent.insights": self.insights,
        }

    def _space(self, named: str | UnsetType | None, caller: Caller) -> str | None:
        """The space that the caller named (null: global), else the one detected from where it works."""
        return space_of(self.ormah, caller) if isinstance(named, UnsetType) else check_space(named)

    def remember(self, params: api.RememberParams, caller: Caller, _: ProgressFn) -> api.Result:
        space = settle(self.ormah, caller) if isinstance(params.space, UnsetType) else check_space(params.space)
        request = checked(
            CreateNodeRequest,
            {
                "content": params.content, "type": params.type, "tier": params.tier,
                "source": params.source or caller.source, "space": space, "tags": params.tags,
                "connections": [_wish(link) for link in params.connections] + [{"target": target} for target in params.links],
                "title": params.title, "about_self": params.about_self, "confidence": params.confidence,
                # null is said on purpose; who works in no project says nothing
                "global": space is None and not isinstance(params.space, UnsetType),
            },
        )  # fmt: skip
        return result(remember(self.ormah, request, caller, replaces=params.replaces), api.RememberResult)

    def recall(self, params: api.RecallParams, caller: Caller, progress: ProgressFn) -> api.Result:
        query = checked(
            SearchQuery,
            {
                "query": params.query, "limit": params.limit, "types": params.types, "tiers": params.tiers,
                "spaces": params.spaces, "tags": params.tags, "created_after": params.created_after,
                "created_before": params.created_before, "session_id": params.session_id,
            },
        )  # fmt: skip
        space = self._space(params.space, caller)
        if params.as_of is None:
            found = recall(self.ormah, query, space=space, explain=params.explain)
        else:
            found = recall_as_of(
                self.ormah, query, params.as_of, space=space, explain=params.explain, progress=steps(progress)
            )
        reply = _dated(result(found, api.RecallResult))
        if not params.explain:
            reply.trace = UNSET
            for hit in reply.results:
                hit.trace = UNSET
        return reply

    def get(self, params: api.NodeParams, _caller: Caller, progress: ProgressFn) -> api.Result:
        if params.as_of is None:
            node = get(self.ormah, params.node_id, session_id=params.session_id, touch=params.touch)
        else:
            node = get_as_of(self.ormah, params.node_id, params.as_of, progress=steps(progress))
        return _dated(result(node, api.NodeResult))

    def update(self, params: api.UpdateParams, caller: Caller, _: ProgressFn) -> api.Result:
        wished = {
            name: getattr(params, name)
            for name in ("content", "title", "type", "tier", "space", "tags", "confidence", "valid_until")
            if getattr(params, name) is not UNSET
        }
        clear = [name for name, value in wished.items() if value is None and name in CLEARABLE]
        values = {name: value for name, value in wished.items() if name not in clear}
        if "space" in values:
            space = check_space(values.pop("space"))
            if space is None:
                clear.append("space")
            else:
                values["space"] = space
        # the node's own rules check the values; what was not named takes a placeholder and is dropped again
        stand_in = {"id": "-", "content": "-", "created": datetime.now(UTC), "updated": datetime.now(UTC)}
        node = checked(MemoryNode, stand_in | values)
        request = checked(CreateNodeRequest, {"content": "-", "tags": [*params.add_tags, *params.remove_tags]})
        added = tuple(request.tags[: len(params.add_tags)])
        change = Update(
            {name: getattr(node, name) for name in values},
            clear,
            added,
            tuple(request.tags[len(added) :]),
            tuple(checked(LinkRequest, _wish(link)) for link in params.add_connections),
            params.expect,
        )
        return result(update(self.ormah, params.node_id, change, caller), api.WriteResult)

    def forget(self, params: api.ForgetParams, caller: Caller, _: ProgressFn) -> api.Result:
        return result(forget(self.ormah, params.node_id, caller), api.WriteResult)

    def outdated(self, params: api.OutdatedParams, caller: Caller, _: ProgressFn) -> api.Result:
        done = outdated(self.ormah, params.node_id, caller, reason=params.reason, revoke=params.revoke, by=params.by)
        return result(done, api.WriteResult)

    def connect(self, params: api.ConnectParams, caller: Caller, _: ProgressFn) -> api.Result:
        link = checked(
            LinkRequest,
            {"target": params.target_id, "edge": params.edge, "weight": params.weight, "reason": params.reason},
        )
        done = connect(
            self.ormah, params.source_id, link.target, caller,
            edge=EdgeType(link.edge), weight=link.weight, reason=link.reason, remove=params.remove,
        )  # fmt: skip
        return result(done, api.WriteResult)

    def undo_merge(self, params: api.UndoMergeParams, caller: Caller, _: ProgressFn) -> api.Result:
        return result(undo_merge(self.ormah, params.merge_id, caller), api.UndoMergeResult)

    def merges(self, params: api.MergesParams, _caller: Caller, _: ProgressFn) -> api.Result:
        rows = merges(self.ormah, limit=params.limit)
        return api.MergesResult(merges=[result(row, api.MergeRow) for row in rows])

    def audit(self, params: api.AuditParams, _caller: Caller, _: ProgressFn) -> api.Result:
        node_id = None if params.node_id is None else self.ormah.anyone(params.node_id)
        rows = audit(self.ormah, limit=params.limit, node_id=node_id, operation=params.operation)
        return api.AuditResult(entries=[result(row, api.AuditRow) for row in rows])

    def insights(self, params: api.InsightsParams, _caller: Caller, _: ProgressFn) -> api.Result:
        return result(insights(self.ormah, limit=params.limit, space=params.space), api.InsightsResult)


D = TypeVar("D", api.RecallResult, api.NodeResult)


def _dated(reply: D) -> D:
    """Without the field of a question that was about today."""
    reply.as_of = reply.as_of or UNSET
    return reply


def _wish(link: api.Link) -> dict[str, Any]:
    return {"target": link.target, "edge": link.edge, "weight": link.weight, "reason": link.reason}
