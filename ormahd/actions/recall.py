"""Search memories, best first. The first results count as weakly used. A memory's id as the query returns that
memory."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from msgspec import UNSET, UnsetType

from ormahd.actions.lookup import Progress, looking_back
from ormahd.actions.views import day, headline, iso, says_nothing
from ormahd.api import RecallHit, RecallResult
from ormahd.errors import Ambiguous, BadRequest, NotFound, NotReady
from ormahd.index.reader import Reader
from ormahd.index.rows import NodeRow
from ormahd.model.node import EdgeType, SearchQuery, short_id
from ormahd.ormah import Ormah
from ormahd.reworded import Reworded
from ormahd.search.gather import EmbedQuery
from ormahd.search.parts import rank_parts
from ormahd.search.search import Hit as Result
from ormahd.search.search import Ranked, Rules
from ormahd.text.quoting import beginning, shortened
from ormahd.text.sameness import once

SNIPPET = 200
"""Maximum number of characters of a related or conflicting result in the text reply."""
EXCERPT: Final = 1_600
"""Maximum number of characters of a result's excerpt."""
MOST: Final = 100
"""Maximum number of results requested from the search, when more are needed because some have the same content."""
CERTAIN: Final = 8
"""Minimum length of a query that can only be an id; shorter ones may be words or numbers (`face`, `2026`)."""
_ID = re.compile(r"[\s`'\"(]*(?:id[:\s]\s*)?([0-9a-f]{4}[0-9a-f-]{0,32})[\s`'\")]*", re.IGNORECASE)

GLANCED = 3
"""Number of results, from the first on, that count as read by the agent."""


def recall(
    ormah: Ormah, query: SearchQuery, *, space: str | None, explain: bool = False, touch: bool = True
) -> RecallResult:
    """Search memories. `space`: the caller's; its memories are ranked higher, and others are not excluded (see
    `query.spaces`).

    `touch`: record the first `GLANCED` results as weakly used, except those that were found only by an edge. A memory
    that the query names by its id is recorded as used.
    """
    ranked, hits = _found(
        ormah, ormah.index, query, ormah.embed_query, ormah.ranking_clock(), ormah.reworded, space=space, explain=explain,
    )  # fmt: skip
    if touch:
        now = ormah.ranking_clock()
        ormah.state.asked(now)
        first = [hit.id for hit in hits[:GLANCED] if hit.source in ("search", "temporal")]
        named = [hit.id for hit in hits if hit.source == "id"]
        if first:
            ormah.state.glance(first, how="recall", session_id=query.session_id, at=now)
        if named:
            ormah.state.touch(named, how="get", session_id=query.session_id, at=now)
    degraded = sorted({*ranked.degraded, *ormah.degraded()})
    return RecallResult(_prose(query, hits, degraded), hits, degraded, ranked.trace if explain else UNSET)


def recall_as_of(
    ormah: Ormah, query: SearchQuery, as_of: str, *, space: str | None, explain: bool = False, progress: Progress
) -> RecallResult:
    """Search the notes as they were at a time or commit. Nothing counts as used."""
    with looking_back(ormah, as_of, progress, query=query.query) as (past, told, now):
        reworded = Reworded(ormah.history, past, until=now)
        ranked, hits = _found(ormah, past, query, past.embed_query, now, reworded, space=space, explain=explain)
        degraded = sorted({*ranked.degraded, *past.degraded})
    count = f"{told.notes} {'memory' if told.notes == 1 else 'memories'}"
    prose = f"As of {now:%Y-%m-%d %H:%M} UTC (commit {told.commit[:8]}, {count}):\n{_prose(query, hits, degraded)}"
    return RecallResult(prose, hits, degraded, ranked.trace if explain else UNSET, told)


def _found(
    ormah: Ormah,
    index: Reader,
    query: SearchQuery,
    embed: EmbedQuery,
    now: datetime,
    reworded: Reworded,
    *,
    space: str | None,
    explain: bool,
) -> tuple[Ranked, list[RecallHit]]:
    asked, spare = query, 0
    while True:
        ranked = rank_parts(
            index, asked, embed=embed, space=space, now=now, explain=explain,
            rules=Rules(), holds=ormah.learned.both_hold,
            reworded=reworded,
        )  # fmt: skip
        rows = index.notes([found.node_id for found in ranked.results], connections=False)
        if (me := rows.get(ormah.vault.self_id)) and says_nothing(me):
            del rows[me.id]
        groups = _once(ranked, rows)
        missing = query.limit - len(groups)
        if missing <= 0 or len(ranked.results) < asked.limit or asked.limit >= MOST:
            break
        spare += max(missing, spare)  # some results repeated others: ask for as many more
        asked = query.model_copy(update={"limit": min(query.limit + spare, MOST)})
    groups = groups[: query.limit]
    against = _against(index, [found.node_id for found, _ in groups])
    hits: list[RecallHit] = []
    for place, twins in groups:
        row = rows[place.node_id]
        source = "conflict" if row.id in against else place.source
        also = [one.node_id for one in twins]
        hits.append(_hit(row, place.score, source, place.trace if explain else UNSET, also, place.older_than))
    named = None if explain else _named(index, query)
    if named is not None:
        row, certain = named
        others = [] if certain else [hit for hit in hits if hit.id != row.id]
        hits = [_hit(row, 1.0, "id", UNSET, []), *others[: query.limit - 1]]
    return ranked, hits


def _once(ranked: Ranked, rows: Mapping[str, NodeRow]) -> list[tuple[Result, list[Result]]]:
    """Return (best result, other results with the same content) for each distinct content."""
    there = [found for found in ranked.results if found.node_id in rows]  # the others were forgotten meanwhile
    return once(there, lambda found: (rows[found.node_id].title, rows[found.node_id].content))


def _named(index: Reader, query: SearchQuery) -> tuple[NodeRow, bool] | None:
    """Return the memory whose id, or a unique prefix of it, is the whole query; and whether the query can only be an
    id.

    A short query may also be a word. None if there is no such memory, or if the query has filters: then it is a search.
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


def _hit(
    row: NodeRow, score: float, source: str, trace: dict[str, Any] | UnsetType, also: list[str], older_than: str | None = None
) -> RecallHit:  # fmt: skip
    return RecallHit(
        row.id, row.short_id, row.title, row.type.value, row.tier.value, row.space, list(row.tags), round(score, 6), source,
        row.content, iso(row.created) or "", row.source, row.path, beginning(row.content, EXCERPT), also, older_than, row.said_in,
        trace,
    )  # fmt: skip


def _against(index: Reader, ids: list[str]) -> set[str]:
    """Return the ids of results that contradict a better result; these are shown as conflicts even if the search
    found them."""
    place = {node_id: at for at, node_id in enumerate(ids)}
    return {
        max(edge.source, edge.target, key=place.__getitem__)
        for edge in index.edges_of(ids)
        if edge.edge is EdgeType.CONTRADICTS and edge.source in place and edge.target in place
    }


def _prose(query: SearchQuery, hits: list[RecallHit], degraded: list[str]) -> str:
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
        lines.append(f"   {hit.content.strip() if hit.source == 'id' else hit.excerpt}")
    for source, heading in (("activated", "Related via connections:"), ("conflict", "Conflicting context:")):
        group = [hit for hit in hits if hit.source == source]
        if group:
            lines += ["", heading]
            lines += [
                f"- [{hit.type}] {headline(hit.title, hit.content)} (id: {hit.id}): "
                + shortened(" ".join(hit.excerpt.split()), SNIPPET)
                for hit in group
            ]
    if degraded:
        lines += ["", "Degraded: " + ", ".join(degraded) + " (the search was done without)"]
    return "\n".join(lines)
