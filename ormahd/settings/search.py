"""Ranking."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from ormahd.settings.base import Group, Share, Weight


class SearchSettings(Group):
    fts_weight: Weight = Field(default=0.4, description="Weight of words in rank fusion, where meaning has 0.6.")
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
    length_penalty_threshold: Annotated[int, Field(ge=1)] = Field(
        default=600,
        description="Characters from which a note's late interaction is corrected for its length. From 300: notes of a few "
        "sentences tell as much as notes of one (half a point of mean reciprocal rank on dialogue of that length).",
    )
    question_fts_weight_scale: Weight = Field(
        default=1.0,
        description="Factor on `fts_weight` for questions. From 0.3: of 100 candidates for a question 90 instead of 94 per "
        "cent held the answer.",
    )
    question_vector_weight_scale: Weight = Field(
        default=1.0, description="Factor on the weight of meaning for questions. From 1.5, for the same reason."
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
        "(a tenth more), `filter` out all others, or nothing. A query that asks for a time and nothing else always filters. "
        "Measured: `filter` empties questions about what happened long ago.",
    )
    tier_boost_core: Annotated[float, Field(ge=-1.0, le=1.0)] = Field(
        default=0.10, description="Factor 1 + this for core."
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
