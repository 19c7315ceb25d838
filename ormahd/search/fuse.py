"""Fuse two ranked lists into one by weighted reciprocal rank fusion, with scores normalised to 0..1."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from msgspec import Struct

from ormahd.search.gather import Gathered
from ormahd.settings import SearchSettings

VECTOR_WEIGHT = 0.6
"""Weight of the vector list. Only its ratio to `search.fts_weight` matters."""
MIN_SPREAD = 0.05
"""Minimum spread of fused scores for min-max normalisation, as a share of the largest: below it, noise would be amplified."""


class Fused(Struct, frozen=True):
    """A candidate after fusion. Ranks count from 1; None: the candidate is not on that list."""

    node_id: str
    words_rank: int | None
    bm25: float | None
    meaning_rank: int | None
    rrf: float
    rrf_norm: float
    """`rrf` min-max normalised over the candidates, or divided by the largest if the scores hardly differ."""
    rrf_share: float
    """`rrf` divided by the largest. Used for a candidate without vectors."""


def fuse(
    gathered: Gathered, *, question: bool, keep: int, settings: SearchSettings, exact: Collection[str] = ()
) -> list[Fused]:
    """Return the best `keep` candidates of both lists, by the sum of weight / (k + rank).

    Candidates in `exact` are kept whatever their rank.
    """
    words_weight, meaning_weight = settings.fts_weight, VECTOR_WEIGHT
    if question:
        words_weight *= settings.question_fts_weight_scale
        meaning_weight *= settings.question_vector_weight_scale
    words_rank = {node_id: rank for rank, (node_id, _) in enumerate(gathered.by_words, 1)}
    meaning_rank = {node_id: rank for rank, (node_id, _) in enumerate(gathered.by_meaning, 1)}
    bm25 = dict(gathered.by_words)
    score: dict[str, float] = {}
    for weight, ranks in ((words_weight, words_rank), (meaning_weight, meaning_rank)):
        for node_id, rank in ranks.items():
            score[node_id] = score.get(node_id, 0.0) + weight / (settings.rrf_k + rank)
    for node_id in exact:
        score.setdefault(node_id, 0.0)
    best = sorted(score, key=lambda one: (-score[one], one))
    best = [*best[:keep], *(node_id for node_id in best[keep:] if node_id in exact)]
    values = [score[node_id] for node_id in best]
    return [
        Fused(node_id, words_rank.get(node_id), bm25.get(node_id), meaning_rank.get(node_id), value, norm, share)
        for node_id, value, norm, share in zip(
            best, values, normalise(values, MIN_SPREAD), normalise(values, 1.0), strict=True
        )
    ]


def normalise(values: Sequence[float], min_spread: float) -> list[float]:
    """Scale to 0..1: min-max if the spread exceeds `min_spread` of the largest value, otherwise division by the largest."""
    high, low = max(values, default=0.0), min(values, default=0.0)
    if high <= 0.0:
        return [0.0 for _ in values]
    if high - low > min_spread * high:
        return [(value - low) / (high - low) for value in values]
    return [value / high for value in values]
