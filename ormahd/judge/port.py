"""The interface of a judge: the questions that jobs ask, and the verdicts that they get (DESIGN section 6; REFERENCE
C).

A judge is asked in batches, while the caller holds no lock. It answers each question or leaves it open (None). An open
question is asked again another day. Every answer, even "no", is stored under the texts that it is about
(`state/proposals.py`). A text that a judge wrote is only a proposal: the job that applies it must validate it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Literal, Protocol

from msgspec import Struct

from ormahd.model.node import EdgeType, NodeType


class JudgeGone(Exception):
    """Raised if the judge did not answer: it is missing or too slow, or the budget is used up. All questions that it
    was asked stay open."""


class ShownMemory(Struct, frozen=True):
    """The part of a memory that a judge is shown."""

    id: str
    type: NodeType
    space: str | None
    title: str | None
    content: str
    created: datetime


class Pair(Struct, frozen=True):
    """Two memories to compare. `score`: the similarity that made them candidates, 0 to 1."""

    a: ShownMemory
    b: ShownMemory
    score: float


class Duplicate(Struct, frozen=True):
    """The verdict whether two memories say the same. `title` and `content`: the merged text, each None if the memory
    that stays is to keep its own."""

    same: bool
    title: str | None
    content: str | None
    reason: str


class Linked(Struct, frozen=True):
    """The verdict how memory `a` of a pair relates to memory `b`. `edge`: supports, part_of, depends_on or
    related_to; None: none of these."""

    edge: EdgeType | None
    reason: str


class Contrast(Struct, frozen=True):
    """The verdict whether two memories contradict each other. `evolution`: the later memory replaced the earlier
    belief. `tension`: the person holds both, and they contradict each other. `none`: they do not."""

    kind: Literal["evolution", "tension", "none"]
    reason: str


class Summary(Struct, frozen=True):
    """The verdict on a cluster of memories: the text of one memory that summarises them. `content` None: the memories
    do not belong together."""

    title: str | None
    content: str | None
    type: NodeType
    reason: str


class Judge(Protocol):
    """What the jobs need from a judge: methods that answer batches of questions, in the order of the questions. They
    raise JudgeGone if the judge cannot answer; a call may take minutes."""

    @property
    def name(self) -> str:
        """The name shown in commit messages and in `status`: the name of the command or of the model."""
        ...

    def duplicates(self, pairs: Sequence[Pair]) -> Sequence[Duplicate | None]: ...

    def links(self, pairs: Sequence[Pair]) -> Sequence[Linked | None]: ...

    def conflicts(self, pairs: Sequence[Pair]) -> Sequence[Contrast | None]: ...

    def summaries(self, clusters: Sequence[Sequence[ShownMemory]]) -> Sequence[Summary | None]: ...
