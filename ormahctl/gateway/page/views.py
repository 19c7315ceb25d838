"""The views of the page, one function each: it calls the daemon and returns a template with its values.

Each address is a whole page. Nothing that a view asks for counts as a use of a memory.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib.resources
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from itertools import groupby
from typing import Any, Final
from urllib.parse import urlencode

import msgspec
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import BaseRoute, Route

from ormahctl.commands.judge import SAYS
from ormahctl.commands.maintenance import outcome
from ormahctl.commands.whisper import outcome_text
from ormahctl.gateway.daemon import DaemonLink
from ormahctl.gateway.exchange import QUICK_SECONDS, STATUS, asker
from ormahctl.gateway.page import words
from ormahctl.gateway.readable import FOUND
from ormahctl.render import line
from ormahctl.times import When
from ormahd.api import METHODS, ErrorBody, Finding, NodeResult, OpResult, StatsResult, WhisperedPrompt
from ormahd.rpc.wire import Conflict, NotFound, OrmahError

TODAY_ROWS: Final = 60

LIFE_ROWS: Final = 50
LIST_ROWS: Final = 50
SEARCH_ROWS: Final = 20
BENCH_ROWS: Final = 12
MAP_ROWS: Final = 100
SMALL_MAP: Final = 40
TURNS_AROUND: Final = 3
TURNS: Final = 100
"""Largest number of turns of a session on one page."""
LONG_SECONDS: Final = 3_600.0
"""Seconds that a job, a purge or the undo of a run may take."""
TRIED_FILES: Final = 50
"""Number of files of a change up to which its undo is tried before it is asked for: of 1,000 that takes a second."""
COUNTED_SECONDS: Final = 30.0
COUNTED_WAIT_S: Final = 0.05
"""Seconds that a page waits for new numbers."""
STRIP_DAYS: Final = 14
TAGS: Final = 40
PART: Final = "x-ormah-part"
"""A header that the page's script sends with each request. No form of another site can send it."""
DOCTOR_SECONDS: Final = 600.0
"""Age at which the findings of the doctor are asked for again: it reads every note."""
_LOADING: Final = dict.fromkeys(("starting", "reconciling", "warming"), "Loading")
STATES: Final = _LOADING | {"ready": "Ready", "stopping": "Stopping"}
"""{phase of the daemon: its word on the page}."""

CHOICES: Final = ("who", "kind", "run", "space", "month", "before", "at")
"""What the address of the changes may say. `who`: a source, or a kind of source. `before`: the last change of the page
before. `at`: the change that is open."""
NARROWED: Final = {"source": "who", "kind": "kind", "run": "run", "space": "space"}
"""{parameter of `history.list`: what it is called in the address}."""
REASONS: Final = {**FOUND, "temporal": "from the time that the query names", "id": "it has this id"}
"""{how a result was found: in words}; a plain search is not said."""

View = Callable[["Visit"], Awaitable[Response]]


class Visit:
    """One request of a person for a page: calls of the daemon, and the answer."""

    def __init__(self, shared: SharedState, request: Request) -> None:
        self.shared = shared
        self.request = request

    async def ask(self, method: str, seconds: float = QUICK_SECONDS, /, **params: Any) -> Any:
        """Call a method of the daemon, and return its result within `seconds`. Raises OrmahError."""
        kind, result = METHODS[method]
        return await self.shared.daemon.call(method, kind(**params), result, asker=asker(self.request), timeout=seconds)

    async def counts(self) -> StatsResult:
        """Return the numbers of the vault. If they are older than `COUNTED_SECONDS`, count them again in the
        background, and wait for that only `COUNTED_WAIT_S`. Counting a large vault takes longer than a page may, so
        the next visit gets the new numbers."""
        asked, found = self.shared.counts
        if found is None:
            return await self._count()
        if time.monotonic() - asked > COUNTED_SECONDS and (self.shared.counting is None or self.shared.counting.done()):
            self.shared.counting = asyncio.create_task(self._recount())
            await asyncio.wait({self.shared.counting}, timeout=COUNTED_WAIT_S)
        return self.shared.counts[1] or found

    async def _recount(self) -> None:
        """Count again in the background. An error is ignored, because other calls for the same page show it."""
        with suppress(OrmahError):  # a daemon that is down is said by the page's other questions
            await self._count()

    async def _count(self) -> StatsResult:
        """Ask the daemon for the numbers of the vault, store them, and return them. Raises OrmahError."""
        found: StatsResult = await self.ask("admin.stats", days=STRIP_DAYS, tags=TAGS)
        self.shared.counts = (time.monotonic(), found)
        return found

    async def spaces(self) -> dict[str, int]:
        """Return {space: number of its memories}, as `counts` has them."""
        return (await self.counts()).by_space

    async def choices(self) -> list[tuple[str, str]]:
        """Return (space, its name with the number of its memories) for each space, sorted by name, for a list to
        choose from."""
        return [(name, f"{line(name)} ({number:,})") for name, number in sorted((await self.spaces()).items())]

    def page(self, template: str, *, status: int = 200, **values: Any) -> Response:
        """Return the response that has `template`, filled in with `values`."""
        return answer(self.request, render(template, path=self.request.url.path, **values), status)


class SharedState:
    """What all requests share: the connection to the daemon, the numbers of the vault, and the last findings of the
    doctor."""

    def __init__(self, daemon: DaemonLink) -> None:
        self.daemon = daemon
        self.findings: list[Finding] = []
        self.checked: str | None = None
        """When the doctor looked last, as an ISO time; None: not yet."""
        self.counts: tuple[float, StatsResult | None] = (0.0, None)
        """When the vault was counted last, and what came of it."""
        self.counting: asyncio.Task[None] | None = None
        self._asked = -DOCTOR_SECONDS
        self._asking: asyncio.Task[None] | None = None

    def examine(self, visit: Visit) -> None:
        """Have the doctor examine the vault in the background, if its last findings are older than `DOCTOR_SECONDS`."""
        if time.monotonic() - self._asked >= DOCTOR_SECONDS and (self._asking is None or self._asking.done()):
            self._asking = asyncio.create_task(self._examine(visit))

    async def _examine(self, visit: Visit) -> None:
        """Ask the doctor, if the daemon has loaded everything. An error is ignored: the page itself shows that the
        daemon is down, and the next visit asks again."""
        try:
            if (await visit.ask("admin.health")).phase == "ready":  # what is missing until then needs no decision
                await self.examined(visit)
        except OrmahError:
            return  # the daemon is down, which the page itself says; the next visit asks again

    async def examined(self, visit: Visit, *, fix: bool = False) -> None:
        """Ask the doctor, and store what it finds, without mere notices. With `fix`, what needs no decision is
        mended first. Raises OrmahError."""
        found = await visit.ask("admin.doctor", fix=fix)
        self.findings = [finding for finding in found.findings if finding.level != "info"]
        self.checked, self._asked = datetime.now(UTC).isoformat(), time.monotonic()


# ---------------------------------------------------------------- templates and files


@cache
def files() -> Mapping[str, tuple[bytes, str]]:
    """Return {path: (content, media type)} of the files that the page loads. A path has a hash of the content, so that
    a browser may keep the file forever."""
    kinds = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
    found = {}
    for folder in ("static", "vendor"):
        for file in (importlib.resources.files("ormahctl.gateway.page") / folder).iterdir():
            stem, _, ending = file.name.rpartition(".")
            if ending in kinds:
                data = file.read_bytes()
                found[f"/static/{stem}.{hashlib.sha256(data).hexdigest()[:12]}.{ending}"] = (data, kinds[ending])
    return found


@cache
def _templates() -> Any:
    """Return the environment of the templates, with the functions `file` (path of a file of the page) and `now`."""
    found = words.environment()
    # {"page.css": "/static/page.3f9c2a1b04de.css"}: the name without its hash
    paths = {".".join((name := path.split("/")[2].split("."))[:-2] + name[-1:]): path for path in files()}
    found.globals |= {"file": paths.__getitem__, "now": lambda: datetime.now(UTC).isoformat()}
    return found


def render(template: str, **values: Any) -> str:
    """Return a template filled in with `values`, as HTML."""
    return str(_templates().get_template(template).render(values))


async def _file(request: Request) -> Response:
    """Return one of the files that the page loads."""
    data, kind = files()[request.url.path]
    return Response(data, media_type=kind, headers={"Cache-Control": "public, max-age=31536000, immutable"})


def answer(request: Request, html: str, status: int) -> Response:
    """Return the response with a page. If the page's script asks, its status is always 200, because browsers write
    other statuses to their console."""
    return HTMLResponse(html, 200 if PART in request.headers else status)


def failure(request: Request, error: ErrorBody, status: int) -> Response:
    """Return a page that shows an error with its hint."""
    return answer(request, render("error.html", path=request.url.path, error=error, status=status), status)


def routes(daemon: DaemonLink, forms: Mapping[str, View]) -> list[BaseRoute]:
    """Return the routes of the page. `forms`: {path that takes a form: function that does what it asks for}."""
    shared = SharedState(daemon)

    def endpoint(view: View) -> Callable[[Request], Awaitable[Response]]:
        """Return the endpoint that answers with `view`, or with a page that shows the error."""

        async def called(request: Request) -> Response:
            """Answer one request."""
            if request.scope["ormah_caller"] == "":  # only "/" is open without a session
                return HTMLResponse(render("closed.html"))
            try:
                return await view(Visit(shared, request))
            except OrmahError as exc:
                body = ErrorBody(code=exc.code, message=exc.message, hint=exc.hint)
                return failure(request, body, STATUS.get(exc.code, 500))

        return called

    return [
        *(Route(path, _file) for path in files()),
        *(Route(path, endpoint(view), methods=["GET"]) for path, view in VIEWS.items()),
        *(Route(path, endpoint(form), methods=["POST"]) for path, form in forms.items()),
    ]


# ---------------------------------------------------------------- today


class Happening(msgspec.Struct, frozen=True):
    """One row of a list of what happened: an op or a whisper."""

    time: str
    op: OpResult | None = None
    whisper: WhisperedPrompt | None = None


async def today(visit: Visit) -> Response:
    """Return the page that shows what happened last, what waits for the person, and the state of the daemon."""
    health, history, whispers, waits, counts = await asyncio.gather(
        visit.ask("admin.health"),
        visit.ask("history.list", limit=TODAY_ROWS),
        visit.ask("agent.whispers", limit=5 * TODAY_ROWS),
        waiting_now(visit),
        visit.counts(),
    )
    rows = [Happening(op.time, op=op) for op in history.ops]
    rows += [Happening(whisper.time, whisper=whisper) for whisper in whispers.whispers if whisper.memories]
    rows = sorted(rows, key=lambda row: datetime.fromisoformat(row.time), reverse=True)[:TODAY_ROWS]
    days = [(name, list(group)) for name, group in groupby(rows, lambda row: words.day(row.time))]
    state = STATES.get(health.phase, health.phase)
    about: dict[str, Any] = {"state": state, "strip": counts.daily, "whisper": counts.whisper}
    return visit.page("today.html", health=health, days=days, waits=waits, **about)


class WaitingItem(msgspec.Struct, frozen=True):
    """Something that a person has to decide on: a proposal, a conflict of a sync, or a finding of the doctor."""

    kind: str
    what: str
    href: str
    item: Any


async def waiting_now(visit: Visit) -> list[WaitingItem]:
    """Return all that waits for the person: conflicts, findings, then proposals."""
    visit.shared.examine(visit)
    proposals, conflicts = await asyncio.gather(visit.ask("agent.proposals"), visit.ask("admin.sync_conflicts"))
    items = [
        WaitingItem("conflict", f"{conflict.path}: {conflict.what}", "/waiting?kind=conflict", conflict)
        for conflict in conflicts.conflicts
    ]
    known = {conflict.path for conflict in conflicts.conflicts}  # the doctor finds a conflict too
    for finding in visit.shared.findings:
        if finding.path not in known:
            what = f"{finding.path}: {finding.what}" if finding.path else finding.what
            items.append(WaitingItem("finding", what, "/waiting?kind=finding", finding))
    return items + [
        WaitingItem("proposal", proposal.proposed_action, f"/waiting?kind=proposal#{proposal.short_id}", proposal)
        for proposal in proposals.proposals
    ]


# ---------------------------------------------------------------- search


class Chosen(msgspec.Struct, frozen=True):
    """What the address of a search says. `since`: a word for an age, such as `7d`. `as_of`: a day or a change."""

    q: str = ""
    type: str = ""
    tier: str = ""
    space: str = ""
    tag: str = ""
    since: str = ""
    as_of: str = ""
    sessions: str = ""
    explain: str = ""
    page: str = ""

    def narrowing(self) -> dict[str, Any]:
        """Return the parameters of a list or a search that narrow it."""
        found: dict[str, Any] = {
            f"{name}s": [getattr(self, name)] for name in ("type", "tier", "space", "tag") if getattr(self, name)
        }
        after = When().read(self.since) if self.since else None
        return found | ({"created_after": after.isoformat()} if after else {})


async def search(visit: Visit) -> Response:
    """Return the page with the memories that match a query, best first. Without a query: all memories, newest first.
    With `sessions`: what was said in archived sessions."""
    given = visit.request.query_params
    chosen = Chosen(**{name: given.get(name, "").strip() for name in Chosen.__struct_fields__})
    if not any(map(str.isalnum, chosen.q)):  # the first signs of a query that is being typed
        chosen = msgspec.structs.replace(chosen, q="")
    narrowing = chosen.narrowing()
    period = {name: value for name, value in narrowing.items() if name.startswith("created")}

    # one of: archived sessions, an earlier state, a search, a list
    if chosen.q and chosen.sessions:
        asked = visit.ask("agent.recall", query=chosen.q, sessions=True, limit=SEARCH_ROWS, **period)
    elif chosen.q and chosen.as_of:
        numbers, past = bool(chosen.explain), {"as_of": chosen.as_of, "space": None, **narrowing}
        asked = visit.ask("agent.recall", query=chosen.q, limit=SEARCH_ROWS, explain=numbers, **past)
    elif chosen.q:
        numbers = bool(chosen.explain)
        asked = visit.ask("ui.search", query=chosen.q, limit=SEARCH_ROWS, explain=numbers, **narrowing)
    else:
        page_number = int(chosen.page) if chosen.page.isdecimal() else 1
        asked = visit.ask("agent.list", limit=LIST_ROWS, skip=LIST_ROWS * (page_number - 1), **narrowing)
    found, counts = await asyncio.gather(asked, visit.counts())

    # the address of the next page, and the tags to choose from
    older = None
    if not chosen.q and found.total > page_number * LIST_ROWS:
        fields = {**msgspec.structs.asdict(chosen), "page": page_number + 1}
        older = urlencode({name: value for name, value in fields.items() if value})
    used_tags = counts.by_tag if chosen.tag in ("", *counts.by_tag) else {chosen.tag: 0, **counts.by_tag}
    tags = [(name, f"{line(name)} ({number:,})" if number else line(name)) for name, number in used_tags.items()]
    return visit.page(
        "search.html", chosen=chosen, found=found, spaces=await visit.choices(), tags=tags, older=older, reasons=REASONS
    )


# ---------------------------------------------------------------- one memory, one change


async def memory(visit: Visit) -> Response:
    """Return the page of one memory: its text, connections, origin, whispers and history."""
    node_id = visit.request.path_params["node_id"]
    try:
        node = await visit.ask("agent.get", node_id=node_id, touch=False)
    except NotFound:
        return await forgotten(visit, node_id)
    life, whispered, turns, nearby = await asyncio.gather(
        visit.ask("history.life", node_id=node.id, limit=LIFE_ROWS),
        visit.ask("agent.whispers", node_id=node.id, limit=5),
        source_turns(visit, node),
        visit.ask("ui.graph", near=node.id, limit=SMALL_MAP, placed=False),
    )
    edges = [("→", edge) for edge in node.connections.out] + [("←", edge) for edge in node.connections.incoming]
    edges.sort(key=lambda pair: pair[1].edge)
    kinds = [(kind, list(group)) for kind, group in groupby(edges, lambda pair: pair[1].edge)]
    return visit.page(
        "memory.html",
        node=node,
        life=life.versions,
        at=opened_version(visit, life.versions),
        whispers=whispered.whispers,
        turns=turns,
        kinds=kinds,
        nearby=nearby,
        places=words.places(node.id, nearby),
    )


async def forgotten(visit: Visit, node_id: str) -> Response:
    """Return the page of a forgotten memory: its history, from which it can be restored."""
    life = await visit.ask("history.life", node_id=node_id, limit=LIFE_ROWS)
    return visit.page(
        "forgotten.html", status=404, life=life.versions, at=opened_version(visit, life.versions), node_id=life.node_id
    )


def opened_version(visit: Visit, versions: list[Any]) -> int | None:
    """Return the index of the version that the address opens (`?at=OP`), or None."""
    wanted = visit.request.query_params.get("at")
    return next((at for at, version in enumerate(versions) if wanted and version.commit.startswith(wanted)), None)


async def source_turns(visit: Visit, node: NodeResult) -> Any:
    """Return (the session that a memory was learned from, the turns around the one that it comes from, the number of
    that turn). Return None if it comes from no archived session."""
    if node.said_in is None:
        return None
    try:
        found = await visit.ask("agent.sessions", session_id=node.said_in.partition("#")[0])
    except NotFound:
        return None
    number = next((learned.turn for learned in found.memories if learned.node_id == node.id), 0)
    near = [statement for statement in found.turns if abs(statement.turn - number) < TURNS_AROUND]
    return found.sessions[0], near, number


async def change(visit: Visit) -> Response:
    """Return the page of one change: the difference of each note, and what undoing the change would do."""
    op = await visit.ask("history.show", op=visit.request.path_params["op"])
    would, refused = None, None
    large = op.total > TRIED_FILES and "would" not in visit.request.query_params
    if op.undone_by is None and not large:
        try:
            would = (await visit.ask("history.undo", ops=[op.commit], dry_run=True)).undone[0]
        except Conflict as exc:
            refused = exc
    clashes = refused.data.get("conflicts", []) if refused else []
    forced = bool(clashes) and all(clash["field"] == "note" and clash["theirs"] is None for clash in clashes)
    return visit.page("change.html", op=op, would=would, refused=refused, clashes=clashes, forced=forced, large=large)


async def edit(visit: Visit) -> Response:
    """Return the page with the form that changes a memory."""
    node = await visit.ask("agent.get", node_id=visit.request.path_params["node_id"], touch=False)
    return await editing(visit, node, as_fields(node))


async def editing(visit: Visit, node: NodeResult, given: Mapping[str, str], **more: Any) -> Response:
    """Return the page with the form that changes a memory, filled in with `given`. `more`: values of the template,
    such as an error."""
    names = (await visit.spaces()).keys() - {"global"}
    was = {name: fingerprint(value) for name, value in as_fields(node).items()}
    values = {"error": None, "clash": None, "status": 200} | more
    return visit.page("edit.html", node=node, given=given, was=was, spaces=sorted(names), **values)


def fingerprint(text: str) -> str:
    """Return a digest of a field's text. The form contains it, to show which fields the person edited."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def as_fields(node: NodeResult) -> dict[str, str]:
    """Return `{field of the form that changes a memory: its text}` for `node`."""
    texts = {"title": node.title or "", "content": node.content, "type": node.type, "tier": node.tier}
    return {**texts, "space": node.space or "", "tags": ", ".join(node.tags), "confidence": f"{node.confidence:g}"}


async def outdated(visit: Visit) -> Response:
    """Return the page with the form that marks a memory as outdated, and the memories that may have replaced it."""
    node = await visit.ask("agent.get", node_id=visit.request.path_params["node_id"], touch=False)
    query = visit.request.query_params.get("find") or node.title or node.content[:300]
    found = await visit.ask("ui.search", query=query, limit=8)
    return visit.page(
        "outdated.html", node=node, query=query, found=[hit for hit in found.results if hit.id != node.id]
    )


# ---------------------------------------------------------------- waiting


async def waiting(visit: Visit) -> Response:
    """Return the page with all that waits for the person, each with its decisions. With `?status=all`: with what was
    decided."""
    given = visit.request.query_params
    kind, decided = given.get("kind", ""), given.get("status") == "all"
    waits = await waiting_now(visit)
    counts = {name: sum(item.kind == name for item in waits) for name in ("proposal", "conflict", "finding")}
    listed = [item for item in waits if kind in ("", item.kind)]
    past = []
    if decided:
        rows = (await visit.ask("agent.proposals", status="all")).proposals
        past, listed = [row for row in rows if row.status != "pending"], []
    return visit.page(
        "waiting.html", waits=listed, counts=counts, kind=kind, decided=decided, past=past, checked=visit.shared.checked
    )


# ---------------------------------------------------------------- whispers


async def whispers(visit: Visit) -> Response:
    """Return the page with the last prompts, each with the whispered memories or the reason of the silence."""
    before = visit.request.query_params.get("before")
    found = (await visit.ask("agent.whispers", limit=LIST_ROWS, before=before)).whispers
    older = found[-1].time if len(found) == LIST_ROWS else None
    judged, effect = (visit.request.query_params.get(name) for name in ("judged", "effect"))
    return visit.page("whispers.html", rows=found, older=older, judged=judged, effect=effect)


async def try_whisper(visit: Visit) -> Response:
    """Return the page that shows what would be whispered for a prompt now, with the numbers of each candidate."""
    given = visit.request.query_params
    prompt, space = given.get("q", ""), given.get("space") or None
    found = (
        await visit.ask("agent.whisper", prompt=prompt, space=space, explain=True, dry=True) if prompt.strip() else None
    )
    trace = found.trace if found and isinstance(found.trace, dict) else {}
    best = sorted(trace.get("candidates", []), key=lambda candidate: -candidate["relevance"])[:BENCH_ROWS]
    rows = [(candidate, outcome_text(candidate, trace["weights"])) for candidate in best]
    names = sorted((await visit.spaces()).keys() - {"global"})
    return visit.page("bench.html", prompt=prompt, space=space, found=found, rows=rows, spaces=names)


# ---------------------------------------------------------------- changes, sessions, health, beliefs


async def changes(visit: Visit) -> Response:
    """Return the page with the history of the vault by day, as the address narrows it. `?at=OP` shows one change in
    full."""
    picked = {name: visit.request.query_params.get(name, "").strip() for name in CHOICES}
    wanted = {name: picked[key] or None for name, key in NARROWED.items()}
    period = {"since": picked["month"] or None, "before": picked["before"] or picked["month"] or None}
    listed = visit.ask("history.list", limit=LIST_ROWS, **wanted, **period)
    months_asked, tasks_asked = visit.ask("history.months", **wanted), visit.ask("admin.tasks")
    found, months, tasks, spaces = await asyncio.gather(listed, months_asked, tasks_asked, visit.spaces())
    opened = await visit.ask("history.show", op=picked["at"]) if picked["at"] else None
    days = [(name, list(group)) for name, group in groupby(found.ops, lambda op: words.day(op.time))]
    older = found.ops[-1].commit[:12] if len(found.ops) == LIST_ROWS else None
    jobs, effect = [(f"job:{task.name}", task.name) for task in tasks.tasks], visit.request.query_params.get("effect")
    more = {"months": months.months, "opened": opened, "older": older, "spaces": sorted(spaces), "jobs": jobs}
    return visit.page("changes.html", picked=picked, days=days, effect=effect, **more)


async def undoing(visit: Visit) -> Response:
    """Return the page that shows what undoing a run would do, or undoing all that a job did since a time."""
    wish = {name: visit.request.query_params.get(name) or None for name in ("run", "job", "since")}
    if wish["since"] and (since := When().read(wish["since"])):
        wish["since"] = since.isoformat()
    would = await visit.ask("history.undo", LONG_SECONDS, dry_run=True, **wish)
    return visit.page("undo.html", wish=wish, would=would)


async def sessions(visit: Visit) -> Response:
    """Return the page with the archived sessions by day, newest first."""
    chosen = {name: visit.request.query_params.get(name) or None for name in ("project", "harness", "before")}
    found = await visit.ask("agent.sessions", limit=LIST_ROWS, **chosen)
    days = [(name, list(group)) for name, group in groupby(found.sessions, lambda about: words.day(about.last))]
    older = found.sessions[-1].id if len(found.sessions) == LIST_ROWS else None
    return visit.page("sessions.html", found=found, days=days, chosen=chosen, older=older)


async def session(visit: Visit) -> Response:
    """Return the page of one session as a dialogue, with the memories made of it. `?q=`: only turns that have these
    words. `?at=`: begin with the part that has this turn."""
    found = await visit.ask("agent.sessions", session_id=visit.request.path_params["session_id"])
    query, at = (visit.request.query_params.get(name, "") for name in ("q", "at"))
    wanted = query.casefold().split()
    turns = [statement for statement in found.turns if all(word in statement.text.casefold() for word in wanted)]
    first = next((number for number, statement in enumerate(turns) if str(statement.turn) == at), 0) // TURNS * TURNS
    return visit.page("session.html", found=found, turns=turns, first=first, size=TURNS, query=query, at=at)


async def health(visit: Visit) -> Response:
    """Return the page with the jobs, and with the state of each part of the daemon and how to mend it."""
    visit.shared.examine(visit)
    found = await visit.ask("admin.health")
    state, effect = STATES.get(found.phase, found.phase), visit.request.query_params.get("effect")
    about = {"state": state, "says": SAYS, "effect": effect, "findings": visit.shared.findings}
    return visit.page("health.html", health=found, **about)


async def job(visit: Visit) -> Response:
    """Return the page that shows what a job would do now."""
    ran = await visit.ask("admin.run_task", LONG_SECONDS, name=visit.request.path_params["job"], dry_run=True)
    return visit.page("job.html", ran=ran, would=outcome(ran, dry_run=True))


async def beliefs(visit: Visit) -> Response:
    """Return the page with beliefs that changed, and with memories that contradict each other."""
    found, spaces = await asyncio.gather(
        visit.ask("ui.insights", space=visit.request.query_params.get("space") or None), visit.spaces()
    )
    return visit.page("beliefs.html", found=found, space=visit.request.query_params.get("space"), spaces=sorted(spaces))


async def purge(visit: Visit) -> Response:
    """Return the page that shows what purging a memory would remove, and from where."""
    would = await visit.ask("admin.purge", LONG_SECONDS, node_id=visit.request.path_params["node_id"], dry_run=True)
    try:
        node = await visit.ask("agent.get", node_id=would.node_id, touch=False)
    except NotFound:
        node = None  # it was forgotten, and its history is still there
    return visit.page("purge.html", would=would, node=node)


# ---------------------------------------------------------------- map


async def memory_map(visit: Visit) -> Response:
    """Return the page with memories as a map, and as a list: all, those around one, or a chain between two."""
    given = {name: value for name, value in visit.request.query_params.items() if value.strip()}
    chosen = {name: given.get(name, "") for name in ("type", "tier", "space", "until", "near", "to", "page")}
    asked: dict[str, Any] = {f"{name}s": [given[name]] for name in ("type", "tier", "space") if name in given}
    asked |= {name: given[name] for name in ("near", "to") if name in given}
    number = int(chosen["page"]) if chosen["page"].isdecimal() else 1
    found, spaces = await asyncio.gather(
        visit.ask("ui.graph", limit=MAP_ROWS * number, created_before=given.get("until"), placed=False, **asked),
        visit.choices(),
    )
    rows, data = found.nodes[MAP_ROWS * (number - 1) :], urlencode({"columns": "true", **asked}, doseq=True)
    return visit.page("map.html", chosen=chosen, found=found, rows=rows, number=number, data=data, spaces=spaces)


VIEWS: Final[Mapping[str, View]] = {
    "/": today,
    "/search": search,
    "/waiting": waiting,
    "/whispers": whispers,
    "/whispers/try": try_whisper,
    "/map": memory_map,
    "/m/{node_id}/edit": edit,
    "/m/{node_id}/outdated": outdated,
    "/m/{node_id}": memory,
    "/m/{node_id}/purge": purge,
    "/changes": changes,
    "/changes/undo": undoing,
    "/changes/{op}": change,
    "/sessions": sessions,
    "/sessions/{session_id:path}": session,
    "/health": health,
    "/health/{job}": job,
    "/beliefs": beliefs,
}
