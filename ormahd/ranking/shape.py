"""Shape: what the texts say against each other becomes a score in 0..1, then what is known of each note bends it.

The order is the seeds': similarity, blend with the fused rank, title, confidence, tier, recency, access, space.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from ormahd.core.node import Tier
from ormahd.core.words import words
from ormahd.index.rows import NodeRow
from ormahd.ranking.fuse import Fused
from ormahd.ranking.hear import Heard
from ormahd.ranking.late import Late
from ormahd.ranking.trace import Trace
from ormahd.settings import SearchSettings, SpaceSettings

Float = NDArray[np.float64]

FULL_ACCESS = 20
"""Accesses at which the access share is full (seeds: log1p(count) / log1p(20))."""
CHANCE_LIMIT = 0.9
"""However long a note is, this much of a perfect match stays distinguishable."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the vectors say of the candidates, in their order. NaN: the note has no vectors yet."""

    focus: Float
    cosine: Float
    """With the question as the model pools it: the absolute measure that a gate can use."""
    late: Late

    @classmethod
    def of(cls, ids: Sequence[str], focus: Mapping[str, float], cosine: Mapping[str, float], late: Late) -> Evidence:
        """From what the index answers, by id."""
        return cls(
            np.array([focus.get(one, math.nan) for one in ids], np.float64),
            np.array([cosine.get(one, math.nan) for one in ids], np.float64),
            late,
        )


def similarity(rows: Sequence[NodeRow], fused: Sequence[Fused], evidence: Evidence | None, settings: SearchSettings) -> list[dict[str, float]]:  # fmt: skip
    """How well each note answers, judged by several witnesses; {} where there are no vectors to judge by.

    Late interaction, corrected for what a note of that length reaches by chance; the cosine with the focused question;
    the words in common. A note of few tokens says little, so all of it counts less. Memories that were stored within
    half an hour in the same space come from one conversation: the best of them vouches for the others.
    """
    if evidence is None or not rows:
        return [{} for _ in rows]
    lengths = evidence.late.lengths.astype(np.float64)
    size = np.array([len(row.content) + len(row.title or "") for row in rows], np.float64)
    chance = settings.length_chance * np.log(np.maximum(size / settings.length_penalty_threshold, 1.0))
    chance = np.minimum(chance, CHANCE_LIMIT)
    raw = (evidence.late.rare.astype(np.float64) + evidence.late.plain) / 2
    late = np.clip((raw - chance) / (1.0 - chance), 0.0, 1.0)
    bm25 = np.array([one.bm25 or 0.0 for one in fused], np.float64)
    shared = bm25 / (bm25 + settings.words_half)
    focus = np.clip(np.nan_to_num(evidence.focus), 0.0, 1.0)
    weights = np.stack([
        np.where(lengths > 0, settings.late_weight, 0.0),
        np.full(len(rows), settings.cosine_weight),
        np.full(len(rows), settings.words_weight),
    ])  # fmt: skip
    brevity = np.where(lengths > 0, lengths / (lengths + settings.brevity_tokens), 1.0)
    total = np.maximum(weights.sum(axis=0), 1e-9)
    own = (weights * np.stack([late, focus, shared])).sum(axis=0) / total * brevity
    known = ~np.isnan(evidence.focus)
    moment = best_of_moment(rows, np.where(known, own, 0.0), settings.moment_minutes * 60.0)
    judged = (own + settings.moment_weight * moment) / (1.0 + settings.moment_weight)
    columns = {
        "late_rare": evidence.late.rare, "late_plain": evidence.late.plain, "chance": chance, "late": late,
        "late_weight": weights[0], "focus": focus, "words": shared, "brevity": brevity, "own": own, "moment": moment,
        "similarity": judged, "cosine": np.nan_to_num(evidence.cosine),
    }  # fmt: skip
    return [
        {name: float(values[at]) for name, values in columns.items()} if known[at] else {} for at in range(len(rows))
    ]


def best_of_moment(rows: Sequence[NodeRow], own: Float, seconds: float) -> Float:
    """Per note the best `own` among the candidates of its space that were created within `seconds` of it, itself too.

    Being included, a note never loses by it: alone, or in a crowd that was imported at once, the order stays.
    """
    times = np.array([row.created.timestamp() for row in rows])
    spaces = {space: number for number, space in enumerate(dict.fromkeys(row.space for row in rows))}
    of = np.array([spaces[row.space] for row in rows])
    near = (np.abs(times[:, None] - times[None, :]) <= seconds) & (of[:, None] == of[None, :])
    return np.asarray(np.where(near, own[None, :], -1.0).max(axis=1), np.float64)


def shape(
    rows: Sequence[NodeRow],
    fused: Sequence[Fused],
    judged: Sequence[dict[str, float]],
    heard: Heard,
    settings: SearchSettings,
    spaces: SpaceSettings,
) -> list[Trace]:
    """Each candidate's score with every number that went into it; `Trace.recompute` adds them up again."""
    blend = settings.question_similarity_blend_weight if heard.question else settings.similarity_blend_weight
    traces = []
    for row, one, numbers in zip(rows, fused, judged, strict=True):
        factors = {
            "rrf": one.rrf,
            "rrf_norm": one.rrf_norm,
            "rrf_share": one.rrf_share,
            "blend": blend,
            "dampening": settings.fts_only_dampening,
            "title": 0.0 if heard.question else settings.title_match_boost * title_overlap(heard.topic, row.title),
            "confidence": 0.4 + 0.6 * row.confidence,
            "tier": 1.0 + _tier(row.tier, settings),
            "recency": settings.recency_boost * _recency(row.last_accessed, heard.now, settings),
            "access": settings.access_boost * min(1.0, _access(row.strength.access_count)),
            "period": 1.0 + (settings.period_boost if _within(row.created, heard) else 0.0),
            "space": space_factor(row.space, heard.space, spaces),
        }
        trace = Trace(row.id, {**numbers, **factors}, words_rank=one.words_rank, bm25=one.bm25, meaning_rank=one.meaning_rank)  # fmt: skip
        trace.score = trace.recompute()
        traces.append(trace)
    return traces


def title_overlap(topic: frozenset[str], title: str | None) -> float:
    """Share of the question's words that stand in the title."""
    return len(topic & set(words(title))) / len(topic) if topic and title else 0.0


def space_factor(space: str | None, favoured: str | None, settings: SpaceSettings) -> float:
    """The same space counts in full; without a space to work in, every one does."""
    if favoured is None or space == favoured:
        return 1.0
    return settings.boost_global if space is None else settings.boost_other


def _tier(tier: Tier, settings: SearchSettings) -> float:
    return {
        Tier.CORE: settings.tier_boost_core,
        Tier.WORKING: settings.tier_boost_working,
        Tier.ARCHIVAL: settings.tier_boost_archival,
    }[tier]


def _recency(accessed: datetime, now: datetime, settings: SearchSettings) -> float:
    days = max(0.0, (now - accessed).total_seconds() / 86_400)
    return float(2.0 ** (-min(days / settings.recency_half_life_days, 1000.0)))


def _access(count: int) -> float:
    return math.log1p(count) / math.log1p(FULL_ACCESS)


def _within(created: datetime, heard: Heard) -> bool:
    return heard.period is not None and heard.period.after <= created <= heard.period.before
