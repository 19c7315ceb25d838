"""Find memories that a newer memory replaces, put the newer one first, and mark the older one.

The best results are compared with each other and with similar candidates. Recorded knowledge takes precedence over a
comparison of the texts: an `evolved_from` edge, a `contradicts` edge, or a person's statement that both memories
hold.
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
"""Number of top results that are compared with other candidates: the ones likely to be read."""
PARTNERS = 3
"""Number of newer memories that each of these is compared with, nearest first."""
PAIRS = 12
"""Maximum number of pairs compared for one query, nearest first: comparing two texts for the first time is slow."""
NEAREST = 12
"""Neighbours fetched by vector for a memory that no query found."""
NEAR = 0.25
"""Minimum cosine of two memories that are compared."""
BEHIND = 0.999
"""Factor on the newer memory's score that gives the older one's: it is placed directly behind."""
BOTH = frozenset({EdgeType.CONTRADICTS, EdgeType.DERIVED_FROM})
"""Types of edge that say that both memories still hold."""

Holds = Callable[[str, str], bool]
"""Whether a person decided that both memories hold; the order of the two ids does not matter."""
Reworded = Callable[[str, str, float], bool]
"""Whether the memory created first (of older, newer, cosine) got its present wording by a later edit."""


def nobody(_older: str, _newer: str) -> bool:
    """Default for `holds`: no person decided anything."""
    return False


def never(_older: str, _newer: str, _cosine: float) -> bool:
    """Default for `reworded`: no memory was edited."""
    return False


def replaced(
    index: Searchable,
    ids: Sequence[str],
    pool: Mapping[str, Candidate],
    chosen: Filter,
    holds: Holds = nobody,
    reworded: Reworded = never,
) -> dict[str, str]:
    """Return `{older: newer}` for those of the memories `ids` that a newer one replaced, each with the newest such memory.

    `pool`: candidates that may be the newer memory; an edge may also name another memory that passes the filter.
    `holds`: what a person decided about two memories. `reworded`: whether an edit makes the memory created first the
    newer one.
    """
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
    """Return pairs (older, newer) that replaced the same words of a third memory by different words.

    The newer one of such a pair replaced the other, even if a comparison of their own texts does not show it.
    """
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
    """Return `replaced` for memories that no query found: each is compared with its nearest neighbours that pass the filter."""
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
    """Return pairs (older, newer, cosine) that are near enough to compare, nearest first, at most `PAIRS`."""
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
    """Whether a memory of the space `newer` can replace one of the space `older`: the same space, or a global newer memory.

    A memory of one project cannot replace a global memory.
    """
    return newer in (older, None)


def _last(older: str, found: Mapping[str, str]) -> str:
    """Return the end of a chain of replacements."""
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
    """Return the results with each newer memory before the one it replaced; it is inserted if it was not a result.

    `known`: traces of all candidates. `numbers`: returns the parts of a candidate's score.
    """
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
    """Return at most `limit` traces. Contradictions are kept in place of the last other results."""
    room = limit - sum(trace.source == "conflict" for trace in traces)
    kept: list[Trace] = []
    for trace in traces:
        if trace.source == "conflict" or room > 0:
            kept.append(trace)
            room -= trace.source != "conflict"
    return kept[:limit]


def _lifted(newer: str, older: Trace, known: Mapping[str, Trace], numbers: Callable[[str], dict[str, float]]) -> Trace:
    """Return the newer memory's trace with the older memory's score."""
    trace = known.get(newer) or Trace(newer, {}, source="activated")
    trace.numbers = {**(trace.numbers or numbers(newer)), "renewed": older.score}
    trace.path = [*trace.path, {"replaces": older.node_id}]
    trace.score, trace.dropped = older.score, None
    return trace
