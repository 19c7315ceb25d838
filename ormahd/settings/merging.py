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
    neighbours: Annotated[int, Field(ge=1, le=16)] = Field(
        default=6, description="Nearest memories of the same type and space that a memory is compared with."
    )
    least_cosine: Share = Field(default=0.25, description="Cosine below which two memories are not compared at all.")
    least_likeness: Share = Field(
        default=0.6,
        description="Composite (0.6 cosine + 0.2 titles + 0.2 words in common) from which a judge is asked about a pair.",
    )
    propose_likeness: Share = Field(
        default=0.65,
        description="Composite from which a pair becomes a proposal where no judge was asked. Of our corpus's 571 unrelated "
        "memories no pair reaches 0.5; of memories told twice in other words half reach 0.65, and 2 in 3 reach 0.6, as do "
        "three times as many turns of small talk.",
    )
    merge_likeness: Share = Field(
        default=0.85, description="Composite from which a judge's yes merges at once; below, it becomes a proposal."
    )
    max_proposals: Annotated[int, Field(ge=0, le=10_000)] = Field(
        default=50, description="New proposals of merges that one run makes at most."
    )
