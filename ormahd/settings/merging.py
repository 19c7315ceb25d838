"""Duplicates: which pairs are looked at, and what may become of them without a person."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ormahd.settings.base import Group, Share


class MergingSettings(Group):
    by_itself: bool = Field(
        default=True,
        description="Whether memories that say the same in the same words (but for case, punctuation, articles, spelling) are "
        "merged without a person or a judge; else they are proposed. Measured on 15,900 pairs that differ in a number, a "
        "name, a negation or the like: none merged; of retellings in the same words 99 % are (tests/quality).",
    )
    merge_likeness: Share = Field(
        default=0.85, description="Composite from which a judge's yes merges at once; below, it becomes a proposal."
    )
    max_proposals: Annotated[int, Field(ge=0, le=10_000)] = Field(
        default=50, description="New proposals of merges that one run makes at most."
    )
