"""The interface of a judge: the questions that jobs ask, and the verdicts that they get (DESIGN section 6; REFERENCE
C).

A judge is asked in batches, while the caller holds no lock. It answers each question or leaves it open (None). An open
question is asked again another day. An answer, also "no", is stored by the texts that it is about
(`state/proposals.py`). A judge's text is only proposed: the job that applies it must validate it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Literal, Protocol

from msgspec import Struct

from ormahd.model.node import EdgeType, NodeType


class JudgeGone(Exception):
    """The judge did not answer: it is missing, too slow, or over budget. All questions stay open."""


class ShownMemory(Struct, frozen=True):
    """A memory as shown to a judge."""

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
    """Whether both say the same. `title` and `content`: the merged text (None: keep that of the memory that stays)."""

    same: bool
    title: str | None
    content: str | None
    reason: str


class Linked(Struct, frozen=True):
    """How `a` relates to `b`: supports, part_of, depends_on or related_to; None: not at all."""

    edge: EdgeType | None
    reason: str


class Contrast(Struct, frozen=True):
    """`evolution`: the later memory replaced the earlier belief; `tension`: both hold, and contradict each other."""

    kind: Literal["evolution", "tension", "none"]
    reason: str


class Summary(Struct, frozen=True):
    """One memory that summarises a cluster. `content` None: the memories do not belong together."""

    title: str | None
    content: str | None
    type: NodeType
    reason: str


class Judge(Protocol):
    """Answers batches of questions, in order. Raises JudgeGone if it cannot answer; a call may take minutes."""

    @property
    def name(self) -> str:
        """Shown in commit messages and `status`: `command`, or a model's name."""
        ...

    def duplicates(self, pairs: Sequence[Pair]) -> Sequence[Duplicate | None]: ...

    def links(self, pairs: Sequence[Pair]) -> Sequence[Linked | None]: ...

    def conflicts(self, pairs: Sequence[Pair]) -> Sequence[Contrast | None]: ...

    def summaries(self, clusters: Sequence[Sequence[ShownMemory]]) -> Sequence[Summary | None]: ...
