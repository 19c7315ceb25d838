"""The search pipeline: parse → gather → fuse → shape → activate → renew → cut.

`rank` runs all stages; `rank_parts` also for each question of a text that asks several. `newer_of` finds the newer
memory on the matter of a result; `renew` places it before that result, and marks the older one if it was replaced. To
find it, the texts of the best results are compared with each other and with similar candidates. What is recorded takes
precedence over this comparison: an `evolved_from` or `contradicts` edge, or a person's decision that both memories
hold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Required, TypedDict, Unpack

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from ormahd.index.reader import Reader
from ormahd.index.rows import CandidateRow, Filter
from ormahd.model.node import EdgeType, Found, SearchQuery, Tier
from ormahd.search.exact import Exact, exact_effect, rare_words
from ormahd.search.fuse import SEEDS, Fused, activate, fuse, place_conflicts
from ormahd.search.gather import MIN_POOL, EmbedQuery, Gathered, ParsedQuery, Trace, gather, max_sim, parse_query, parts
from ormahd.search.shape import Evidence, Named, Shaped, shape
from ormahd.text.standing import Relation
from ormahd.vectors.matrix import DECIMALS

FIRST = 10
"""Number of best results that are compared with other candidates. Later results are seldom read."""
PARTNERS = 3
"""Number of newer memories that each of the `FIRST` best results is compared with, nearest first."""
PAIRS = 12
"""Maximum number of pairs compared for one query, nearest first: comparing two texts for the first time is slow."""
NEAREST = 12
"""Number of neighbours fetched by vectors for a memory that `replaced_of_all` checks."""
NEAR = 0.25
"""Minimum cosine of two memories that are compared."""
BEHIND = 0.999
"""Factor on a memory's score that gives the score of the older memory that it replaced, or the largest score of
an archived memory that it was made from: these are placed directly behind it."""
LEVEL = 0.25
"""Minimum score of a newer memory that only may have replaced an older one, as a share of the older one's. Below it the
older one answers the question alone, and the order stays."""
BOTH = frozenset({EdgeType.CONTRADICTS, EdgeType.DERIVED_FROM})
"""Types of edges whose two memories both still hold, so neither replaced the other."""

PERIOD = "period"
"""Listed in `degraded` if no memory is of the only thing that the query names, a period, so its words were searched."""

Holds = Callable[[str, str], bool]
"""A function of two node ids, in any order: whether a person decided that both memories hold."""
Reworded = Callable[[str, str, float], bool]
"""A function of (older id, newer id, cosine): whether the memory that was created first was later edited, so that
its present text may be the newer one."""


def undecided(_older: str, _newer: str) -> bool:
    """Return False: the default `Holds`, for which no person decided that two memories both hold."""
    return False


def never(_older: str, _newer: str, _cosine: float) -> bool:
    """Return False: the default `Reworded`, for which no older memory was edited later."""
    return False


class Newer(Struct, frozen=True):
    """The memory that is placed before an older one. `replaces`: whether it replaced the older one; else they are on
    one matter, and both may hold."""

    node_id: str
    replaces: bool


def newer_of(
    index: Reader,
    ids: Sequence[str],
    pool: Mapping[str, CandidateRow],
    chosen: Filter,
    holds: Holds = undecided,
    reworded: Reworded = never,
) -> dict[str, Newer]:
    """Return `{older id: newer memory}` for the memories in `ids` that have a newer one on the same matter.

    If several replaced it, the newest of these is taken. If several only may have replaced it, the likeliest is taken.
    `pool`: candidates that may be the newer memory. With an `evolved_from` edge, any memory that passes the filter
    `chosen` may be it. `holds`, `reworded`: see the types `Holds` and `Reworded`.
    """
    # what is recorded: both memories hold, or one evolved from the other
    edges = index.edges_of(list(ids))
    apart = {frozenset((edge.source, edge.target)) for edge in edges if edge.edge in BOTH}
    evolved = {e.target: e.source for e in edges if e.edge is EdgeType.EVOLVED_FROM and e.target in ids}
    passing = set(index.filter_ids(sorted(set(evolved.values())), chosen))
    found = {older: newer for older, newer in evolved.items() if newer in passing}

    # the other pairs are compared; an older memory that was edited later may be the newer one
    pairs = [pair for pair in _pairs(index, ids, pool) if frozenset(pair[:2]) not in apart and pair[0] not in found]
    relations = {two: compared for two, compared in index.replaced_pairs(pairs).items() if not holds(*two)}
    cosines = {pair[:2]: pair[2] for pair in pairs}
    edited = [two for two in relations if reworded(*two, cosines[two])]
    inverse = index.replaced_pairs([(newer, older, cosines[older, newer]) for older, newer in edited])
    stands = {two: compared for two, compared in relations.items() if two not in edited}

    # of several newer memories the last one in a dict counts: the newest that replaced it, or the likeliest
    by_age = sorted(stands, key=lambda two: (pool[two[1]].created, two[1]))  # the newest is the last
    likely = {two: stands[two] for two in by_age} | inverse  # an edit is newer than both were when made
    replaced = [two for two, compared in likely.items() if compared.verdict is Relation.REPLACED]
    found |= {older: newer for older, newer in replaced if older in ids}
    by_chance = sorted(likely, key=lambda two: (likely[two].replaced, two))
    marks = {older: Newer(_end_of_chain(newer, found), replaces=False) for older, newer in by_chance if older in ids}
    return marks | {older: Newer(_end_of_chain(older, found), replaces=True) for older in found}


def replaced_of_all(
    index: Reader, ids: Sequence[str], chosen: Filter, holds: Holds = undecided, reworded: Reworded = never
) -> dict[str, str]:
    """Return `{older id: newer id}` for the memories in `ids` that a newer memory replaced. They need not be search
    results.

    Each is compared with its nearest neighbours that pass the filter `chosen`.
    """
    found: dict[str, str] = {}
    for node_id in ids:
        vectors = index.vectors(node_id)
        near = [] if vectors is None else index.search_vectors(vectors[0], NEAREST, chosen)
        compared = list(dict.fromkeys([node_id, *(other for other, _ in near)]))
        marks = newer_of(index, compared[: PARTNERS + 1], index.candidates(compared), chosen, holds, reworded)
        if node_id in marks and marks[node_id].replaces:
            found[node_id] = marks[node_id].node_id
    return found


def _pairs(index: Reader, ids: Sequence[str], pool: Mapping[str, CandidateRow]) -> list[tuple[str, str, float]]:
    """Return (older id, newer id, cosine) of the pairs that are near enough to compare, nearest first, at most `PAIRS`.

    Sections of sources are not compared: the date of a file says little about when something was so.
    """
    older_vectors = [
        (node_id, vectors[0])
        for node_id in ids
        if node_id in pool and not pool[node_id].from_source and (vectors := index.vectors(node_id)) is not None
    ]
    if not older_vectors:
        return []
    others = [row for row in pool.values() if not row.from_source]
    cosines = index.similarities(np.stack([vector for _, vector in older_vectors]), [row.id for row in others])
    found: list[tuple[str, str, float]] = []
    for column, (node_id, _) in enumerate(older_vectors):
        older = pool[node_id]
        spaces = (older.space, None)  # a memory of one project cannot replace one of another, or a global one
        near = [
            (-cosine, other.id)
            for other, cosine in zip(others, cosines[:, column].tolist(), strict=True)
            if cosine >= NEAR and other.created > older.created and other.space in spaces
        ]
        found += [(node_id, newer, -negative) for negative, newer in sorted(near)[:PARTNERS]]
    return sorted(found, key=lambda pair: (-pair[2], pair[:2]))[:PAIRS]


def _end_of_chain(node_id: str, found: Mapping[str, str]) -> str:
    """Return the newest memory at the end of a chain of replacements that begins with `node_id`.

    `found`: {older id: newer id}.
    """
    visited = {node_id}
    while (newer := found.get(node_id)) is not None and newer not in visited:
        visited.add(newer)
        node_id = newer
    return node_id


class Scored(Struct, frozen=True):
    """The fused candidates after scoring. `traces`: best first; `rows`: {node id: row}; `spaces`: see `Ranked`."""

    traces: list[Trace]
    rows: dict[str, CandidateRow]
    spaces: dict[str | None, float]
    shaped: Shaped

    def numbers(self, node_id: str) -> dict[str, float]:
        """Return `Trace.numbers` of a memory; {} if it is no candidate."""
        place = next((at for at, known in enumerate(self.rows) if known == node_id), None)
        return {} if place is None else self.shaped.numbers(place)


def renew(
    results: Sequence[Trace], marks: Mapping[str, Newer], known: Mapping[str, Trace], limit: int, scored: Scored
) -> list[Trace]:
    """Return the results, at most `limit`, with each newer memory placed before the older one.

    A newer memory that was not a result is inserted. `marks`: {older id: newer memory}, as `newer_of` returns them.
    `known`: {node id: trace} of all candidates.
    """
    found: dict[str, Trace] = {}
    for trace in results:
        if trace.node_id in found:
            continue
        newer = marks.get(trace.node_id)
        score = known[newer.node_id].score if newer is not None and newer.node_id in known else 0.0
        if newer is not None and (newer.replaces or score >= LEVEL * trace.score):
            trace.older_than = newer.node_id if newer.replaces else None
            if newer.node_id not in found:
                # the newer memory gets the score that the older one had
                lifted = known.get(newer.node_id) or Trace(newer.node_id, {}, source="activated")
                lifted.numbers = {**(lifted.numbers or scored.numbers(newer.node_id)), "renewed": trace.score}
                lifted.path = [*lifted.path, {"newer_than": trace.node_id}]
                lifted.score, lifted.dropped = trace.score, None
                found[newer.node_id] = lifted
                trace.numbers = {**trace.numbers, "renewed": round(trace.score * BEHIND, 6)}
                trace.score = trace.recompute()
        found[trace.node_id] = trace
    return _up_to_limit(list(found.values()), limit)


def _up_to_limit(traces: list[Trace], limit: int) -> list[Trace]:
    """Return at most `limit` traces. Contradictions are kept; the last of the other traces are dropped."""
    room = limit - sum(trace.source == "conflict" for trace in traces)
    chosen: list[Trace] = []
    for trace in traces:
        if trace.source == "conflict" or room > 0:
            chosen.append(trace)
            room -= trace.source != "conflict"
    return chosen[:limit]


MIN_SCORE = 0.1
"""Minimum score of a result, computed without the learned blend: the blend only orders the results."""
COMPARED = 100
"""Number of fused candidates whose texts are compared token by token. More would find slightly more, but
not rank it high enough to matter."""
TEMPORAL_SCORE = 0.001
"""Score of a memory that was found only by its time. It is lower than all scores of memories found by their text."""

PIECES = 2
"""Number of pieces of a long note whose tokens are compared: the pieces nearest to the question. More pieces take
longer and find no more."""


class Hit(Struct, frozen=True):
    """One result of a search. `source`: how it was found. `trace`: its trace as plain values, empty without
    `explain`."""

    node_id: str
    score: float
    source: Found
    trace: dict[str, Any]
    numbers: Mapping[str, float] = field(default_factory=dict)
    """Name -> part of the score (`Trace.numbers`). Cosine and late interaction are absolute: they do not depend
    on the other results."""
    older_than: str | None = None
    """Id of the newer memory that replaced this one, and is placed before it."""


class Ranked(Struct, frozen=True):
    """The results of a search, best first. `degraded`: names of the parts that did not work, such as "vectors"."""

    results: list[Hit]
    degraded: list[str] = field(default_factory=list)
    trace: dict[str, Any] = field(default_factory=dict)
    """The parsed query, the number of candidates gathered, and each dropped candidate with the reason."""
    spaces: Mapping[str | None, float] = field(default_factory=dict)
    """Space (None: global) -> the largest unweighted late interaction of its candidates. It shows which space the
    question is about, whatever the caller's space is."""
    pool: Mapping[str, CandidateRow] = field(default_factory=dict)
    """{node id: candidate}, for a later call of `newer_of`. Empty unless `rank` was called with `renewed=False`."""


class Rules(Struct, frozen=True):
    """The limits of a search."""

    min_pool: int = MIN_POOL
    """Minimum number of candidates fetched by words and by vectors each."""
    compared: int = COMPARED
    """Minimum number of fused candidates whose texts are compared token by token."""
    seeds: int = SEEDS
    """Number of best results from which activation spreads."""
    sources_of: tuple[str | None, ...] | None = None
    """See `Filter.sources_of`."""


def rank(
    index: Reader,
    query: SearchQuery,
    *,
    embed: EmbedQuery,
    space: str | None,
    now: datetime,
    rules: Rules,
    holds: Holds = undecided,
    reworded: Reworded = never,
    renewed: bool = True,
    explain: bool = True,
) -> Ranked:
    """Return the memories that answer `query`, best first; at most `query.limit`.

    `space`: the caller's space, favoured but not required. `now`: aware, UTC. Equal inputs give equal results.
    `holds`, `reworded`: see the types `Holds` and `Reworded`. `renewed` False: newer memories are not placed before
    the ones they replaced; the caller does that for the few results that it shows. `explain` False: the traces are
    empty. Both save time.
    """
    # a query that names nothing but a period is answered by the newest memories of it
    parsed = parse_query(query, space=space, now=now)
    parsed = replace(parsed, chosen=replace(parsed.chosen, sources_of=rules.sources_of))
    if parsed.only_time:
        newest = _newest(index, parsed, parsed.limit, ())
        if newest or parsed.period is None:
            return _ranked(parsed, None, newest, [], {}, explain=explain)
        timeless = replace(parsed.chosen, created_after=None, created_before=None)  # "friday" may be a word of a text
        parsed = replace(parsed, only_time=False, period=None, chosen=timeless)
        gathered = gather(index, parsed, embed, rules.min_pool)
        gathered.degraded.append(PERIOD)
    else:
        gathered = gather(index, parsed, embed, rules.min_pool)

    # candidates, scored by their texts
    keep = max(rules.compared, 2 * parsed.limit)
    exact = exact_effect(index, parsed)
    fused = fuse(gathered, keep=keep, exact=exact.boost.keys())
    scored = _scored(index, fused, gathered, parsed, exact, explain=explain)
    results = _results(scored.traces, parsed)

    # further results: memories of the period, and memories connected by edges
    late = _newest(index, parsed, parsed.limit - len(results), results) if parsed.windowed else []
    activated = activate(index, results, parsed.chosen, rules.seeds)
    merged = sorted([*results, *activated], key=lambda trace: -trace.score) + late
    top, candidates = place_conflicts(merged, parsed.limit), [*scored.traces, *activated]

    # each newer memory is placed before the older one that it replaced
    if renewed:
        first = [trace.node_id for trace in top[:FIRST]]
        pool = scored.rows | index.candidates([node_id for node_id in first if node_id not in scored.rows])
        marks = newer_of(index, first, pool, parsed.chosen, holds, reworded)
        top = renew(top, marks, {trace.node_id: trace for trace in candidates}, parsed.limit, scored)

    # the trace of every other candidate says why it is no result
    top_ids = {trace.node_id for trace in top}
    for trace in merged:
        if trace.node_id not in top_ids:
            trace.dropped = f"cut: {trace.source} beyond the {parsed.limit} best"
    found = _ranked(parsed, gathered, top, candidates, scored.spaces, explain=explain)
    return found if renewed else replace(found, pool=scored.rows)


class Options(TypedDict, total=False):
    """The keyword arguments of `rank`."""

    embed: Required[EmbedQuery]
    space: Required[str | None]
    now: Required[datetime]
    rules: Required[Rules]
    holds: Holds
    reworded: Reworded
    renewed: bool
    explain: bool


def rank_parts(index: Reader, query: SearchQuery, **options: Unpack[Options]) -> Ranked:
    """Return the results of `rank`. If the text asks several questions, they include the results of each question."""
    whole, pieces = rank(index, query, **options), parts(query.query)
    each = [rank(index, query.model_copy(update={"query": piece}), **options) for piece in pieces]
    return join_results(whole, each, pieces, query.limit) if pieces else whole


def join_results(whole: Ranked, each: Sequence[Ranked], pieces: Sequence[str], limit: int) -> Ranked:
    """Return the results of the whole text and of its questions as one list, each memory once, with its highest score.

    The best results of the questions come first; the others follow by their score. `each`: the results of each
    question; `pieces`: the questions.
    """
    best: dict[str, Hit] = {}
    for ranked in (*each, whole):
        for hit in ranked.results:
            known = best.get(hit.node_id)
            if known is None or known.score < hit.score:
                best[hit.node_id] = hit
    firsts = {ranked.results[0].node_id for ranked in each if ranked.results}
    ordered = sorted(best.values(), key=lambda hit: (hit.node_id not in firsts, -hit.score, hit.node_id))
    degraded = list(dict.fromkeys(part for ranked in (whole, *each) for part in ranked.degraded))
    trace = {**whole.trace, "parts": list(pieces)} if whole.trace else whole.trace
    pool = {node_id: row for ranked in (*each, whole) for node_id, row in ranked.pool.items()}
    return replace(whole, results=ordered[:limit], degraded=degraded, trace=trace, pool=pool)


def score_candidates(
    index: Reader, fused: Sequence[Fused], gathered: Gathered, parsed: ParsedQuery, exact: Exact
) -> tuple[list[Fused], list[CandidateRow], Evidence | None, Shaped]:
    """Return (candidates, rows, evidence, scores): the fused candidates that are still in the index, and their scores.

    The evidence is the similarity of their texts to the query; None without vectors. `rows` has the row of each
    candidate.
    """
    known = index.candidates([candidate.node_id for candidate in fused])
    present = [candidate for candidate in fused if candidate.node_id in known]  # the others were forgotten meanwhile
    rows = [known[candidate.node_id] for candidate in present]
    evidence = _evidence(index, rows, gathered)
    named = Named(exact, frozenset() if parsed.question else rare_words(index, parsed.topic))
    return present, rows, evidence, shape(rows, present, evidence, parsed, named)


def _scored(
    index: Reader, fused: list[Fused], gathered: Gathered, parsed: ParsedQuery, exact: Exact, *, explain: bool
) -> Scored:
    """Return the fused candidates with their scores, best first; those with equal scores newest first, then by id.

    Without `explain` only the first traces have numbers.
    """
    fused, rows, evidence, shaped = score_candidates(index, fused, gathered, parsed, exact)
    scores = shaped.scores.tolist()
    behind = _demotions(index, rows, scores)
    for at, share in behind.items():
        scores[at] = round(scores[at] * share, 6)
    order = sorted(range(len(rows)), key=lambda at: (-scores[at], -rows[at].created, rows[at].id))
    traces = []
    for place, at in enumerate(order):
        numbers = shaped.numbers(at) if explain or place < parsed.limit else {}
        if numbers and at in behind:
            numbers = {**numbers, "part": behind[at]}
        trace = Trace(rows[at].id, numbers, score=scores[at], before=float(shaped.before[at]))
        trace.words_rank, trace.bm25 = fused[at].words_rank, fused[at].bm25
        trace.meaning_rank = fused[at].meaning_rank
        traces.append(trace)
    spaces: dict[str | None, float] = {}
    for row, late in zip(rows, evidence.late.plain.tolist() if evidence is not None else (), strict=False):
        spaces[row.space] = max(spaces.get(row.space, 0.0), late)
    return Scored(traces, {row.id: row for row in rows}, spaces, shaped)


def _demotions(index: Reader, rows: Sequence[CandidateRow], scores: Sequence[float]) -> dict[int, float]:
    """Return {position in `rows`: factor} of the archived memories that must not rank above a memory made from them.

    The factor lowers the archived memory's score below that of the other one. Only pairs of two candidates count, and
    only if the archived memory's score is at least as high.
    """
    place = {row.id: at for at, row in enumerate(rows)}
    archived = [row.id for row in rows if row.tier is Tier.ARCHIVAL]
    found: dict[int, float] = {}
    for edge in index.edges_of(archived) if archived else ():
        part, whole = place.get(edge.target), place.get(edge.source)
        if edge.edge is not EdgeType.DERIVED_FROM or part is None or whole is None:
            continue
        only_part_archived = rows[part].tier is Tier.ARCHIVAL and rows[whole].tier is not Tier.ARCHIVAL
        if only_part_archived and scores[part] >= scores[whole] > 0:
            found[part] = max(found.get(part, 0.0), BEHIND * scores[whole] / scores[part])
    return found


def _evidence(index: Reader, rows: Sequence[CandidateRow], gathered: Gathered) -> Evidence | None:
    """Return the similarity of the query to each candidate by vectors; None if no vectors are available."""
    meaning = gathered.meaning
    if meaning is None or not rows:
        return None
    ids = [row.id for row in rows]
    stored = index.tokens(ids, meaning.focus, pieces=PIECES)
    if stored is None:  # the model was unloaded meanwhile
        return None
    late = max_sim(meaning.tokens, meaning.weights, ids, stored)
    cosines = index.similarities(np.stack([meaning.focus, meaning.vector]), ids)
    whole = cosines[:, 1].copy()
    for at, vectors in enumerate(map(index.vectors, ids)):
        if vectors is not None and len(vectors) > 1:
            mean = vectors.mean(axis=0)
            whole[at] = float(mean @ meaning.vector) / max(float(np.linalg.norm(mean)), 1e-9)
    return Evidence(cosines[:, 0], cosines[:, 1], whole.round(DECIMALS), late)


def _results(traces: list[Trace], parsed: ParsedQuery) -> list[Trace]:
    """Return the traces that become results: the best ones, at most the query's limit, whose score without the
    learned blend (`Trace.before`) is at least `MIN_SCORE`.

    In the other traces, set `dropped` to the reason.
    """
    results: list[Trace] = []
    for trace in traces:
        if trace.before < MIN_SCORE:
            trace.dropped = f"cut: a score below {MIN_SCORE} before the blend"
        elif len(results) >= parsed.limit:
            trace.dropped = f"cut: beyond the {parsed.limit} best"
        else:
            results.append(trace)
    return results


def _newest(index: Reader, parsed: ParsedQuery, room: int, results: Sequence[Trace]) -> list[Trace]:
    """Return traces of the newest notes that pass the query's filter and are not in `results`, at most `room`.

    Notes of a type that the query names come first.
    """
    if room <= 0:
        return []
    known = {trace.node_id for trace in results}
    named: list[str] = []
    if parsed.kinds and parsed.chosen.types is None:
        named = index.newest(replace(parsed.chosen, types=tuple(sorted(parsed.kinds))), room + len(known))
    every = dict.fromkeys([*named, *index.newest(parsed.chosen, room + len(known))])
    found = [node_id for node_id in every if node_id not in known][:room]
    score = TEMPORAL_SCORE
    return [Trace(node_id, {"temporal": score}, score=score, source="temporal") for node_id in found]


def _ranked(
    parsed: ParsedQuery,
    gathered: Gathered | None,
    results: Sequence[Trace],
    candidates: Sequence[Trace],
    spaces: Mapping[str | None, float],
    *,
    explain: bool,
) -> Ranked:
    """Return the results of a search as `Ranked`, with its trace if `explain`.

    `gathered`: None if the query asks only for a time. `candidates`: the traces of all candidates, also of those
    dropped.
    """
    degraded = list(gathered.degraded) if gathered else []
    hits = []
    for found in results:
        steps = found.to_dict() if explain else {}
        hits.append(Hit(found.node_id, found.score, found.source, steps, found.numbers, found.older_than))
    if not explain:
        return Ranked(results=hits, degraded=degraded, spaces=spaces)
    chosen = {found.node_id for found in results}
    period: dict[str, Any] | None = None
    if parsed.period is not None:
        bounds = {"after": parsed.period.after.isoformat(), "before": parsed.period.before.isoformat()}
        period = {"phrase": parsed.period.phrase, **bounds, "filters": parsed.chosen.created_after is not None}
    asked = {"question": parsed.question, "terms": list(parsed.terms), "space": parsed.space, "period": period}
    trace = {
        **asked,
        "best_space": max(spaces, key=spaces.__getitem__) or "global" if spaces else None,
        "only_time": parsed.only_time,
        "pool": gathered.pool if gathered else 0,
        "by_words": len(gathered.by_words) if gathered else 0,
        "by_meaning": len(gathered.by_meaning) if gathered else 0,
        "dropped": [found.to_dict() for found in candidates if found.node_id not in chosen],
    }
    return Ranked(results=hits, degraded=degraded, trace=trace, spaces=spaces)
