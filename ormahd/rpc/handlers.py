"""The table of methods, and the dispatcher that answers calls by it.

A handler is a function of the method's parameters, a Struct of `api.METHODS`. Its other parameters are named after what
it gets: `caller`, `progress`, or a part of the daemon (`Parts`). Most handlers are actions; those of jobs, whispers and
ingestion are here.

The dispatcher checks the lengths of texts, identifies the caller, and repeats the stored answer for a repeated request
id.
"""

from __future__ import annotations

import hashlib
import inspect
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct, UnsetType
from msgspec.structs import replace

from ormahd import __version__, api
from ormahd.actions import (
    admin,
    connect,
    feedback,
    graph,
    looking_back,
    lookup,
    outdated,
    projects,
    purge,
    recall,
    remember,
    sessions,
    sync,
    transfer,
    undo,
    update,
    where,
    work,
)
from ormahd.actions.amend import Caller, Progress, check_space, clean_name
from ormahd.errors import BadRequest, Incompatible, NotReady, Unavailable
from ormahd.git.commit_message import REQUEST
from ormahd.git.refs import find_commits
from ormahd.index.index import Index
from ormahd.ingest.backfill import past_sessions
from ormahd.ingest.bring_in import ingest
from ormahd.ingest.documents.copies import ingest_document
from ormahd.ingest.documents.finding import find_files
from ormahd.ingest.intake import Intake
from ormahd.jobs.judging import Judging
from ormahd.jobs.maintenance.maintenance import Maintenance
from ormahd.jobs.memories import propose_memory
from ormahd.jobs.proposals import Approval, Proposals
from ormahd.jobs.runner import Runner
from ormahd.jobs.timetable import Timetable
from ormahd.ormah import Ormah
from ormahd.rpc.codec import resolved
from ormahd.rpc.health import findings, health
from ormahd.rpc.pools import is_scan
from ormahd.rpc.server import Server
from ormahd.rpc.subscriptions import SUBSCRIBE
from ormahd.sessions.archive import SessionArchive
from ormahd.state.sessions import key_of, without_secret
from ormahd.vault import conflicts
from ormahd.vault.vault import Vault
from ormahd.whisper.pipeline import Whisper
from ormahd.whisper.types import Asked

NAMES = ("space", "source", "run")
"""Parameters of any method whose values are stored in notes, commits or the state. Secrets in them are redacted."""
CAPABILITIES = ("json", "msgpack", "progress", "request_id")


def hello(vault: Vault, ormah: Ormah, params: api.HelloParams) -> api.HelloResult:
    """Return the versions and capabilities of this daemon.

    Raises:
        Incompatible: the caller speaks another protocol.
    """
    if params.protocol != api.PROTOCOL:
        raise Incompatible(
            f"this daemon ({__version__}) speaks protocol {api.PROTOCOL}, the caller {params.protocol}",
            hint="install the same version of both, then: ormahctl restart",
            data={"protocol": api.PROTOCOL, "version": __version__},
        )
    return api.HelloResult(
        version=__version__,
        protocol=api.PROTOCOL,
        capabilities=[*CAPABILITIES, *HANDLERS, SUBSCRIBE],
        vault=str(vault.root),
        vault_id=vault.id,
        phase=ormah.phase,
    )


# ------------------------------------------------------------ whispers and jobs


def get(ormah: Ormah, params: api.NodeParams, caller: Caller, progress: Progress) -> api.NodeResult:
    """Answer `agent.get` with `lookup.get`, for the project of the caller."""
    cwd = projects.place_of(ormah, caller)
    return lookup.get(ormah, params, progress, cwd=cwd, space=projects.space_of(ormah, caller))


def whisper(pipeline: Whisper, params: api.WhisperParams, caller: Caller) -> api.WhisperResult:
    """Answer `agent.whisper`: whisper for the prompt, in the space that the request names, or else that of the caller's
    project."""
    ormah, named = pipeline.ormah, params.space
    space = projects.space_of(ormah, caller) if isinstance(named, UnsetType) else check_space(named)
    unkept = projects.is_unkept(ormah, caller, params.session_id)
    asked = Asked(
        params.prompt,
        space,
        params.session_id,
        caller.source,
        unkept=unkept,
        dry=params.dry,
        cwd=projects.place_of(ormah, caller),
    )
    return pipeline.whisper(asked, explain=params.explain)


def list_proposals(proposals: Proposals, params: api.ProposalsParams) -> api.ProposalsResult:
    """Return the proposals of a status and a type."""
    return proposals.list(status=params.status, type=params.type, limit=params.limit)


def resolve_proposal(
    proposals: Proposals, params: api.ResolveProposalParams, caller: Caller
) -> api.ResolveProposalResult:
    """Decide on a proposal, and return the answer."""
    choice = Approval(keep=params.keep, content=params.content, title=params.title)
    return proposals.resolve(params.proposal_id, params.action, caller, choice)


def maintain(
    maintenance: Maintenance, params: api.MaintenanceParams, caller: Caller, progress: Progress
) -> api.MaintenanceResult:
    """Run a phase of two-phase maintenance (`Maintenance.answer`)."""
    return maintenance.answer(params, caller, progress)


def tasks(timetable: Timetable) -> api.TasksResult:
    """Return every job with the times of its runs."""
    return timetable.tasks()


def run_task(runner: Runner, params: api.RunTaskParams, progress: Progress) -> api.RunTaskResult:
    """Run one job, and return its result."""
    names = runner.named(params.name, one=True)
    return runner.run_whole(names, dry=params.dry_run, force=params.force, progress=progress)[0]


def run_all(runner: Runner, params: api.RunAllParams, progress: Progress) -> api.RunAllResult:
    """Run every job, and return their results."""
    done = runner.run_whole(runner.named("all"), dry=params.dry_run, force=params.force, progress=progress)
    return api.RunAllResult(results=done)


def pause(runner: Runner, params: api.TaskParams) -> api.PausedResult:
    """Pause the named job, or all. Return the paused jobs."""
    return runner.pause(runner.named(params.name))


def resume(runner: Runner, params: api.TaskParams) -> api.PausedResult:
    """Resume the named job, or all. Return the jobs that are still paused."""
    return runner.resume(runner.named(params.name))


def pause_all(runner: Runner) -> api.PausedResult:
    """Pause every job."""
    return runner.pause(runner.named("all"))


def resume_all(runner: Runner) -> api.PausedResult:
    """Resume every job."""
    return runner.resume(runner.named("all"))


def ask_judge(judging: Judging) -> api.JudgeTestResult:
    """Ask the judge a trial question, and return its answer."""
    return judging.test()


# ------------------------------------------------------------ conflicts of a sync


def list_conflicts(vault: Vault) -> api.ConflictsResult:
    """Return the conflicts that wait for a person."""
    return api.ConflictsResult(conflicts=[conflicts.item(one) for one in conflicts.waiting(vault.root)])


def resolve_conflict(vault: Vault, params: api.ResolveConflictParams) -> api.ResolveConflictResult:
    """Mark the conflicts of a note as resolved. Return these, and the number of those that still wait."""
    settled = [conflicts.item(one) for one in conflicts.resolve(vault.root, params.name)]
    return api.ResolveConflictResult(settled=settled, waiting=len(conflicts.waiting(vault.root)))


# ------------------------------------------------------------ ingestion


def look(ormah: Ormah, params: api.IngestPathParams, caller: Caller) -> api.IngestPathResult:
    """Return what is in the files at a path, without importing them.

    Raises:
        BadRequest: they are conversations, and `sessions.exclude` covers the caller's folder.
    """
    found = find_files(ormah, params)
    if found.files:
        _refuse_unkept(ormah, caller)
    return found


def _refuse_unkept(ormah: Ormah, caller: Caller) -> None:
    """Raise BadRequest if the setting `sessions.exclude` covers the caller's folder."""
    if projects.is_unkept(ormah, caller, None):
        raise BadRequest(
            f"no conversation is stored from {caller.cwd}: the setting sessions.exclude covers this folder",
            hint="go to another folder and ingest it from there, or change it: ormahctl config show sessions.exclude",
        )


def ingest_conversation(
    ormah: Ormah,
    intake: Intake,
    proposals: Proposals,
    params: api.IngestConversationParams,
    caller: Caller,
    progress: Progress,
) -> api.IngestedFile:
    """Archive a conversation that came with the request, and extract memories from it.

    Raises:
        BadRequest: it is empty or in no known format, or the caller works in a folder of `sessions.exclude`.
    """
    _refuse_unkept(ormah, caller)
    if not params.content.strip():
        raise BadRequest("content is empty", hint="send what was said, with User: and Assistant: at the start of lines")
    with tempfile.NamedTemporaryFile(dir=ormah.state.path.parent, prefix="conversation-", suffix=".txt") as file:
        file.write(params.content.encode("utf-8", "replace"))
        file.flush()
        named = api.IngestFileParams(path=file.name, unnamed=True)
        out = ingest_sessions(ormah, intake, proposals, named, caller, progress)
    if out.status == "unknown":
        raise BadRequest(
            out.error or "content has no format that is read", hint="write User: and Assistant: at the start of lines"
        )
    out.path = "-"
    return out


def ingest_sessions(
    ormah: Ormah,
    intake: Intake,
    proposals: Proposals,
    params: api.IngestFileParams,
    caller: Caller,
    progress: Progress,
) -> api.IngestedFile:
    """Archive the sessions in the file `params.path`, then extract memories from their new turns.

    Raises:
        BadRequest: the caller works in a folder of `sessions.exclude`, and this is no backfill.
    """
    source = "backfill" if params.source == "backfill" else "ingest"
    if source != "backfill":
        _refuse_unkept(ormah, caller)

    with intake.extraction.reading_lock:
        found = ingest(ormah, params.path, unnamed=params.unnamed, progress=progress, source=source)
        for fact in found.facts:
            found.out.proposed += propose_memory(ormah, proposals, fact.title, fact.text, fact.type, fact.origin)
        intake.extraction.read_grown(found.out, found.grown)
    return found.out


def sources(intake: Intake, params: api.SourcesParams) -> api.SourcesResult:
    """Return the state of each source; with `reload` after reading the configuration again."""
    return intake.sources.answer(reload=params.reload)


def fill_back(intake: Intake, params: api.BackfillParams) -> api.BackfillResult:
    """Start, stop or report the import of past sessions."""
    return intake.backfill.answer(params.action, params.folders)


# ------------------------------------------------------------ the table

HANDLERS: Final[Mapping[str, Callable[..., api.Result]]] = {
    "hello": hello,
    "agent.remember": remember.remember,
    "agent.recall": recall.recall,
    "agent.get": get,
    "agent.update": update.update,
    "agent.forget": outdated.forget,
    "agent.outdated": outdated.outdated,
    "agent.connect": connect.connect,
    "agent.undo_merge": undo.undo_merge,
    "agent.merges": looking_back.merges,
    "agent.audit": looking_back.audit,
    "agent.insights": lookup.insights,
    "agent.whisper": whisper,
    "agent.feedback": feedback.feedback,
    "agent.list": lookup.newest,
    "agent.whispers": lookup.whispered,
    "agent.spaces": projects.list_spaces,
    "agent.assign_space": projects.assign,
    "agent.sessions": sessions.sessions,
    "agent.work": work.work,
    "agent.where": where.where,
    "agent.proposals": list_proposals,
    "agent.resolve_proposal": resolve_proposal,
    "agent.maintenance": maintain,
    "ui.graph": graph.graph,
    "ui.node": graph.graph_node,
    "ui.search": recall.search_page,
    "ui.insights": lookup.insights,
    "history.list": looking_back.history,
    "history.months": looking_back.months,
    "history.show": looking_back.show_op,
    "history.life": looking_back.life,
    "history.undo": undo.undo,
    "ingest.look": look,
    "ingest.sessions": ingest_sessions,
    "ingest.conversation": ingest_conversation,
    "ingest.file": ingest_document,
    "ingest.sources": sources,
    "ingest.past": past_sessions,
    "ingest.backfill": fill_back,
    "admin.health": health,
    "admin.stats": admin.stats,
    "admin.rebuild": admin.rebuild,
    "admin.verify": admin.verify,
    "admin.doctor": findings,
    "admin.import": transfer.import_lines,
    "admin.export": transfer.export,
    "admin.purge": purge.purge,
    "admin.sync": sync.sync,
    "admin.sync_setup": sync.setup,
    "admin.sync_conflicts": list_conflicts,
    "admin.sync_resolve": resolve_conflict,
    "admin.sync_take_back": undo.take_in_conflict,
    "admin.tasks": tasks,
    "admin.run_task": run_task,
    "admin.run_all": run_all,
    "admin.pause": pause,
    "admin.resume": resume,
    "admin.pause_all": pause_all,
    "admin.resume_all": resume_all,
    "admin.judge_test": ask_judge,
}
"""{method: function that answers it} for all methods except `events.subscribe`."""


class Parts(Struct, frozen=True):
    """The parts of the daemon that a handler can name as its parameters."""

    ormah: Ormah
    vault: Vault
    index: Index
    archive: SessionArchive
    pipeline: Whisper
    timetable: Timetable
    runner: Runner
    proposals: Proposals
    maintenance: Maintenance
    judging: Judging
    intake: Intake
    server: Server
    log_file: Path | None


MAX_CHARACTERS = {
    **dict.fromkeys(("agent", "cwd", "session"), 4_000),
    **dict.fromkeys(("session_id", "request_id", "run", "name"), 1_000),
    "reason": 10_000,
}
"""Maximum number of characters of short parameters of a call (the first three) or of its method."""


WHOLE = frozenset({"admin.export", "admin.verify", "admin.run_task", "admin.run_all"})
"""Methods that need every memory. If the index lacks some, their answer would be wrong, not only shorter."""
COMPARED_S = 600.0
"""Maximum number of seconds that a call of such a method waits for the first comparison of the index with the vault."""


def _wait_compared(ormah: Ormah, progress: Progress) -> None:
    """Wait until the daemon has compared the index with the vault, as it does after its start.

    Raises:
        Unavailable: the daemon stops.
        NotReady: it takes too long.
    """
    end = time.monotonic() + COMPARED_S
    while ormah.phase in {"starting", "reconciling"}:
        if time.monotonic() > end:
            raise NotReady("the index is still being compared with the vault", hint="repeat it later: ormahctl status")
        progress(0, 0, "waiting until the index has all of the vault")
        ormah.syncing.stopping.wait(0.2)
    if ormah.phase == "stopping":
        raise Unavailable("the daemon stops; nothing was changed", hint="start it again: ormahctl up")


class Dispatcher:
    """Answers calls: checks them and runs the handler of the method. A repeated request id gets the stored answer."""

    def __init__(self, parts: Parts) -> None:
        self.ormah = parts.ormah
        self._parts = {name: getattr(parts, name) for name in parts.__struct_fields__}
        self._needs = {method: frozenset(inspect.signature(handler).parameters) for method, handler in HANDLERS.items()}

    def answer(self, call: api.Call, progress: Progress) -> api.Result:
        """Return the result of one call. A repeated request id gets the stored result.

        So a client that lost a reply can safely send the request again. If the daemon was killed between commit and
        reply, `Caller.done` has the request's commits.

        Raises:
            OrmahError: the call is invalid or failed, with a code, a message and usually a hint.
        """
        params = call.params  # a Struct of the method: reading the call has checked both
        for name, limit in MAX_CHARACTERS.items():
            text = getattr(call if name in {"agent", "cwd", "session"} else params, name, None)
            if isinstance(text, str) and len(text) > limit:
                raise BadRequest(f"{name} is too long ({len(text)} characters)")

        # Who calls. The request's id is stored in the state and, as a digest, in commits
        found: list[str] = []
        request_id = key_of(getattr(params, "request_id", None))
        digest = hashlib.sha256(request_id.encode()).hexdigest()[:32] if request_id else None
        caller = Caller(clean_name(self.ormah, call.agent, found), call.cwd, call.session, digest)

        # Secrets are redacted in `session_id` and in the parameters NAMES
        names = ((name, getattr(params, name, None)) for name in NAMES)
        clean = {name: clean_name(self.ormah, text, found) for name, text in names if isinstance(text, str)}
        session = getattr(params, "session_id", None)
        if session is not None and (stored := without_secret(session)) != session:
            params = replace(params, session_id=stored, **clean)
        elif found:
            params = replace(params, **clean)

        # Run it. With a request id, only once: a second request with the id gets the stored answer
        if request_id is None:
            return self._run(call.method, params, caller, progress, found)
        method, asked = call.method, hashlib.sha256(msgspec.msgpack.encode(params)).hexdigest()
        with self.ormah.turns.take(request_id):
            before = self.ormah.state.answer(request_id)
            if before is not None and before[2] is not None:
                if before[:2] != (method, asked):
                    raise BadRequest(f"request_id {request_id[:60]!r} names another request", hint="draw a new one")
                return msgspec.msgpack.decode(before[2], type=resolved(api.METHODS[method][1]))
            if before is not None:
                caller = replace(caller, done=tuple(find_commits(self.ormah.vault.git, REQUEST, caller.request or "")))
            self.ormah.state.answered(request_id, method, asked, None)
            reply = self._run(method, params, caller, progress, found)
            self.ormah.state.answered(request_id, method, asked, msgspec.msgpack.encode(reply))
            return reply

    def _run(self, method: str, params: Any, caller: Caller, progress: Progress, found: list[str]) -> api.Result:
        """Run the handler of a method, and return its result, with the kinds of secrets that were `found` in the
        parameters added."""
        if method in WHOLE and not is_scan(params):
            _wait_compared(self.ormah, progress)
        given = self._parts | {"params": params, "caller": caller, "progress": progress}
        reply = HANDLERS[method](**{name: given[name] for name in self._needs[method]})
        redacted = getattr(reply, "redacted", None)
        return replace(reply, redacted=[*found, *redacted]) if found and isinstance(redacted, list) else reply
