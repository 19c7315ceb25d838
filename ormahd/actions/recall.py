"""Search memories, best first. The first results count as weakly used. A memory's id as the query returns that
memory."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any, Final

from msgspec import UNSET, UnsetType

from ormahd.actions.amend import Caller, Progress, check_space, silent
from ormahd.actions.evidence import mark_stale
from ormahd.actions.lookup import looking_back
from ormahd.actions.projects import place_of, space_of
from ormahd.actions.sessions import recall_sessions
from ormahd.actions.views import day, headline, of_row, says_nothing
from ormahd.api import RecallHit, RecallParams, RecallResult, UiSearchParams
from ormahd.errors import Ambiguous, BadRequest, NotFound, NotReady
from ormahd.index.reader import Reader
from ormahd.index.rows import NodeRow
from ormahd.model.node import EdgeType, SearchQuery, short_id
from ormahd.ormah import Ormah
from ormahd.reworded import Reworded
from ormahd.search.search import Ranked, Rules, rank_parts
from ormahd.text.quoting import beginning, shortened
from ormahd.text.sameness import grouped

SNIPPET = 200
"""Maximum number of characters of a related or conflicting result in the text reply."""
EXCERPT: Final = 1_600
"""Maximum number of characters of a result's excerpt."""
MAX_REQUESTED: Final = 100
"""Maximum number of results requested from the search, when more are needed because some have the same content."""
CERTAIN: Final = 8
"""Minimum length of a query that can only be an id; shorter ones may be words or numbers (`face`, `2026`)."""
_ID = re.compile(r"[\s`'\"(]*(?:id[:\s]\s*)?([0-9a-f]{4}[0-9a-f-]{0,32})[\s`'\")]*", re.IGNORECASE)

GLANCED = 3
"""Number of results, from the first on, that count as read by the agent."""


def recall(ormah: Ormah, params: RecallParams, caller: Caller, progress: Progress = silent) -> RecallResult:
    """Search memories for an agent or a person, ranking those of the caller's space higher.

    With `sessions` the archive of sessions is searched, with `as_of` the notes as they were at a time or commit. Then
    nothing counts as used.
    """
    query = SearchQuery.of(params)
    if params.sessions:
        if params.as_of is not None or params.explain:
            raise BadRequest("sessions are searched as they are today, and without an explanation")
        return recall_sessions(ormah.sessions, ormah.index, query)
    space = space_of(ormah, caller) if isinstance(params.space, UnsetType) else check_space(params.space)
    if params.as_of is None:
        return search(ormah, query, space=space, cwd=place_of(ormah, caller), explain=params.explain)
    with looking_back(ormah, params.as_of, progress, query=query.query) as (past, state, now):
        reworded = Reworded(ormah.history, past, until=now)
        ranked, hits = _ranked_hits(ormah, past, query, now=now, reworded=reworded, space=space, explain=params.explain)
        degraded = sorted({*ranked.degraded, *past.degraded})
    count = f"{state.notes} {'memory' if state.notes == 1 else 'memories'}"
    prose = f"As of {now:%Y-%m-%d %H:%M} UTC (commit {state.commit[:8]}, {count}):\n{_prose(query, hits, degraded)}"
    trace = ranked.trace if params.explain else UNSET
    return RecallResult(text=prose, results=hits, degraded=degraded, trace=trace, as_of=state)


def search_page(ormah: Ormah, params: UiSearchParams) -> RecallResult:
    """Search memories for a page. No space is ranked higher, and nothing counts as used."""
    return search(ormah, SearchQuery.of(params), space=None, explain=params.explain, touch=False)


def search(
    ormah: Ormah,
    query: SearchQuery,
    *,
    space: str | None,
    cwd: str | None = None,
    explain: bool = False,
    touch: bool = True,
) -> RecallResult:
    """Search memories, and return the results with the text for an agent. Memories of the caller's `space` are ranked
    higher; `query.spaces` excludes others. `cwd`: a folder in the project of `space`.

    `touch`: record the first `GLANCED` results as weakly used, except those that were found only by an edge. A memory
    that the query names by its id is recorded as used.
    """
    now = ormah.ranking_clock()
    context: dict[str, Any] = {"space": space, "cwd": cwd, "explain": explain}
    ranked, hits = _ranked_hits(ormah, ormah.index, query, now=now, reworded=ormah.reworded, **context)
    if touch:
        ormah.state.asked(now)
        first = [hit.id for hit in hits[:GLANCED] if hit.source in ("search", "temporal")]
        named = [hit.id for hit in hits if hit.source == "id"]
        if first:
            ormah.state.glance(first, how="recall", session_id=query.session_id, at=now)
        if named:
            ormah.state.touch(named, how="get", session_id=query.session_id, at=now)
    degraded = sorted({*ranked.degraded, *ormah.degraded()})
    trace = ranked.trace if explain else UNSET
    return RecallResult(text=_prose(query, hits, degraded), results=hits, degraded=degraded, trace=trace)


def _ranked_hits(
    ormah: Ormah,
    index: Reader,
    query: SearchQuery,
    *,
    now: datetime,
    reworded: Reworded,
    space: str | None,
    explain: bool,
    cwd: str | None = None,
) -> tuple[Ranked, list[RecallHit]]:
    """Return the ranking of a search, and its results for the answer, at most `query.limit`.

    Memories that say the same are one result. A memory that contradicts a better result is marked as a conflict. A
    memory that the query names by its id comes first.
    """
    # Search, and search for more if results repeated each other
    asked, spare = query, 0
    while True:
        context: dict[str, Any] = {"space": space, "now": now, "explain": explain, "reworded": reworded}
        ranked = rank_parts(
            index, asked, embed=index.embed_query, rules=Rules(), holds=ormah.learned.both_hold, **context
        )
        rows = index.notes([found.node_id for found in ranked.results])
        if (me := rows.get(ormah.vault.self_id)) and says_nothing(me):
            del rows[me.id]
        known = [found for found in ranked.results if found.node_id in rows]  # the others were forgotten meanwhile
        groups = grouped((found, (rows[found.node_id].title, rows[found.node_id].content)) for found in known)
        missing = query.limit - len(groups)
        if missing <= 0 or len(ranked.results) < asked.limit or asked.limit >= MAX_REQUESTED:
            break
        spare += max(missing, spare)  # some results repeated others: ask for as many more
        asked = query.model_copy(update={"limit": min(query.limit + spare, MAX_REQUESTED)})
    groups = groups[: query.limit]

    # Of two results that contradict each other the worse one is shown as a conflict, even if the search found it
    rank = {found.node_id: at for at, (found, _) in enumerate(groups)}
    opposed = [edge for edge in index.edges_of(list(rank)) if edge.edge is EdgeType.CONTRADICTS]
    pairs = [(edge.source, edge.target) for edge in opposed if edge.source in rank and edge.target in rank]
    against = {max(pair, key=rank.__getitem__) for pair in pairs}

    # The results for the answer
    hits: list[RecallHit] = []
    for place, twins in groups:
        row = mark_stale(rows[place.node_id], cwd, space)
        source, also = "conflict" if row.id in against else place.source, [twin.node_id for twin in twins]
        more: dict[str, Any] = {"older_than": place.older_than, "trace": place.trace if explain else UNSET}
        hits.append(_hit(row, score=round(place.score, 6), source=source, also=also, **more))

    # The memory that the query names by its id is first, or alone
    named = None if explain else _named(index, query)
    if named is not None:
        row, certain = mark_stale(named[0], cwd, space), named[1]
        others = [] if certain else [hit for hit in hits if hit.id != row.id]
        hits = [_hit(row, score=1.0, source="id"), *others[: query.limit - 1]]
    return ranked, hits


def _hit(row: NodeRow, **more: Any) -> RecallHit:
    """Return a memory as a result of recall. `more`: further fields of the result."""
    return of_row(RecallHit, row, origin=row.source, excerpt=beginning(row.content, EXCERPT), **more)


def _named(index: Reader, query: SearchQuery) -> tuple[NodeRow, bool] | None:
    """Return (the memory whose id or unique id prefix the query is, whether the query can be nothing but an id). A
    short query may also be a word.

    None if there is no such memory, or if the query has filters.
    """
    found = _ID.fullmatch(query.query)
    filters = (query.types, query.tiers, query.spaces, query.tags, query.created_after, query.created_before)
    if found is None or any(one is not None for one in filters):
        return None
    try:
        row = index.note(index.resolve(found[1]))
    except (NotFound, NotReady, Ambiguous, BadRequest):
        return None
    return row, len(found[1]) >= CERTAIN


def _prose(query: SearchQuery, hits: list[RecallHit], degraded: list[str]) -> str:
    """Return the answer as text for agents: direct results, then memories found by connections, then conflicts."""
    lines = []
    direct = [hit for hit in hits if hit.source in ("id", "search", "temporal")]
    if not hits:
        lines.append(f"No memory found for: {headline(None, query.query)}")
    for number, hit in enumerate(direct, 1):
        lines.append(f"{number}. [{hit.type}] {headline(hit.title, hit.content)}")
        lines.append(
            f"   id: {hit.id} | tier: {hit.tier} | space: {hit.space or 'global'} | score: {hit.score:.3f} | created: {day(hit.created)}"
            + (f" | and {len(hit.also)} that say the same" if hit.also else "")
            + (f" | older than {short_id(hit.older_than)}, which seems to replace it" if hit.older_than else "")
        )
        lines += [f"   {one}" for one in (hit.rejected, hit.stale) if one]
        lines.append(f"   {hit.content.strip() if hit.source == 'id' else hit.excerpt}")
    for source, heading in (("activated", "Related via connections:"), ("conflict", "Conflicting context:")):
        group = [hit for hit in hits if hit.source == source]
        if group:
            lines += ["", heading]
            lines += [
                f"- [{hit.type}] {headline(hit.title, hit.content)} (id: {hit.id}{f', {hit.rejected}' if hit.rejected else ''}): "
                + shortened(" ".join(hit.excerpt.split()), SNIPPET)
                for hit in group
            ]
    if degraded:
        lines += ["", "Degraded: " + ", ".join(degraded) + " (the search was done without)"]
    return "\n".join(lines)
