"""The port of a judge: what a job asks, and the verdicts that it may get (DESIGN section 6; REFERENCE C).

A judge is asked in batches, outside of every lock, and answers each question or leaves it open (None). An open question is
asked again another day; an answered one, also with "no", is remembered by the texts it was about (`state/proposals.py`).
What a judge writes is a proposal: whoever applies it validates it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Literal, Protocol

from msgspec import Struct

from ormahd.model.node import EdgeType, NodeType


class JudgeGone(Exception):
    """Nobody answers: not there, too slow, out of budget. Whatever was asked stays open."""


class Shown(Struct, frozen=True):
    """A memory as a judge sees it."""

    id: str
    type: NodeType
    space: str | None
    title: str | None
    content: str
    created: datetime


class Pair(Struct, frozen=True):
    """Two memories; `score` is what made them candidates, 0 to 1."""

    a: Shown
    b: Shown
    score: float


class Duplicate(Struct, frozen=True):
    """Whether both say the same; `title` and `content` are the united text (None: the keeper's own stays)."""

    same: bool
    title: str | None
    content: str | None
    reason: str


class Linked(Struct, frozen=True):
    """How `a` relates to `b`; None: not at all. Of supports, part_of, depends_on and related_to."""

    edge: EdgeType | None
    reason: str


class Contrast(Struct, frozen=True):
    """`evolution`: the later of the two replaced the other belief; `tension`: both stand, and they contradict."""

    kind: Literal["evolution", "tension", "none"]
    reason: str


class Summary(Struct, frozen=True):
    """One memory that says what a cluster says; None for `content`: the cluster is none."""

    title: str | None
    content: str | None
    type: NodeType
    reason: str


class Judge(Protocol):
    """Answers are in the order of the questions. Raises JudgeGone when nobody is there; may take minutes."""

    @property
    def name(self) -> str:
        """For commit messages and `status`: `command`, a model's name."""
        ...

    def duplicates(self, pairs: Sequence[Pair]) -> Sequence[Duplicate | None]: ...

    def links(self, pairs: Sequence[Pair]) -> Sequence[Linked | None]: ...

    def conflicts(self, pairs: Sequence[Pair]) -> Sequence[Contrast | None]: ...

    def summaries(self, clusters: Sequence[Sequence[Shown]]) -> Sequence[Summary | None]: ...
