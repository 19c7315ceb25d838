"""Search, as a sentence: hear → gather → fuse → shape → activate → renew → cut."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from ormahd.index.rows import Candidate
from ormahd.model.node import EdgeType, Found, SearchQuery, Tier
from ormahd.search.activate import activate, seat
from ormahd.search.exact import Exact, look, rare_words
from ormahd.search.fuse import Fused, fuse
from ormahd.search.gather import MIN_POOL, EmbedQuery, Gathered, Searchable, gather, max_sim
from ormahd.search.hear import Heard, hear
from ormahd.search.renew import FIRST, Holds, Reworded, never, nobody, renew, replaced
from ormahd.search.shape import Evidence, Named, shape
from ormahd.search.trace import Trace
from ormahd.settings import ActivationSettings, SearchSettings, SpaceSettings

MIN_SCORE = 0.1
"""Score below which a result is dropped (the seeds')."""
COMPARED = 100
"""Fused candidates whose texts are compared token by token. 200 hold 2 points more of the right ones and rank none higher."""
BEHIND = 0.999
"""Of the score of a memory that was made of it, what an archived one keeps at most: right behind it."""
TEMPORAL_SCORE = 0.001
"""Of a note that is there for its time alone: behind everything that was found by its text (REFERENCE 4.3)."""

PIECES = 2
"""Of a long note, the pieces whose tokens are compared: those nearest to the question. All of them found no more and
took twice as long; one alone lost three points of mean reciprocal rank on notes of 200 to 800 words."""


class Hit(Struct, frozen=True):
    """One result."""

    node_id: str
    score: float
    source: Found
    trace: dict[str, Any]
    numbers: Mapping[str, float] = field(default_factory=dict)
    """What its score was made of, by name (`Trace.numbers`); cosine and late interaction among them are absolute: how near the
    text is, whatever else was found."""
    older_than: str | None = None
    """The newer memory that replaced this one, and stands before it."""


class Ranked(Struct, frozen=True):
    results: list[Hit]
    degraded: list[str] = field(default_factory=list)
    trace: dict[str, Any] = field(default_factory=dict)
    """What was heard and gathered, and every candidate that is no result with the stage that dropped it."""
    spaces: Mapping[str | None, float] = field(default_factory=dict)
    """Per space (None: global) the largest unweighted late interaction among all candidates: where the question is at home,
    whatever space the caller works in."""


class Rules(Struct, frozen=True):
    """The settings that ranking follows."""

    search: SearchSettings = field(default_factory=SearchSettings)
    spaces: SpaceSettings = field(default_factory=SpaceSettings)
    activation: ActivationSettings = field(default_factory=ActivationSettings)
    min_pool: int = MIN_POOL
    """Candidates by words and by meaning each, at least."""
    compared: int = COMPARED
    """Fused candidates whose texts are compared token by token, at least."""


def rank(
    index: Searchable,
    query: SearchQuery,
    *,
    embed: EmbedQuery,
    space: str | None,
    now: datetime,
    rules: Rules,
    holds: Holds = nobody,
    reworded: Reworded = never,
    explain: bool = True,
) -> Ranked:
    """The memories that answer `query`, best first; at most `query.limit`.

    `space`: where the caller works, favoured but not required. `now`: aware, UTC. Equal inputs give equal results.
    `holds`, `reworded`: see `renew.replaced`. Without `explain` the traces stay empty, which saves a millisecond.
    """
    heard = hear(query, space=space, now=now, settings=rules.search)
    if heard.only_time:
        newest = _newest(index, heard, heard.limit, ())
        return _answer(heard, None, newest, [], {}, explain=explain)
    gathered = gather(index, heard, embed, rules.search, rules.min_pool)
    keep = max(rules.compared, 2 * heard.limit)
    exact = look(index, heard)
    fused = fuse(gathered, question=heard.question, keep=keep, settings=rules.search, exact=exact.boost.keys())
    traces, spaces, rows, numbers = _shaped(index, fused, gathered, heard, exact, rules, explain=explain)
    results = _cut(traces, heard)
    late = _newest(index, heard, heard.limit - len(results), results) if heard.windowed else []
    activated = activate(index, results, heard.chosen, rules.activation)
    merged = sorted([*results, *activated], key=lambda one: -one.score) + late
    shown = seat(merged, heard.limit)
    first = [trace.node_id for trace in shown[:FIRST]]
    rows |= index.candidates([node_id for node_id in first if node_id not in rows])
    marks = replaced(index, first, rows, heard.chosen, holds, reworded)
    shown = renew(shown, marks, {trace.node_id: trace for trace in [*traces, *activated]}, heard.limit, numbers)
    there = {trace.node_id for trace in shown}
    for trace in merged:
        if trace.node_id not in there:
            trace.dropped = f"cut: {trace.source} beyond the {heard.limit} best"
    return _answer(heard, gathered, shown, [*traces, *activated], spaces, explain=explain)


def _shaped(
    index: Searchable,
    fused: list[Fused],
    gathered: Gathered,
    heard: Heard,
    exact: Exact,
    rules: Rules,
    *,
    explain: bool,
) -> tuple[list[Trace], dict[str | None, float], dict[str, Candidate], Callable[[str], dict[str, float]]]:
    """Candidates with their scores, best first; equal ones newest first, then by id. Numbers only where somebody looks.
    The best late interaction in each space, the candidates by id, and the numbers of each."""
    known = index.candidates([one.node_id for one in fused])
    fused = [one for one in fused if one.node_id in known]  # the others were forgotten a moment ago
    rows = [known[one.node_id] for one in fused]
    evidence = _evidence(index, rows, gathered)
    named = Named(exact, frozenset() if heard.question else rare_words(index, heard.topic))
    shaped = shape(rows, fused, evidence, heard, named, rules.search, rules.spaces)
    scores = shaped.scores.tolist()
    behind = _behind(index, rows, scores)
    for at, share in behind.items():
        scores[at] = round(scores[at] * share, 6)
    order = sorted(range(len(rows)), key=lambda at: (-scores[at], -rows[at].created, rows[at].id))
    traces = []
    for place, at in enumerate(order):
        numbers = shaped.numbers(at) if explain or place < heard.limit else {}
        if numbers and at in behind:
            numbers = {**numbers, "part": behind[at]}
        one = fused[at]
        traces.append(Trace(rows[at].id, numbers, one.words_rank, one.bm25, one.meaning_rank, scores[at]))
    place_of = {row.id: at for at, row in enumerate(rows)}

    def numbers_of(node_id: str) -> dict[str, float]:
        return shaped.numbers(place_of[node_id]) if node_id in place_of else {}

    return traces, _by_space(rows, evidence), {row.id: row for row in rows}, numbers_of


def _behind(index: Searchable, rows: Sequence[Candidate], scores: Sequence[float]) -> dict[int, float]:
    """What was archived when another memory was made of it stands behind that one, where both are found: by its place in
    `rows`, the share of its score that is left."""
    place = {row.id: at for at, row in enumerate(rows)}
    archived = [row.id for row in rows if row.tier is Tier.ARCHIVAL]
    found: dict[int, float] = {}
    for edge in index.edges_of(archived) if archived else ():
        part, whole = place.get(edge.target), place.get(edge.source)
        if edge.edge is not EdgeType.DERIVED_FROM or part is None or whole is None:
            continue
        if (
            rows[part].tier is Tier.ARCHIVAL
            and rows[whole].tier is not Tier.ARCHIVAL
            and scores[part] >= scores[whole] > 0
        ):
            found[part] = max(found.get(part, 0.0), BEHIND * scores[whole] / scores[part])
    return found


def _by_space(rows: Sequence[Candidate], evidence: Evidence | None) -> dict[str | None, float]:
    best: dict[str | None, float] = {}
    for row, late in zip(rows, evidence.late.plain.tolist() if evidence is not None else (), strict=False):
        best[row.space] = max(best.get(row.space, 0.0), late)
    return best


def _evidence(index: Searchable, rows: Sequence[Candidate], gathered: Gathered) -> Evidence | None:
    meaning = gathered.meaning
    if meaning is None or not rows:
        return None
    ids = [row.id for row in rows]
    stored = index.tokens(ids, meaning.focus, pieces=PIECES)
    if stored is None:  # the model was taken away a moment ago
        return None
    late = max_sim(meaning.tokens, meaning.weights, ids, stored)
    cosines = index.similarities(np.stack([meaning.focus, meaning.vector]), ids)
    return Evidence(cosines[:, 0], cosines[:, 1], late)


def _cut(traces: list[Trace], heard: Heard) -> list[Trace]:
    """The best `limit` that are good enough; the others get the reason why not."""
    results: list[Trace] = []
    for trace in traces:
        if trace.score < MIN_SCORE:
            trace.dropped = f"cut: a score below {MIN_SCORE}"
        elif len(results) >= heard.limit:
            trace.dropped = f"cut: beyond the {heard.limit} best"
        else:
            results.append(trace)
    return results


def _newest(index: Searchable, heard: Heard, room: int, results: Sequence[Trace]) -> list[Trace]:
    """Newest notes of the window, for the room that is left: a question for a time is answered by a time. Those of a type that it
    names come first."""
    if room <= 0:
        return []
    there = {trace.node_id for trace in results}
    wished = (
        replace(heard.chosen, types=tuple(sorted(heard.kinds))) if heard.kinds and heard.chosen.types is None else None
    )
    named = index.newest(wished, room + len(there)) if wished is not None else []
    every = dict.fromkeys([*named, *index.newest(heard.chosen, room + len(there))])
    found = [one for one in every if one not in there][:room]
    return [Trace(one, {"temporal": TEMPORAL_SCORE}, score=TEMPORAL_SCORE, source="temporal") for one in found]


def _answer(
    heard: Heard,
    gathered: Gathered | None,
    results: Sequence[Trace],
    candidates: Sequence[Trace],
    spaces: Mapping[str | None, float],
    *,
    explain: bool,
) -> Ranked:
    degraded = list(gathered.degraded) if gathered else []
    if not explain:
        hits = [Hit(one.node_id, one.score, one.source, {}, one.numbers, one.older_than) for one in results]
        return Ranked(hits, degraded, {}, spaces)
    chosen = {trace.node_id for trace in results}
    hits = [Hit(one.node_id, one.score, one.source, one.shown(), one.numbers, one.older_than) for one in results]
    return Ranked(hits, degraded, {
        "question": heard.question, "terms": list(heard.terms), "space": heard.space,
        "period": None if heard.period is None else {
            "phrase": heard.period.phrase, "after": heard.period.after.isoformat(), "before": heard.period.before.isoformat(),
            "filters": heard.chosen.created_after is not None,
        },
        "best_space": max(spaces, key=spaces.__getitem__) or "global" if spaces else None,
        "only_time": heard.only_time,
        "pool": gathered.pool if gathered else 0,
        "by_words": len(gathered.by_words) if gathered else 0,
        "by_meaning": len(gathered.by_meaning) if gathered else 0,
        "dropped": [trace.shown() for trace in candidates if trace.node_id not in chosen],
    }, spaces)  # fmt: skip
