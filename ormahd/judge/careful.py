"""A wrapper that checks the form of a judge's answers: their number and type, and reasons that are safe to store and
show.

The jobs check what the answers say.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from msgspec.structs import replace

from ormahd.judge.port import Contrast, Duplicate, Judge, JudgeGone, Linked, Pair, Shown, Summary
from ormahd.text.quoting import harmless, shortened

REASON = 1_000
"""Maximum number of characters of a reason, which is shown in a commit, an edge or a proposal."""

Verdict = TypeVar("Verdict", Duplicate, Linked, Contrast, Summary)


class Careful:
    """Asks another judge. Raises JudgeGone also if the number of answers differs from that of the questions."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge

    @property
    def name(self) -> str:
        return self._judge.name

    def duplicates(self, pairs: Sequence[Pair]) -> Sequence[Duplicate | None]:
        return _checked(self._judge.duplicates(pairs), len(pairs), Duplicate)

    def links(self, pairs: Sequence[Pair]) -> Sequence[Linked | None]:
        return _checked(self._judge.links(pairs), len(pairs), Linked)

    def conflicts(self, pairs: Sequence[Pair]) -> Sequence[Contrast | None]:
        return _checked(self._judge.conflicts(pairs), len(pairs), Contrast)

    def summaries(self, clusters: Sequence[Sequence[Shown]]) -> Sequence[Summary | None]:
        return _checked(self._judge.summaries(clusters), len(clusters), Summary)


def _checked(answers: Sequence[Verdict | None], asked: int, kind: type[Verdict]) -> list[Verdict | None]:
    if len(answers) != asked:
        raise JudgeGone(f"{len(answers)} answers to {asked} questions")
    return [replace(one, reason=_line(one.reason)) if isinstance(one, kind) else None for one in answers]


def _line(reason: str) -> str:
    return shortened(" ".join(harmless(reason[: 4 * REASON]).split()), REASON)
