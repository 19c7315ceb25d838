"""Renew: of two memories on one thing the newer comes first, and the older one is marked.

Ranking compares each result with a question; here the best results are compared with each other, and with what is near them among
all that was gathered. What is known goes before what the words say: an `evolved_from` edge, a contradiction that is drawn, a
person's word that both hold.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np

from ormahd.index.rows import Candidate, Filter
from ormahd.model.node import EdgeType
from ormahd.search.gather import Searchable
from ormahd.search.trace import Trace
from ormahd.text.standing import Compared

FIRST = 10
"""Results that are compared with others: those that somebody reads."""
PARTNERS = 3
"""Younger memories that each of those is compared with: the nearest."""
PAIRS = 12
"""Pairs of one question that are compared, the nearest ones: reading two texts for the first time takes a millisecond."""
NEAREST = 12
"""Neighbours that a memory which no question brought is compared with."""
NEAR = 0.25
"""Least cosine of two that are compared."""
BEHIND = 0.999
"""Of the newer memory's score, what the older one keeps: right behind it."""
BOTH = frozenset({EdgeType.CONTRADICTS, EdgeType.DERIVED_FROM})
"""Edges between two memories that both stand."""

Holds = Callable[[str, str], bool]
"""Whether somebody decided that both of two memories hold, in whichever order they are named."""
Reworded = Callable[[str, str, float], bool]
"""Whether the memory that was made first (of older, newer, cosine) was edited since to say what it says."""


def nobody(_older: str, _newer: str) -> bool:
    """Nothing was decided."""
    return False


def never(_older: str, _newer: str, _cosine: float) -> bool:
    """Nothing was edited."""
    return False


def replaced(
    index: Searchable,
    ids: Sequence[str],
    pool: Mapping[str, Candidate],
    chosen: Filter,
    holds: Holds = nobody,
    reworded: Reworded = never,
) -> dict[str, str]:
    """Of these memories those that a newer one replaced, each with the newest such: {older: newer}. `pool`: candidates that
    may be the newer one; what an edge names may also be another one that the filter lets through. `holds`: what somebody decided
    on two memories. `reworded`: an edit makes a memory the newer one."""
    edges = index.edges_of(list(ids))
    apart = {frozenset((edge.source, edge.target)) for edge in edges if edge.edge in BOTH}
    found = _by_edges(index, ids, {e.target: e.source for e in edges if e.edge is EdgeType.EVOLVED_FROM}, chosen)
    pairs = [pair for pair in _near(index, ids, pool) if frozenset(pair[:2]) not in apart and pair[0] not in found]
    told = {two: said for two, said in index.replacing(pairs).items() if not holds(*two)}
    cosines = {pair[:2]: pair[2] for pair in pairs}
    edited = [two for two in told if reworded(*two, cosines[two])]
    turned = index.replacing([(newer, older, cosines[older, newer]) for older, newer in edited])
    stands = {two: said for two, said in told.items() if two not in edited}
    between = {two for two in _between(stands, ids, pool) if frozenset(two) not in apart and not holds(*two)}
    for older, newer in sorted({*stands, *between}, key=lambda two: (pool[two[1]].created, two[1])):
        found[older] = newer  # the newest is the last
    for older, newer in turned:  # an edit is newer than both were when they were made
        if older in ids:
            found[older] = newer
    return {older: _last(older, found) for older in found}


def _between(
    told: Mapping[tuple[str, str], Compared], ids: Collection[str], pool: Mapping[str, Candidate]
) -> set[tuple[str, str]]:
    """Pairs (older, newer) that both replaced the same words of a third memory, by different ones: of these too one replaced the
    other, also where their own words leave that open."""
    found = set()
    for (first, middle), said in told.items():
        for (again, last), other in told.items():
            one_matter = first == again and said.subject == other.subject and said.old == other.old != ""
            differ = "" not in {said.new, other.new} and said.new.casefold() != other.new.casefold()
            later = middle in ids and pool[middle].created < pool[last].created
            if one_matter and differ and later and _speaks_for(pool[middle].space, pool[last].space):
                found.add((middle, last))
    return found


def replaced_of_all(
    index: Searchable, ids: Sequence[str], chosen: Filter, holds: Holds = nobody, reworded: Reworded = never
) -> dict[str, str]:
    """As `replaced`, of memories that no question brought: each is compared with its nearest of all that the filter lets through."""
    found: dict[str, str] = {}
    for node_id in ids:
        vectors = index.vectors(node_id)
        near = [] if vectors is None else index.search_vectors(vectors[0], NEAREST, chosen)
        some = list(dict.fromkeys([node_id, *(other for other, _ in near)]))
        marks = replaced(index, some[: PARTNERS + 1], index.candidates(some), chosen, holds, reworded)
        if node_id in marks:
            found[node_id] = marks[node_id]
    return found


def _by_edges(index: Searchable, ids: Sequence[str], known: Mapping[str, str], chosen: Filter) -> dict[str, str]:
    wanted = {older: newer for older, newer in known.items() if older in ids}
    there = set(index.keep(sorted(set(wanted.values())), chosen)) if wanted else set()
    return {older: newer for older, newer in wanted.items() if newer in there}


def _near(index: Searchable, ids: Sequence[str], pool: Mapping[str, Candidate]) -> list[tuple[str, str, float]]:
    """Pairs (older, newer, cosine) worth a comparison."""
    some = [
        (node_id, vectors[0]) for node_id in ids if node_id in pool and (vectors := index.vectors(node_id)) is not None
    ]
    if not some:
        return []
    others = list(pool.values())
    cosines = index.similarities(np.stack([vector for _, vector in some]), [one.id for one in others])
    found: list[tuple[str, str, float]] = []
    for column, (node_id, _) in enumerate(some):
        older = pool[node_id]
        near = [
            (float(cosines[at, column]), other.id) for at, other in enumerate(others)
            if cosines[at, column] >= NEAR and other.created > older.created and _speaks_for(older.space, other.space)
        ]  # fmt: skip
        near.sort(key=lambda one: (-one[0], one[1]))
        found += [(node_id, newer, cosine) for cosine, newer in near[:PARTNERS]]
    return sorted(found, key=lambda pair: (-pair[2], pair[:2]))[:PAIRS]


def _speaks_for(older: str | None, newer: str | None) -> bool:
    """Whether a memory of the space `newer` can replace one of the space `older`: what holds in one project need not hold
    everywhere, and its words belong to that project alone."""
    return newer in (older, None)


def _last(older: str, found: Mapping[str, str]) -> str:
    """The end of a chain of replacements."""
    met = {older}
    while (newer := found[older]) in found and newer not in met:
        met.add(newer)
        older = newer
    return newer


def renew(
    shown: Sequence[Trace],
    marks: Mapping[str, str],
    known: Mapping[str, Trace],
    limit: int,
    numbers: Callable[[str], dict[str, float]],
) -> list[Trace]:
    """The results with each newer memory before what it replaced, brought in where it was none. `known`: traces of what was
    gathered; `numbers`: what a candidate's score was made of."""
    found: dict[str, Trace] = {}
    for trace in shown:
        if trace.node_id in found:
            continue
        newer = marks.get(trace.node_id)
        if newer is not None:
            trace.older_than = newer
            if newer not in found:
                found[newer] = _lifted(newer, trace, known, numbers)
                trace.numbers = {**trace.numbers, "renewed": round(trace.score * BEHIND, 6)}
                trace.score = trace.recompute()
        found[trace.node_id] = trace
    return _cut(list(found.values()), limit)


def _cut(traces: list[Trace], limit: int) -> list[Trace]:
    """The first of them, and what contradicts one of them in the place of the last."""
    room = limit - sum(trace.source == "conflict" for trace in traces)
    kept: list[Trace] = []
    for trace in traces:
        if trace.source == "conflict" or room > 0:
            kept.append(trace)
            room -= trace.source != "conflict"
    return kept[:limit]


def _lifted(newer: str, older: Trace, known: Mapping[str, Trace], numbers: Callable[[str], dict[str, float]]) -> Trace:
    """The newer memory in the older one's place, with its score."""
    trace = known.get(newer) or Trace(newer, {}, source="activated")
    trace.numbers = {**(trace.numbers or numbers(newer)), "renewed": older.score}
    trace.path = [*trace.path, {"replaces": older.node_id}]
    trace.score, trace.dropped = older.score, None
    return trace
