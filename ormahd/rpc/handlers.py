"""The table of methods, with the action of each, and the dispatcher that uses it.

The dispatcher checks the lengths of texts, identifies the caller, and repeats the stored answer for a repeated request
id. Parameters that a person typed are converted to domain models, which validate them.
"""

from __future__ import annotations

import hashlib
import tempfile
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import asdict, replace
from pydantic import BaseModel, ValidationError

from ormahd import __version__, api
from ormahd.actions import admin, lookup, projects
from ormahd.actions.amend import Caller, check_space, clean_name
from ormahd.actions.connect import connect
from ormahd.actions.feedback import feedback
from ormahd.actions.graph import graph, graph_node
from ormahd.actions.looking_back import audit, history, life, merges, months, show_op
from ormahd.actions.lookup import get, get_as_of, insights
from ormahd.actions.outdated import forget, outdated
from ormahd.actions.purge import purge
from ormahd.actions.recall import recall, recall_as_of
from ormahd.actions.remember import remember
from ormahd.actions.sessions import recall_sessions, sessions
from ormahd.actions.sync import setup, sync
from ormahd.actions.transfer import export, import_lines
from ormahd.actions.undo import take_in_conflict, undo, undo_merge
from ormahd.actions.update import CLEARABLE, Update, update
from ormahd.api import UpdateParams
from ormahd.errors import BadRequest, Incompatible, NotReady, Unavailable, fault
from ormahd.git.commit_message import REQUEST
from ormahd.git.refs import find_commits
from ormahd.ingest.backfill import past
from ormahd.ingest.bring_in import ingest
from ormahd.ingest.documents.copies import ingest_document
from ormahd.ingest.documents.finding import look_at
from ormahd.ingest.intake import Intake
from ormahd.jobs.judging import Judging
from ormahd.jobs.maintenance.maintenance import Maintenance
from ormahd.jobs.memories import propose_memory
from ormahd.jobs.proposals import Approval
from ormahd.jobs.timetable import Timetable
from ormahd.model.node import ABOUT_SELF, CreateNodeRequest, EdgeType, LinkRequest, MemoryNode, Narrowing, SearchQuery
from ormahd.ormah import Ormah
from ormahd.rpc.codec import resolved
from ormahd.rpc.health import findings, health
from ormahd.rpc.pools import SCAN, lane_of
from ormahd.rpc.subscriptions import SUBSCRIBE
from ormahd.state.sessions import key_of, without_secret
from ormahd.vault import conflicts
from ormahd.whisper.pipeline import Whisper
from ormahd.whisper.types import Asked

M = TypeVar("M", bound=BaseModel)
SET = ("content", "title", "type", "tier", "space", "tags", "confidence", "valid_until")
"""Fields that `agent.update` can set."""
NAMES = ("space", "source", "run")
"""Parameters of any method whose values are stored in notes, commits or the state. Secrets in them are redacted."""


def checked(model: type[M], given: Struct | Mapping[str, Any], **more: Any) -> M:
    """Validate the fields of `given`, overridden by `more`, as a `model`. Fields of a Struct that `model` lacks are ignored.

    Raises:
        BadRequest: a value is invalid; the message names the field, its value and what is allowed.
    """
    if isinstance(given, Struct):
        given = {
            name: value for name, value in asdict(given).items() if name in model.model_fields and value is not UNSET
        }
    try:
        return model.model_validate({**given, **more})
    except ValidationError as exc:
        found = fault(exc, model.model_fields)
        raise BadRequest(str(found), hint=found.hint, data={"field": found.key}) from None


def space_named(named: str | UnsetType | None, detect: Callable[[], str | None]) -> str | None:
    """Return the space that the caller named (None: global). If the caller named none, return what `detect` returns."""
    return detect() if isinstance(named, UnsetType) else check_space(named)


def changes(params: UpdateParams) -> Update:
    """Return the update of a memory that the parameters describe. Raises BadRequest for values that a memory cannot have."""
    wished = {name: value for name in SET if (value := getattr(params, name)) is not UNSET}
    clear = [name for name, value in wished.items() if value is None and name in CLEARABLE]
    values = {name: value for name, value in wished.items() if name not in clear}
    if "space" in values:
        space = check_space(values.pop("space"))
        if space is None:
            clear.append("space")
        else:
            values["space"] = space
    # MemoryNode needs all fields: those that the caller did not name get placeholders, which the result omits
    stand_in = {"id": "-", "content": "-", "created": datetime.now(UTC), "updated": datetime.now(UTC)}
    node = checked(MemoryNode, stand_in | values)
    tags = checked(CreateNodeRequest, {"content": "-", "tags": [*params.add_tags, *params.remove_tags]}).tags
    return Update(
        {name: getattr(node, name) for name in values},
        clear,
        tuple(tags[: len(params.add_tags)]),
        tuple(tags[len(params.add_tags) :]),
        tuple(checked(LinkRequest, one) for one in params.add_connections),
        params.expect,
    )


Steps = Callable[[int, int, str], None]
"""A function that reports progress to the caller: (done, total, stage)."""
Handler = Callable[[Any, Caller, Steps], api.Result]
"""A function that answers a call: (parameters of the method's Struct in `api.METHODS`, caller, progress) -> result."""


class Parts(Struct, frozen=True):
    """The objects that the handlers use. `socket` and `clients` (a function that returns the number of open
    connections) are for `admin.health`."""

    ormah: Ormah
    whisper: Whisper
    timetable: Timetable
    maintenance: Maintenance
    judging: Judging
    intake: Intake
    socket: Path
    clients: Callable[[], int] = lambda: 0


def handlers(parts: Parts) -> dict[str, Handler]:
    """Return {method: function that answers it} for all methods except `hello`."""
    ormah, intake, jobs = parts.ormah, parts.intake, parts.timetable
    runner, root = jobs.runner, ormah.vault.root
    return {
        "agent.remember": lambda p, caller, _: _remember(ormah, p, caller),
        "agent.recall": lambda p, caller, steps: _recall(ormah, p, caller, steps),
        "agent.get": lambda p, _, steps: _get(ormah, p, steps),
        "agent.update": lambda p, caller, _: update(ormah, p.node_id, changes(p), caller),
        "agent.forget": lambda p, caller, _: forget(ormah, p.node_id, caller),
        "agent.outdated": lambda p, caller, _: outdated(
            ormah, p.node_id, caller, reason=p.reason, revoke=p.revoke, by=p.by
        ),
        "agent.connect": lambda p, caller, _: _connect(ormah, p, caller),
        "agent.undo_merge": lambda p, caller, _: undo_merge(ormah, p.merge_id, caller),
        "agent.merges": lambda p, *_: api.MergesResult(merges(ormah, limit=p.limit)),
        "agent.audit": lambda p, *_: api.AuditResult(
            audit(ormah, limit=p.limit, node_id=p.node_id and ormah.anyone(p.node_id), operation=p.operation)
        ),
        "agent.insights": lambda p, *_: insights(ormah, limit=p.limit, space=p.space),
        "agent.whisper": lambda p, caller, _: _whisper(parts.whisper, p, caller),
        "agent.feedback": lambda p, caller, _: feedback(
            ormah, p.node_id, p.signal, caller, source=p.source, event=p.event
        ),
        "agent.list": lambda p, *_: lookup.newest(ormah, checked(Narrowing, p), p.limit, p.skip),
        "agent.whispers": lambda p, *_: lookup.whispered(
            ormah, p, checked(Narrowing, {"created_after": p.since, "created_before": p.before})
        ),
        "agent.spaces": lambda _, caller, __: projects.listed(ormah, caller),
        "agent.assign_space": lambda p, caller, _: _assign(ormah, p, caller),
        "agent.sessions": lambda p, *_: sessions(ormah, p),
        "agent.proposals": lambda p, *_: runner.proposals.list(status=p.status, type=p.type, limit=p.limit),
        "agent.resolve_proposal": lambda p, caller, _: runner.proposals.resolve(
            p.proposal_id, p.action, caller, Approval(p.keep, p.content, p.title)
        ),
        "agent.maintenance": parts.maintenance.answer,
        "ui.graph": lambda p, *_: graph(ormah, p, checked(Narrowing, p)),
        "ui.node": lambda p, *_: graph_node(ormah, p.node_id),
        "ui.search": lambda p, *_: recall(ormah, checked(SearchQuery, p), space=None, explain=p.explain, touch=False),
        "ui.insights": lambda p, *_: insights(ormah, limit=p.limit, space=p.space),
        "history.list": lambda p, *_: history(ormah, p),
        "history.months": lambda p, *_: months(ormah, p),
        "history.show": lambda p, *_: show_op(ormah, p.op, limit=p.limit),
        "history.life": lambda p, *_: life(ormah, p),
        "history.undo": lambda p, caller, steps: undo(ormah, p, caller, steps),
        "ingest.look": lambda p, caller, _: _look(ormah, p, caller),
        "ingest.sessions": lambda p, caller, steps: _ingest(parts, p, caller, steps),
        "ingest.conversation": lambda p, caller, steps: _conversation(parts, p, caller, steps),
        "ingest.file": lambda p, caller, _: ingest_document(ormah, p, caller),
        "ingest.sources": lambda p, *_: intake.sources.answer(reload=p.reload),
        "ingest.past": lambda p, *_: past(ormah, p.folders),
        "ingest.backfill": lambda p, *_: intake.backfill.answer(p.action, p.folders),
        "admin.health": lambda *_: health(parts),
        "admin.stats": lambda p, *_: admin.stats(ormah, days=p.days, tags=p.tags),
        "admin.rebuild": lambda _, __, steps: admin.rebuild(ormah, steps),
        "admin.verify": lambda _, __, steps: admin.verify(ormah, steps),
        "admin.doctor": lambda p, _, steps: findings(ormah, runner, parts.judging, intake, fix=p.fix, progress=steps),
        "admin.import": lambda p, caller, steps: import_lines(
            ormah, p.lines, caller, first_line=p.first_line, run=p.run, progress=steps
        ),
        "admin.export": lambda p, *_: export(ormah, after=p.after, limit=p.limit),
        "admin.purge": lambda p, caller, steps: purge(ormah, p, caller, steps),
        "admin.sync": lambda _, caller, steps: sync(ormah, caller, steps),
        "admin.sync_setup": lambda p, caller, steps: setup(
            ormah, p.url, caller, steps, replace=p.replace, agreed=not p.ask
        ),
        "admin.sync_conflicts": lambda *_: api.ConflictsResult(
            [conflicts.item(one) for one in conflicts.waiting(root)]
        ),
        "admin.sync_resolve": lambda p, *_: api.ResolveConflictResult(
            settled=[conflicts.item(one) for one in conflicts.resolve(root, p.name)],
            waiting=len(conflicts.waiting(root)),
        ),
        "admin.sync_take_back": lambda p, caller, _: take_in_conflict(ormah, p.name, caller),
        "admin.tasks": lambda *_: jobs.tasks(),
        "admin.run_task": lambda p, _, steps: runner.run_whole(
            runner.named(p.name, one=True), dry=p.dry_run, force=p.force, progress=steps
        )[0],
        "admin.run_all": lambda p, _, steps: api.RunAllResult(
            runner.run_whole(runner.named("all"), dry=p.dry_run, force=p.force, progress=steps)
        ),
        "admin.pause": lambda p, *_: runner.pause(runner.named(p.name)),
        "admin.resume": lambda p, *_: runner.resume(runner.named(p.name)),
        "admin.pause_all": lambda *_: runner.pause(runner.named("all")),
        "admin.resume_all": lambda *_: runner.resume(runner.named("all")),
        "admin.judge_test": lambda *_: parts.judging.test(),
    }


def _look(ormah: Ormah, params: api.IngestPathParams, caller: Caller) -> api.IngestPathResult:
    """Return what is in the files at a path. Raises BadRequest for conversations if `sessions.exclude` covers the
    caller's folder."""
    found = look_at(ormah, params)
    if found.files:
        _refuse_unkept(ormah, caller)
    return found


def _refuse_unkept(ormah: Ormah, caller: Caller) -> None:
    if projects.is_unkept(ormah, caller, None):
        raise BadRequest(
            f"no conversation is stored from {caller.cwd}: the setting sessions.exclude covers this folder",
            hint="go to another folder and ingest it from there, or change it: ormahctl config show sessions.exclude",
        )


def _conversation(parts: Parts, params: api.IngestConversationParams, caller: Caller, steps: Steps) -> api.IngestedFile:
    """Archive a conversation that came with the request, and make memories of what it says.

    Raises:
        BadRequest: it is empty or in no known format, or the caller works in a folder of `sessions.exclude`.
    """
    _refuse_unkept(parts.ormah, caller)
    if not params.content.strip():
        raise BadRequest("content is empty", hint="send what was said, with User: and Assistant: at the start of lines")
    folder = parts.ormah.state.path.parent
    with tempfile.NamedTemporaryFile(dir=folder, prefix="conversation-", suffix=".txt") as file:
        file.write(params.content.encode("utf-8", "replace"))
        file.flush()
        out = _ingest(parts, api.IngestFileParams(path=file.name, unnamed=True), caller, steps)
    if out.status == "unknown":
        raise BadRequest(
            out.error or "content has no format that is read", hint="write User: and Assistant: at the start of lines"
        )
    out.path = "-"
    return out


def _ingest(parts: Parts, params: api.IngestFileParams, caller: Caller, steps: Steps) -> api.IngestedFile:
    """Archive the sessions in the file `params.path`, then make memories of what is new in them.

    Raises:
        BadRequest: the caller works in a folder of `sessions.exclude`, and this is no backfill.
    """
    source = "backfill" if params.source == "backfill" else "ingest"
    if source != "backfill":
        _refuse_unkept(parts.ormah, caller)
    extraction = parts.intake.extraction
    with extraction.alone:
        propose = partial(propose_memory, parts.ormah, parts.timetable.runner.proposals)
        found = ingest(
            parts.ormah, params.path, unnamed=params.unnamed, progress=steps, source=source,
            propose=lambda facts: sum(propose(one.title, one.text, one.type, one.origin) for one in facts),
        )  # fmt: skip
        extraction.read_all(found.out, found.grown)
    return found.out


def _remember(ormah: Ormah, params: api.RememberParams, caller: Caller) -> api.RememberResult:
    about_self = params.about_self or ABOUT_SELF in params.tags
    named = None if about_self and isinstance(params.space, UnsetType) else params.space
    space = space_named(named, lambda: projects.settle(ormah, caller))
    links = [*(asdict(link) for link in params.connections), *({"target": target} for target in params.links)]
    # A space of null means "global on purpose"; a caller that works in no project leaves the space out
    more = {"global": space is None and not isinstance(named, UnsetType), "source": params.source or caller.source}
    request = checked(CreateNodeRequest, params, space=space, connections=links, **more)
    return remember(ormah, request, caller, replaces=params.replaces)


def _recall(ormah: Ormah, params: api.RecallParams, caller: Caller, steps: Steps) -> api.RecallResult:
    query = checked(SearchQuery, params)
    if params.sessions:
        if params.as_of is not None or params.explain:
            raise BadRequest("sessions are searched as they are today, and without an explanation")
        return recall_sessions(ormah, query)
    space = space_named(params.space, lambda: projects.space_of(ormah, caller))
    if params.as_of is None:
        return recall(ormah, query, space=space, explain=params.explain)
    return recall_as_of(ormah, query, params.as_of, space=space, explain=params.explain, progress=steps)


def _get(ormah: Ormah, params: api.NodeParams, steps: Steps) -> api.NodeResult:
    if params.as_of is None:
        return get(ormah, params.node_id, session_id=params.session_id, touch=params.touch)
    return get_as_of(ormah, params.node_id, params.as_of, progress=steps)


def _connect(ormah: Ormah, params: api.ConnectParams, caller: Caller) -> api.WriteResult:
    link = checked(LinkRequest, params, target=params.target_id)
    return connect(
        ormah, params.source_id, link.target, caller,
        edge=EdgeType(link.edge), weight=link.weight, reason=link.reason, remove=params.remove,
    )  # fmt: skip


def _whisper(whisper: Whisper, params: api.WhisperParams, caller: Caller) -> api.WhisperResult:
    space = space_named(params.space, lambda: projects.space_of(whisper.ormah, caller))
    unkept = projects.is_unkept(whisper.ormah, caller, params.session_id)
    asked = Asked(params.prompt, space, params.session_id, caller.source, unkept=unkept, dry=params.dry)
    return whisper.whisper(asked, explain=params.explain)


def _assign(ormah: Ormah, params: api.AssignSpaceParams, caller: Caller) -> api.AssignSpaceResult:
    space = check_space(params.space)
    if space is None:
        raise BadRequest("a project's space has a name", hint="--global says of one memory that it is of no project")
    home = projects.assign(ormah, caller, space)
    return api.AssignSpaceResult(home.space, home.key)


CAPABILITIES = ("json", "msgpack", "progress", "request_id")
MAX_CHARACTERS = {
    "agent": 4_000, "cwd": 4_000, "session": 4_000, "session_id": 1_000, "request_id": 1_000, "run": 1_000, "name": 1_000,
    "reason": 10_000,
}  # fmt: skip
"""Maximum number of characters of short parameters of a call (the first three) or of its method."""


WHOLE = frozenset({"admin.export", "admin.verify", "admin.run_task", "admin.run_all"})
"""Methods that need every memory. If the index lacks some, their answer would be wrong, not only shorter."""
COMPARED_S = 600.0
"""Maximum number of seconds that a call of such a method waits for the first comparison of the index with the vault."""


def _wait_compared(ormah: Ormah, steps: Steps) -> None:
    """Wait until a daemon that has just started has compared the index with the vault.

    Raises:
        Unavailable: the daemon stops. NotReady: it takes too long.
    """
    end = time.monotonic() + COMPARED_S
    while ormah.phase in {"starting", "reconciling"}:
        if time.monotonic() > end:
            raise NotReady("the index is still being compared with the vault", hint="repeat it later: ormahctl status")
        steps(0, 0, "waiting until the index has all of the vault")
        ormah.syncing.stopping.wait(0.2)
    if ormah.phase == "stopping":
        raise Unavailable("the daemon stops; nothing was changed", hint="start it again: ormahctl up")


class Dispatcher:
    """Answers calls: checks them and runs the handler of the method. A repeated request id gets the stored answer."""

    def __init__(self, parts: Parts) -> None:
        self.ormah = parts.ormah
        self.methods: dict[str, Handler] = {"hello": self.hello, **handlers(parts)}

    def answer(self, call: api.Call, progress: Callable[[api.Progress], None]) -> api.Result:
        """Return the result of one call.

        Raises:
            OrmahError: the call is invalid or failed, with a code, a message and usually a hint.
        """
        if call.method not in self.methods:
            raise BadRequest(f"there is no method '{call.method[:100]}'", hint="see PROTOCOL.md")
        params = call.params  # the method's own Struct: reading the call has checked it
        for name, most in MAX_CHARACTERS.items():
            text = getattr(call if name in {"agent", "cwd", "session"} else params, name, None)
            if isinstance(text, str) and len(text) > most:
                raise BadRequest(f"{name} is too long ({len(text)} characters)")
        found: list[str] = []
        request_id = key_of(getattr(params, "request_id", None))  # it is stored in the state
        digest = hashlib.sha256(request_id.encode()).hexdigest()[:32] if request_id else None
        asker = Caller(clean_name(self.ormah, call.agent, found), call.cwd, call.session, digest)
        params = self._without_secrets(params, found)

        def steps(done: int, total: int, stage: str) -> None:
            progress(api.Progress(done=done, total=total, stage=stage))

        def act(caller: Caller) -> api.Result:
            if call.method in WHOLE and lane_of(call) != SCAN:
                _wait_compared(self.ormah, steps)
            reply = self.methods[call.method](params, caller, steps)
            told = getattr(reply, "redacted", None)
            return replace(reply, redacted=[*found, *told]) if found and isinstance(told, list) else reply

        return act(asker) if request_id is None else self._once(request_id, asker, call.method, params, act)

    def _without_secrets(self, params: Any, found: list[str]) -> Any:
        """Return `params` with secrets redacted in `session_id` and in the parameters `NAMES`. Append the kinds of
        secrets found in `NAMES` to `found`."""
        names = ((name, getattr(params, name, None)) for name in NAMES)
        clean = {name: clean_name(self.ormah, text, found) for name, text in names if isinstance(text, str)}
        session = getattr(params, "session_id", None)
        if session is not None and (stored := without_secret(session)) != session:
            return replace(params, session_id=stored, **clean)
        return replace(params, **clean) if found else params

    def _once(
        self, request_id: str, caller: Caller, method: str, params: Any, act: Callable[[Caller], api.Result]
    ) -> api.Result:
        """Run `act` once per `request_id` and return its result; repeated requests get the stored result.

        So a client that lost a reply can safely send the request again. If the daemon was killed between commit and
        reply, `act` is told of the request's commits.
        """
        asked = hashlib.sha256(msgspec.msgpack.encode(params)).hexdigest()
        with self.ormah.turns.take(request_id):
            before = self.ormah.state.answer(request_id)
            if before is not None and before[2] is not None:
                if before[:2] != (method, asked):
                    what = f"request_id {request_id[:60]!r} was used for another request"
                    raise BadRequest(what, hint="draw a new one")
                return msgspec.msgpack.decode(before[2], type=resolved(api.METHODS[method][1]))
            if before is not None:
                caller = replace(caller, done=tuple(find_commits(self.ormah.vault.git, REQUEST, caller.request or "")))
            self.ormah.state.answered(request_id, method, asked, None)
            reply = act(caller)
            self.ormah.state.answered(request_id, method, asked, msgspec.msgpack.encode(reply))
            return reply

    def hello(self, params: api.HelloParams, _caller: Caller, _: Steps) -> api.Result:
        if params.protocol != api.PROTOCOL:
            raise Incompatible(
                f"this daemon ({__version__}) speaks protocol {api.PROTOCOL}, the caller {params.protocol}",
                hint="install the same version of both, then: ormahctl restart",
                data={"protocol": api.PROTOCOL, "version": __version__},
            )
        return api.HelloResult(
            version=__version__, protocol=api.PROTOCOL, capabilities=[*CAPABILITIES, *self.methods, SUBSCRIBE],
            vault=str(self.ormah.vault.root), vault_id=self.ormah.vault.id, phase=self.ormah.phase,
        )  # fmt: skip
