"""Combine the candidates of a search.

`fuse` combines the lists found by words and by vectors into one, by weighted reciprocal rank fusion, with scores
from 0 to 1. `activate` adds memories that are connected by edges to the best results, the seeds (spreading
activation). `place_conflicts` chooses which of them are shown.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from msgspec import Struct

from ormahd.index.reader import Reader
from ormahd.index.rows import Filter
from ormahd.model.node import EdgeType, Found
from ormahd.search.gather import Gathered, Trace

VECTOR_WEIGHT: Final = 0.6
WORDS_WEIGHT: Final = 0.4
"""Weights of the lists found by vectors and by words. Only their ratio matters. With less weight for words, right
answers to questions are no longer among the candidates."""
RANK: Final = 60
"""Constant of reciprocal rank fusion, the `k` of weight / (k + rank)."""
MIN_SPREAD: Final = 0.05
"""Minimum difference of the largest and the smallest fused score, as a share of the largest, for min-max
normalisation. Below it, min-max normalisation would amplify noise."""


EXACT: Final = 0.3
"""Minimum `rrf_share` of a candidate with an exact term of the query (`exact.py`), if nothing was found by vectors."""


class Fused(Struct, frozen=True):
    """A candidate after fusion. `rrf`: its fused score. `words_rank`, `meaning_rank`: its rank, from 1, among the
    candidates found by words and by vectors; None: it is not among them."""

    node_id: str
    words_rank: int | None
    bm25: float | None
    meaning_rank: int | None
    rrf: float
    rrf_norm: float
    """`rrf` min-max normalised over the candidates, or divided by the largest if the scores hardly differ."""
    rrf_share: float
    """`rrf` divided by the largest; without a vector list, bm25 divided by the largest bm25. Used for a
    candidate without vectors."""


def fuse(gathered: Gathered, *, keep: int, exact: Collection[str] = ()) -> list[Fused]:
    """Return the best `keep` candidates found by words or by vectors, best first, and those in `exact` whatever their
    rank.

    The score of a candidate is the sum of weight / (`RANK` + its rank) over both lists.
    """
    words_rank = {node_id: rank for rank, (node_id, _) in enumerate(gathered.by_words, 1)}
    meaning_rank = {node_id: rank for rank, (node_id, _) in enumerate(gathered.by_meaning, 1)}
    bm25 = dict(gathered.by_words)
    score: dict[str, float] = {}
    for weight, ranks in ((WORDS_WEIGHT, words_rank), (VECTOR_WEIGHT, meaning_rank)):
        for node_id, rank in ranks.items():
            score[node_id] = score.get(node_id, 0.0) + weight / (RANK + rank)
    for node_id in exact:
        score.setdefault(node_id, 0.0)
    best = sorted(score, key=lambda node_id: (-score[node_id], node_id))
    best = [*best[:keep], *(node_id for node_id in best[keep:] if node_id in exact)]
    values = [score[node_id] for node_id in best]
    shares = normalise(values, 1.0)
    if not meaning_rank:  # the words alone decide, and by how much
        shares = normalise([bm25.get(node_id, 0.0) for node_id in best], 1.0)
        shares = [max(share, EXACT) if key in exact else share for key, share in zip(best, shares, strict=True)]
    return [
        Fused(node_id, words_rank.get(node_id), bm25.get(node_id), meaning_rank.get(node_id), value, norm, share)
        for node_id, value, norm, share in zip(best, values, normalise(values, MIN_SPREAD), shares, strict=True)
    ]


def normalise(values: Sequence[float], min_spread: float) -> list[float]:
    """Return `values` scaled to 0..1: min-max if the spread exceeds `min_spread` of the largest value, otherwise
    division by the largest."""
    high, low = max(values, default=0.0), min(values, default=0.0)
    if high <= 0.0:
        return [0.0 for _ in values]
    if high - low > min_spread * high:
        return [(value - low) / (high - low) for value in values]
    return [value / high for value in values]


DECAY: Final = 0.5
"""Share of the activation that is passed on along an edge."""
SEEDS: Final = 5
"""Number of best results from which activation spreads."""
MAX_PER_SEED: Final = 3
"""Largest number of neighbours that a seed adds."""
CONFLICTS_SHARE: Final = 5
"""One result in this many may be a memory that contradicts another result."""
MIN_LIMIT: Final = 2
"""Minimum number of requested results: with fewer, no place is reserved for a contradiction."""


def activate(index: Reader, results: Sequence[Trace], chosen: Filter, seeds: int = SEEDS) -> list[Trace]:
    """Return memories one edge away from the best results, in either direction, that are no results themselves; best
    first.

    Score = score of the seed × weight of the edge × factor of the edge's type × decay. A memory reached by several
    edges keeps the best score. Each seed adds at most `MAX_PER_SEED` memories. The filter and expiry apply as for
    direct results.
    """
    best = list(results[:seeds])
    if not best:
        return []
    direct = {trace.node_id for trace in results}
    by_seed: dict[str, list[Trace]] = {seed.node_id: [] for seed in best}
    scores = {seed.node_id: seed.score for seed in best}
    for edge in index.edges_of([seed.node_id for seed in best]):
        for seed_id, other in ((edge.source, edge.target), (edge.target, edge.source)):
            if seed_id not in by_seed or other in direct or other == seed_id:
                continue
            numbers = {"activation": 1.0, "seed": scores[seed_id], "weight": edge.weight}
            numbers |= {"factor": edge.edge.activation_factor, "decay": DECAY}
            source: Found = "conflict" if edge.edge is EdgeType.CONTRADICTS else "activated"
            trace = Trace(other, numbers, source=source)
            trace.score = trace.recompute()
            trace.path = [{"seed": seed_id, "edge": edge.edge.value, "out": edge.source == seed_id}]
            by_seed[seed_id].append(trace)
    return _best_traces(by_seed.values(), index, chosen)


def _best_traces(found: Collection[list[Trace]], index: Reader, chosen: Filter) -> list[Trace]:
    """Return the traces that pass the filter, best first, each memory once: at most `MAX_PER_SEED` of each list in
    `found`.

    `found`: for each seed, the traces of its neighbours.
    """
    passing = set(index.filter_ids(sorted({trace.node_id for traces in found for trace in traces}), chosen))
    best: dict[str, Trace] = {}
    for traces in found:
        per_seed: dict[str, Trace] = {}
        for trace in sorted(traces, key=lambda trace: (-trace.score, trace.node_id)):
            if trace.node_id in passing:
                per_seed.setdefault(trace.node_id, trace)
        for trace in list(per_seed.values())[:MAX_PER_SEED]:
            known = best.get(trace.node_id)
            if known is None or trace.score > known.score:
                best[trace.node_id] = trace
    return sorted(best.values(), key=lambda trace: (-trace.score, trace.node_id))


def place_conflicts(merged: Sequence[Trace], limit: int) -> list[Trace]:
    """Return the `limit` best of `merged` (best first), with places reserved for memories that contradict one of them.

    Thus the reader learns of contradictions even if there are many results. At most one place in `CONFLICTS_SHARE` is
    reserved. A contradicting memory replaces the last result that was found in another way.
    """
    top = list(merged[:limit])
    top_ids = {trace.node_id for trace in top}
    spare = max(1, limit // CONFLICTS_SHARE) - sum(trace.source == "conflict" for trace in top)
    for trace in merged[limit:]:
        if spare <= 0 or limit < MIN_LIMIT:
            break
        if trace.source == "conflict" and trace.path[0]["seed"] in top_ids:
            seed = trace.path[0]["seed"]
            others = [other for other in top if other.source != "conflict" and other.node_id != seed]
            if not others:
                break
            last = others[-1]
            top.remove(last)
            top_ids.discard(last.node_id)
            top.append(trace)
            spare -= 1
    return top
