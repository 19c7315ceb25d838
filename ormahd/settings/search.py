"""Ranking."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from ormahd.settings.base import Group, Share, Weight


class SearchSettings(Group):
    fts_weight: Weight = Field(default=0.4, description="Weight of words in rank fusion.")
    vector_weight: Weight = Field(default=0.6, description="Weight of meaning in rank fusion.")
    min_pool: Annotated[int, Field(ge=1, le=10_000)] = Field(
        default=100,
        description="Least number of candidates by words and by meaning each; 3 × limit (10 × with a time) where that is more.",
    )
    rerank_pool: Annotated[int, Field(ge=1, le=10_000)] = Field(
        default=100,
        description="Fused candidates whose texts are compared token by token; 2 × limit where that is more. Measured: 200 "
        "hold 2 points more of the right ones and rank none of them higher.",
    )
    similarity_threshold: Share = Field(
        default=0.1,
        description="Cosine below which a neighbour is no candidate. From 0.4 (chosen for bge-base): right answers have a "
        "cosine of 0.31 to 0.57 with MiniLM, and of 100 candidates 89 instead of 94 per cent held one.",
    )
    rrf_k: Annotated[int, Field(ge=1, le=10_000)] = Field(default=60, description="Constant of reciprocal rank fusion.")
    similarity_blend_weight: Share = Field(
        default=0.98,
        description="Share of similarity in the blend with the fused rank. From 0.5: with late interaction in it the "
        "similarity is far better than the rank (0.8: 6 points less any@10 on short dialogue, nothing gained elsewhere).",
    )
    late_weight: Weight = Field(
        default=0.6,
        description="Weight in the similarity of late interaction: the mean of MaxSim weighted by rarity (best on short "
        "dialogue) and unweighted (best on long notes).",
    )
    cosine_weight: Weight = Field(
        default=0.25,
        description="Weight in the similarity of the cosine. More helps long notes and short facts by a point (0.6), and "
        "costs three points on dialogue.",
    )
    words_weight: Weight = Field(
        default=0.15, description="Weight in the similarity of the words in common (bm25, see `words_half`)."
    )
    words_half: Annotated[float, Field(gt=0.0, allow_inf_nan=False)] = Field(
        default=20.0,
        description="The bm25 value that counts half: two to three rare words in common, whatever else the query says.",
    )
    moment_weight: Weight = Field(
        default=0.2,
        description="How much the best candidate vouches for others of the same conversation, that is of its space and "
        "created within `moment_minutes`. Measured: 2 to 3 points of any@10 on dialogue (0.4: another one there, one less on "
        "prompts that are no questions); notes that were not stored together keep their order.",
    )
    moment_minutes: Annotated[float, Field(ge=0.0, le=10_080.0, allow_inf_nan=False)] = Field(
        default=30.0, description="See `moment_weight`; from 5 minutes to a day the same was measured."
    )
    brevity_tokens: Annotated[float, Field(ge=0.0, le=1000.0, allow_inf_nan=False)] = Field(
        default=3.0,
        description='A note of n tokens counts n / (n + this): "Thanks, Ana!" looks like every question about Ana. '
        "Measured: 2 points of mean reciprocal rank on dialogue.",
    )
    length_penalty_threshold: Annotated[int, Field(ge=1)] = Field(
        default=600,
        description="Characters from which a note's late interaction is corrected for its length. From 300: notes of a few "
        "sentences tell as much as notes of one (half a point of mean reciprocal rank on dialogue of that length).",
    )
    length_chance: Share = Field(
        default=0.1,
        description="What a note e (2.7) times longer than that reaches by chance in late interaction. Instead of the seeds' "
        "threshold / length, which buries long notes: the best of many tokens is high in any long text (0.05 to 0.06 for "
        "each factor e, measured on unrelated texts), and short facts drown among documents without the correction.",
    )
    fts_only_dampening: Share = Field(default=0.5, description="Factor for a candidate without any similarity.")
    min_result_score: Share = Field(default=0.1, description="Score below which a result is dropped.")
    rrf_min_spread_ratio: Share = Field(
        default=0.05,
        description="Spread of fused scores, as a share of the largest, below which min-max would blow up noise.",
    )
    question_fts_weight_scale: Weight = Field(
        default=1.0,
        description="Factor on `fts_weight` for questions. From 0.3: of 100 candidates for a question 90 instead of 94 per "
        "cent held the answer.",
    )
    question_vector_weight_scale: Weight = Field(
        default=1.0, description="Factor on `vector_weight` for questions. From 1.5, for the same reason."
    )
    question_similarity_blend_weight: Share = Field(
        default=1.0,
        description="`similarity_blend_weight` for questions. From 0.85: a point of any@10 on dialogue. The fused rank "
        "chooses the candidates, the similarity orders them.",
    )
    title_match_boost: Weight = Field(
        default=2.0,
        description="Largest boost for words of the query in the title, where all of its rare words stand there; none for "
        "questions. A score nears 1 by it, never passes it.",
    )
    time_phrases: Literal["off", "favour", "filter"] = Field(
        default="favour",
        description='What "last week" in a query does when the caller gives no time: `favour` memories of that period '
        "(`period_boost`), `filter` out all others, or nothing. A query that asks for a time and nothing else always filters. "
        "Measured: `filter` empties questions about what happened long ago.",
    )
    period_boost: Share = Field(default=0.1, description="Share added for a memory of the period that the query names.")
    recency_boost: Share = Field(default=0.05, description="Largest share added for recent access.")
    recency_half_life_days: Annotated[float, Field(gt=0.0, allow_inf_nan=False)] = Field(
        default=7.0, description="Days after which the recency share has halved."
    )
    access_boost: Share = Field(
        default=0.05,
        description="Largest share added for what was often opened or judged useful (full at 20 times). Being found is no use: "
        "counted, as in the original, it made recall@10 worse by 0.7 points.",
    )
    tier_boost_core: Annotated[float, Field(ge=-1.0, le=1.0)] = Field(
        default=0.10, description="Factor 1 + this for core."
    )
    tier_boost_working: Annotated[float, Field(ge=-1.0, le=1.0)] = Field(
        default=0.0, description="Factor 1 + this for working."
    )
    tier_boost_archival: Annotated[float, Field(ge=-1.0, le=1.0)] = Field(
        default=-0.10, description="Factor 1 + this for archival."
    )


class SpaceSettings(Group):
    boost_global: Weight = Field(default=1.0, description="Factor for memories without a space while working in one.")
    boost_other: Weight = Field(default=0.6, description="Factor for memories of other spaces.")


class ActivationSettings(Group):
    decay: Annotated[float, Field(gt=0.0, le=1.0)] = Field(
        default=0.5, description="What one step along an edge keeps."
    )
    seed_count: Annotated[int, Field(ge=0, le=100)] = Field(
        default=5, description="Top results from which activation spreads."
    )
    max_per_seed: Annotated[int, Field(ge=0, le=100)] = Field(default=3, description="Neighbours added for each seed.")
