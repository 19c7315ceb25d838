"""Consolidation: which memories a judge is asked to make one of."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ormahd.settings.base import Group, Share


class ConsolidatingSettings(Group):
    similarity: Share = Field(
        default=0.6,
        description="Cosine from which memories of one space are near enough to be shown to the judge together (the seeds').",
    )
    max_clusters: Annotated[int, Field(ge=0, le=1000)] = Field(
        default=10, description="Consolidations that one run plans at most (the seeds')."
    )
