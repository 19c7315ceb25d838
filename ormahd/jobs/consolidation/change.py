"""Make the change that replaces small memories by a summary: the summary is added, and its sources are archived with an
edge to it. It is one commit, which one undo reverts.

A summary is refused if search would not find it in place of its sources, which is tried on a copy of the index.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Any

from msgspec import Struct

from ormahd.actions.amend import SeenNote, clean, identities, see
from ormahd.actions.views import headline, stem
from ormahd.errors import BadRequest, Conflict, InvalidNote, NotFound
from ormahd.index.reader import Reader
from ormahd.index.rows import NodeRow
from ormahd.jobs.job import Edit, PlannedChange
from ormahd.model.change import Kind
from ormahd.model.node import ABOUT_SELF, MAX_TITLE, EdgeType, NodeType, SearchQuery, Tier
from ormahd.note.edit import edit
from ormahd.note.markdown import normalise
from ormahd.note.values import NoteLink, path_for
from ormahd.note.write import compose
from ormahd.ormah import Ormah
from ormahd.search.search import Rules, rank
from ormahd.text.facts import lost_facts, sentences
from ormahd.text.quoting import harmless, shortened

TAG = "consolidated"
"""The tag of a summary made by a consolidation."""
FEWEST, LARGEST = 2, 5
"""Minimum and maximum number of memories that become one (REFERENCE C 3.6)."""
TOP = 3
"""If a query finds a source today, the summary must be among this many first results of that query."""
RESULTS = 10
"""Number of results that a trial search requests; the default of recall."""
SENTENCES = 2
"""Number of sentences of each source that are used as queries, besides its title."""
SPARE = 500
"""Number of characters that a summary may always have, even if its sources together are shorter."""
READ = 100_000
"""If all sources together have more characters than this, the commit does not list the facts that the summary
leaves out."""
REASON = 2_000
"""Maximum number of characters of a judge's reason in the commit."""
LISTED = 12
"""Maximum number of facts that the commit lists as left out by the summary."""


def consolidate(
    ormah: Ormah, node_ids: Sequence[str], *, title: str | None, content: str, kind: NodeType, body: str, source: str
) -> PlannedChange:
    """Return the change that stores a summary and archives its sources. `node_ids`: full ids of the sources.

    The summary has the tag `consolidated` and a `derived_from` edge to each source; each source gets a `part_of`
    edge to it. The commit contains `body`; the new note's field `source` is `source`.

    The summary is global if a source is global on purpose; otherwise it gets the space of most sources. Its
    confidence is the lowest of the sources. It has all their tags, and is about the user (tag and `defines` edge) if
    a source is. This runs several searches, so the caller must not hold a lock.

    Raises:
        NotFound: an id is unknown.
        BadRequest: the sources are not 2 to 5 different memories that may be merged (the self node, core, outdated,
            different spaces, contradicting each other); the text is empty, too long or contains a secret; or
            searches that find the sources today would not find the summary.
        Conflict: a source is already part of another summary.
        Unavailable: the disk has no room for the trial, or the daemon stops.
    """
    rows = _checked_sources(ormah, node_ids)
    title, content = _checked_text(ormah, rows, title, content)
    made = _make(ormah, rows, title, content, kind, source)
    questions = _check_search(ormah, rows, made)

    # The commit message
    why = shortened(harmless(clean(ormah, body, []) or ""), REASON).strip()
    lines = [why, ""] if why else []
    lines += ["Archived, as parts of it:", *(f"- {_name(row)}" for row in rows), ""]
    lines.append(f"Questions that found them and now find it among the first {TOP}: {questions}")
    texts = [(row.title, row.content) for row in rows]
    long = sum(len(text) for _, text in texts) > READ
    if missing := [] if long else lost_facts(texts, f"{title or ''}\n{content}"):
        more = f" and {len(missing) - LISTED} more" if len(missing) > LISTED else ""
        lines.append("Said only there: " + ", ".join(missing[:LISTED]) + more)
    subject = f"Consolidate: {len(rows)} memories became “{headline(title, content, 40)}”"
    based_on = {row.id: row.digest for row in rows}
    edits = partial(_edits, ormah, rows, made)
    return PlannedChange(Kind.CONSOLIDATE, subject, "\n".join(lines), edits, based_on, weight=len(rows))


def successors(index: Reader, ids: Sequence[str], now: datetime) -> dict[str, str]:
    """Return `{source id: summary id}` for those of `ids` that were consolidated and whose summary is still valid."""
    asked = frozenset(ids)
    edges = [edge for edge in index.edges_of(ids) if edge.edge is EdgeType.DERIVED_FROM and edge.target in asked]
    rows = index.notes([edge.source for edge in edges])
    valid = {node_id for node_id, row in rows.items() if TAG in row.tags and not row.expired(now)}
    return {edge.target: edge.source for edge in edges if edge.source in valid}


# ---------------------------------------------------------------- checks


def _checked_sources(ormah: Ormah, node_ids: Sequence[str]) -> list[NodeRow]:
    """Return the memories to unite.

    Raises:
        BadRequest: there are too few, too many or equal ids, or these memories may not be united.
        NotFound: an id is unknown.
        Conflict: a memory is part of another summary already.
    """
    ids = list(dict.fromkeys(node_ids))
    if len(ids) != len(node_ids) or not FEWEST <= len(ids) <= LARGEST:
        raise BadRequest(f"{FEWEST} to {LARGEST} different memories can become one, not {len(ids)}")

    # Each of them may be united with others
    known = ormah.index.notes(ids)
    for node_id in ids:
        if node_id not in known:
            raise NotFound(f"no memory has the id {node_id!r}", data={"id": node_id})
    rows = list(known.values())
    for row in rows:
        reasons = {
            "it is the self node": row.id == ormah.vault.self_id,
            "it is in core": row.tier is Tier.CORE,
            "it is outdated, or will be": row.valid_until is not None,
        }
        if (why := next((reason for reason, holds in reasons.items() if holds), None)) is not None:
            raise BadRequest(f"{_name(row)} cannot be united with others: {why}", data={"id": row.id})

    # All of them may become one
    if len({row.space for row in rows} - {None}) > 1:
        spaces = ", ".join(sorted({row.space for row in rows if row.space}))
        raise BadRequest(f"memories of different spaces cannot become one ({spaces})")
    for node_id, successor in successors(ormah.index, ids, ormah.clock()).items():
        raise Conflict(f"{_name(known[node_id])} became part of {successor[:8]} already", data={"id": node_id})
    for edge in ormah.index.edges_of(ids):
        if edge.edge in (EdgeType.CONTRADICTS, EdgeType.EVOLVED_FROM) and {edge.source, edge.target} <= set(ids):
            two = " and ".join(_name(known[node_id]) for node_id in (edge.source, edge.target))
            hint = "say first which of them holds: ormahctl outdated ID"
            raise BadRequest(f"{two} do not agree, so they cannot become one", hint=hint, data={"id": edge.source})
    return rows


def _checked_text(ormah: Ormah, rows: Sequence[NodeRow], title: str | None, content: str) -> tuple[str | None, str]:
    """Return title and content of the summary, cleaned.

    Raises:
        BadRequest: the text is empty, too long, or has a secret.
    """
    title, content = " ".join((title or "").split()) or None, normalise(content)
    if not content.strip():
        raise BadRequest("an empty memory cannot be stored")
    if title is not None and len(title) > MAX_TITLE:
        raise BadRequest(f"the title has {len(title)} characters, {MAX_TITLE} are allowed")
    limit = max(SPARE, sum(len(row.content) for row in rows) + 2 * len(rows))
    if len(content) > limit:
        raise BadRequest(f"the summary has {len(content)} characters, more than what it sums up ({limit})")
    found: list[str] = []
    clean(ormah, title, found)
    clean(ormah, content, found)
    if found:
        raise BadRequest("the summary holds a secret: " + ", ".join(sorted(set(found))))
    return title, content


# ---------------------------------------------------------------- the new memory


class _Made(Struct, frozen=True):
    """The new summary, before it is written. `data`: the bytes of its file."""

    id: str
    path: str
    title: str | None
    content: str
    data: bytes
    about_self: bool
    created: datetime


def _make(ormah: Ormah, rows: Sequence[NodeRow], title: str | None, content: str, kind: NodeType, source: str) -> _Made:
    """Return the new summary. Its space, tier, tags and confidence follow from the memories `rows`."""
    now, node_id = ormah.moment(), ormah.index.new_id()
    defining = identities(ormah)
    about_self = any(row.about_self or row.id in defining for row in rows)
    tags = [TAG, *([ABOUT_SELF] if about_self else []), *(tag for row in rows for tag in row.tags)]
    purposely = any(row.space is None and see(ormah, row.id).note.everywhere for row in rows)
    # The space of most memories; global if at least as many are global
    counts = Counter(row.space for row in rows)
    space = None if purposely or counts[None] == max(counts.values()) else max(counts, key=counts.__getitem__)

    # The note
    tier = Tier.WORKING if any(row.tier is Tier.WORKING for row in rows) else Tier.ARCHIVAL
    names: dict[str, Any] = {
        "id": node_id,
        "type": kind,
        "space": space,
        "title": title,
        "content": content,
        "created": now,
    }
    try:
        data = compose(
            tier=tier,
            everywhere=purposely,
            tags=list({tag.casefold(): tag for tag in reversed(tags)}.values())[::-1],  # each once, as spelled first
            source=source,
            confidence=min(row.confidence for row in rows),
            updated=now,
            links=[NoteLink(EdgeType.DERIVED_FROM, stem(row.path), 1.0, now) for row in rows],
            **names,
        )
    except InvalidNote as exc:
        raise BadRequest(exc.message, hint=exc.hint) from exc
    return _Made(node_id, path_for(**names), title, content, data, about_self, now)


def _archived_bytes(seen: SeenNote, made: _Made) -> bytes:
    """Return the new content of a source's file: in the archive, with a link to the summary."""
    pointer = NoteLink(EdgeType.PART_OF, stem(made.path), 1.0, made.created, "consolidated")
    return edit(seen.data, seen.path, set={"tier": Tier.ARCHIVAL, "updated": made.created}, link=[pointer])


def _edits(ormah: Ormah, rows: Sequence[NodeRow], made: _Made) -> list[Edit]:
    """Return the edits of the change: the new summary, its archived sources, and the link from the self node if it is
    about the user."""
    edits = [Edit(made.id, made.path, made.data, None)]
    for row in rows:
        seen = see(ormah, row.id)
        edits.append(Edit(row.id, seen.path, _archived_bytes(seen, made), seen.digest))
    if made.about_self:
        me = see(ormah, ormah.vault.self_id)
        link = NoteLink(EdgeType.DEFINES, stem(made.path), 1.0, made.created)
        data = edit(me.data, me.path, link=[link], set={"updated": made.created})
        edits.append(Edit(me.id, me.path, data, me.digest))
    return edits


# ---------------------------------------------------------------- the trial search


def _check_search(ormah: Ormah, rows: Sequence[NodeRow], made: _Made) -> int:
    """Check that the summary replaces its sources in search. Return the number of queries checked.

    The queries are those titles and first sentences of the sources that find a source among the first TOP results
    today. The check runs them on a copy of the index in which the change is applied. It leaves out archived memories,
    as whispers do, unless all sources were archived before. So the sources can neither displace the summary nor lead
    to it by their edges.

    Raises:
        BadRequest: the summary is not among the first TOP results of a query.
    """
    ormah.index.embed_ahead([(made.title, made.content)], urgent=False)

    # The queries that find a source today
    now, ids = ormah.ranking_clock(), {row.id for row in rows}
    questions: list[tuple[str, str | None]] = []
    for row in rows:
        title = [row.title] if row.title and any(letter.isalnum() for letter in row.title) else []
        texts = dict.fromkeys([*title, *sentences(row.content, SENTENCES)])
        questions += [(question, row.space) for question in texts]
    firsts = [_first_ids(ormah, ormah.index, question, space, None, now, TOP) for question, space in questions]
    asked = [one for one, found in zip(questions, firsts, strict=True) if ids.intersection(found)]

    # Each must find the summary on a copy of the index with the change. The sources do not count there
    changed = {made.path: made.data} | {
        seen.path: _archived_bytes(seen, made) for seen in (see(ormah, row.id) for row in rows)
    }
    alive = None if all(row.tier is Tier.ARCHIVAL for row in rows) else [Tier.CORE, Tier.WORKING]
    with ormah.pasts.trial(changed, now) as trial:
        for question, space in asked:
            found = _first_ids(ormah, trial, question, space, alive, now, TOP + len(ids))
            if made.id not in [one for one in found if one not in ids][:TOP]:
                raise BadRequest(
                    f"the summary would not be among the first {TOP} for “{headline(None, question, 60)}”, by which one of "
                    "the memories is found today",
                    hint="name in it what they are about",
                )
    return len(asked)


def _first_ids(
    ormah: Ormah, index: Reader, question: str, space: str | None, tiers: list[Tier] | None, now: datetime, limit: int
) -> list[str]:
    """Return the ids of the first `limit` results of a search for `question`, best first. Memories that were found only
    by edges are left out."""
    query, embed = SearchQuery(query=question, limit=RESULTS, tiers=tiers), ormah.index.embed_query
    ranked = rank(index, query, embed=embed, space=space, now=now, explain=False, rules=Rules())
    return [hit.node_id for hit in ranked.results if hit.source == "search"][:limit]


def _name(row: NodeRow) -> str:
    """Return headline and short id of a memory, for messages."""
    return f"{headline(row.title, row.content)} ({row.short_id})"
