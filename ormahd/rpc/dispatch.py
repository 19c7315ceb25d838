"""From a call to the action that answers it: parameters checked, the caller's space found, the result made a Struct.

Nothing is decided here. One method of `Dispatcher` answers one method of the wire.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET, UnsetType
from pydantic import BaseModel, ValidationError

from ormahd import __version__
from ormahd.actions import admin
from ormahd.actions.caller import Caller, check_space, detect_space
from ormahd.actions.connect import connect
from ormahd.actions.exporting import export
from ormahd.actions.forget import forget
from ormahd.actions.get import get
from ormahd.actions.importing import import_lines
from ormahd.actions.outdated import outdated
from ormahd.actions.recall import recall
from ormahd.actions.remember import remember
from ormahd.actions.update import CLEARABLE, Update, update
from ormahd.actions.views import iso
from ormahd.core.node import CreateNodeRequest, EdgeType, LinkRequest, MemoryNode, SearchQuery
from ormahd.errors import BadRequest, Incompatible
from ormahd.ormah import Ormah
from ormahd.rpc import schema

M = TypeVar("M", bound=BaseModel)
R = TypeVar("R", bound=schema.Result)
ProgressFn = Callable[[schema.Progress], None]

CAPABILITIES = ("json", "msgpack", "progress", "request_id")
MAX_NAME = 1_000
"""Characters of an agent's name, a session's id or a path: longer is a mistake or an attack."""


def result(value: Any, kind: type[R]) -> R:
    """An action's dataclass (or mapping) as the Struct of the wire; fields are matched by name."""
    return msgspec.convert(value, kind, from_attributes=True, strict=False)


def checked(model: type[M], values: Mapping[str, Any]) -> M:
    """A domain request from the wire's values.

    Raises:
        BadRequest: naming the field, what it was and what is allowed.
    """
    try:
        return model.model_validate(dict(values))
    except ValidationError as exc:
        first = exc.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "parameters"
        given = repr(first["input"])
        shown = given if len(given) <= 60 else given[:60] + "…"
        raise BadRequest(
            f"{where}: {first['msg']} (it is {shown})",
            hint=f"see {model.__name__} in PROTOCOL.md",
            data={"field": where},
        ) from None


class Dispatcher:
    """Answers calls on behalf of one `Ormah`. `socket` and `clients` are what health says of the server."""

    def __init__(self, ormah: Ormah, *, socket: Path, clients: Callable[[], int] = lambda: 0) -> None:
        self.ormah = ormah
        self._socket = socket
        self._clients = clients
        self._methods: dict[str, Callable[[Any, Caller, ProgressFn], schema.Result]] = {
            "hello": self.hello,
            "agent.remember": self.remember,
            "agent.recall": self.recall,
            "agent.get": self.get,
            "agent.update": self.update,
            "agent.forget": self.forget,
            "agent.outdated": self.outdated,
            "agent.connect": self.connect,
            "admin.health": self.health,
            "admin.stats": self.stats,
            "admin.rebuild": self.rebuild,
            "admin.verify": self.verify,
            "admin.doctor": self.doctor,
            "admin.import": self.import_,
            "admin.export": self.export,
            "admin.run_task": self.run_task,
            "history.list": self.history,
        }

    def answer(self, call: schema.Call, progress: ProgressFn) -> schema.Result:
        """The result of one call.

        Raises:
            OrmahError: with a code, what was wrong and what to do next.
        """
        if call.method not in self._methods:
            raise BadRequest(f"there is no method '{call.method[:100]}'", hint="see PROTOCOL.md")
        for name, text in (("agent", call.agent), ("cwd", call.cwd)):
            if text is not None and len(text) > 4 * MAX_NAME:
                raise BadRequest(f"{name} is too long ({len(text)} characters)")
        params = call.params  # the method's own Struct: reading the call has checked it
        for name in ("session_id", "request_id", "reason", "run", "name"):
            text = getattr(params, name, None)
            if isinstance(text, str) and len(text) > (10_000 if name == "reason" else MAX_NAME):
                raise BadRequest(f"{name} is too long ({len(text)} characters)")
        caller = Caller(call.agent, call.cwd)
        request_id = getattr(params, "request_id", None)
        if request_id is None:
            return self._methods[call.method](params, caller, progress)
        return self._once(request_id, call.method, params, lambda: self._methods[call.method](params, caller, progress))

    def _once(self, request_id: str, method: str, params: Any, act: Callable[[], schema.Result]) -> schema.Result:
        """The first answer to `request_id`, however often it is asked: a client that lost the reply asks again."""
        asked = hashlib.sha256(msgspec.msgpack.encode(params)).hexdigest()
        with self.ormah.asking(request_id):
            before = self.ormah.state.answer(request_id)
            if before is not None:
                if before[:2] != (method, asked):
                    raise BadRequest(
                        f"request_id {request_id[:60]!r} was used for another request", hint="draw a new one"
                    )
                return msgspec.msgpack.decode(before[2], type=schema.METHODS[method][1])
            reply = act()
            self.ormah.state.answered(request_id, method, asked, msgspec.msgpack.encode(reply))
            return reply

    def _space(self, named: str | UnsetType | None, caller: Caller) -> str | None:
        """The space that the caller named (null: global), else the one detected from where it works."""
        return detect_space(caller.cwd, self.ormah.vault.root) if isinstance(named, UnsetType) else check_space(named)

    # ------------------------------------------------------------ agent

    def remember(self, params: schema.RememberParams, caller: Caller, _: ProgressFn) -> schema.Result:
        space = self._space(params.space, caller)
        request = checked(
            CreateNodeRequest,
            {
                "content": params.content, "type": params.type, "tier": params.tier,
                "source": params.source or caller.source, "space": space, "tags": params.tags,
                "connections": [_wish(link) for link in params.connections] + [{"target": target} for target in params.links],
                "title": params.title, "about_self": params.about_self, "confidence": params.confidence,
            },
        )  # fmt: skip
        return result(remember(self.ormah, request, caller), schema.RememberResult)

    def recall(self, params: schema.RecallParams, caller: Caller, _: ProgressFn) -> schema.Result:
        query = checked(
            SearchQuery,
            {
                "query": params.query, "limit": params.limit, "types": params.types, "tiers": params.tiers,
                "spaces": params.spaces, "tags": params.tags, "created_after": params.created_after,
                "created_before": params.created_before, "session_id": params.session_id,
            },
        )  # fmt: skip
        space = self._space(params.space, caller)
        found = recall(self.ormah, query, space=space, explain=params.explain)
        reply = result(found, schema.RecallResult)
        if not params.explain:
            reply.trace = UNSET
            for hit in reply.results:
                hit.trace = UNSET
        return reply

    def get(self, params: schema.NodeParams, _caller: Caller, _: ProgressFn) -> schema.Result:
        return result(
            get(self.ormah, params.node_id, session_id=params.session_id, touch=params.touch), schema.NodeResult
        )

    def update(self, params: schema.UpdateParams, caller: Caller, _: ProgressFn) -> schema.Result:
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
        return result(update(self.ormah, params.node_id, change, caller), schema.WriteResult)

    def forget(self, params: schema.ForgetParams, caller: Caller, _: ProgressFn) -> schema.Result:
        return result(forget(self.ormah, params.node_id, caller), schema.WriteResult)

    def outdated(self, params: schema.OutdatedParams, caller: Caller, _: ProgressFn) -> schema.Result:
        done = outdated(self.ormah, params.node_id, caller, reason=params.reason, revoke=params.revoke)
        return result(done, schema.WriteResult)

    def connect(self, params: schema.ConnectParams, caller: Caller, _: ProgressFn) -> schema.Result:
        link = checked(
            LinkRequest,
            {"target": params.target_id, "edge": params.edge, "weight": params.weight, "reason": params.reason},
        )
        done = connect(
            self.ormah, params.source_id, link.target, caller,
            edge=EdgeType(link.edge), weight=link.weight, reason=link.reason, remove=params.remove,
        )  # fmt: skip
        return result(done, schema.WriteResult)

    # ------------------------------------------------------------ admin

    def hello(self, params: schema.HelloParams, _caller: Caller, _: ProgressFn) -> schema.Result:
        if params.protocol != schema.PROTOCOL:
            raise Incompatible(
                f"this daemon ({__version__}) speaks protocol {schema.PROTOCOL}, the caller {params.protocol}",
                hint="install the same version of both, then: ormahctl down, ormahctl up",
                data={"protocol": schema.PROTOCOL, "version": __version__},
            )
        return schema.HelloResult(
            version=__version__, protocol=schema.PROTOCOL, capabilities=[*CAPABILITIES, *self._methods],
            vault=str(self.ormah.vault.root), vault_id=self.ormah.vault.id, phase=self.ormah.phase,
        )  # fmt: skip

    def health(self, _params: schema.NoParams, _caller: Caller, _: ProgressFn) -> schema.Result:
        ormah = self.ormah
        position, nodes = ormah.index.position, ormah.index.count()
        degraded = ormah.degraded()
        return schema.HealthResult(
            status="degraded" if degraded else "ok", phase=ormah.phase, version=__version__, protocol=schema.PROTOCOL,
            pid=os.getpid(), uptime_seconds=round((datetime.now(UTC) - ormah.started).total_seconds(), 3),
            vault=str(ormah.vault.root), vault_id=ormah.vault.id, socket=str(self._socket),
            nodes=nodes, index=schema.IndexHealth(
                directory=str(ormah.index.directory), notes=nodes, pending_vectors=ormah.index.pending(),
                bytes=ormah.index.size(), model=ormah.settings.embedding.model, head=position,
                fresh=position == ormah.vault.head(),
            ), degraded=degraded,
            queued=ormah.vault.waiting, busy=ormah.vault.busy(), watcher=ormah.watcher_state(), rss_mb=admin.rss_mb(),
            threads=threading.active_count(), clients=self._clients(), warnings=list(ormah.warnings),
        )  # fmt: skip

    def stats(self, _params: schema.NoParams, _caller: Caller, _: ProgressFn) -> schema.Result:
        return result(admin.stats(self.ormah), schema.StatsResult)

    def rebuild(self, _params: schema.NoParams, _caller: Caller, progress: ProgressFn) -> schema.Result:
        return result(admin.rebuild(self.ormah, _steps(progress)), schema.RebuildResult)

    def verify(self, _params: schema.NoParams, _caller: Caller, _: ProgressFn) -> schema.Result:
        differences = [
            schema.Difference(what=one.what, path=one.path, id=one.node_id, detail=one.detail)
            for one in self.ormah.verify()
        ]
        return schema.VerifyResult(ok=not differences, differences=differences)

    def doctor(self, params: schema.DoctorParams, _caller: Caller, _: ProgressFn) -> schema.Result:
        if params.fix:
            admin.fix(self.ormah)
        return schema.DoctorResult(findings=[result(finding, schema.Finding) for finding in admin.doctor(self.ormah)])

    def import_(self, params: schema.ImportParams, caller: Caller, progress: ProgressFn) -> schema.Result:
        done = import_lines(
            self.ormah, params.lines, caller, first_line=params.first_line, run=params.run, progress=_steps(progress)
        )
        return result(done, schema.ImportResult)

    def export(self, params: schema.ExportParams, _caller: Caller, _: ProgressFn) -> schema.Result:
        return result(export(self.ormah, after=params.after, limit=params.limit), schema.ExportResult)

    def run_task(self, params: schema.RunTaskParams, _caller: Caller, _: ProgressFn) -> schema.Result:
        return result(admin.run_task(self.ormah, params.name), schema.RunTaskResult)

    # ------------------------------------------------------------ history

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


def _wish(link: schema.Link) -> dict[str, Any]:
    return {"target": link.target, "edge": link.edge, "weight": link.weight, "reason": link.reason}


def _steps(progress: ProgressFn) -> Callable[[int, int, str], None]:
    return lambda done, total, stage: progress(schema.Progress(done=done, total=total, stage=stage))
