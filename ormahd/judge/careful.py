"""A wrapper that checks the form of a judge's answers: their number and type, and reasons that are safe to store and
show.

The jobs check what the answers say.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from msgspec.structs import replace

from ormahd.judge.port import Contrast, Duplicate, Judge, JudgeGone, Linked, Pair, ShownMemory, Summary
from ormahd.text.quoting import harmless, shortened

REASON = 1_000
"""Maximum number of characters of a verdict's reason, which is shown in a commit, an edge or a proposal."""

Verdict = TypeVar("Verdict", Duplicate, Linked, Contrast, Summary)


class Careful:
    """Wraps another judge: passes questions on to it, checks its answers, and counts the questions left open. It also
    raises JudgeGone if there are more or fewer answers than questions."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self.asked = self.open = 0
        """`asked`: number of questions so far; `open`: how many of them got no usable answer."""
        self.gone: str | None = None
        """Why the judge last gave no answer to a whole batch; None if that never happened."""

    @property
    def name(self) -> str:
        return self._judge.name

    def duplicates(self, pairs: Sequence[Pair]) -> Sequence[Duplicate | None]:
        return self._checked(lambda: self._judge.duplicates(pairs), len(pairs), Duplicate)

    def links(self, pairs: Sequence[Pair]) -> Sequence[Linked | None]:
        return self._checked(lambda: self._judge.links(pairs), len(pairs), Linked)

    def conflicts(self, pairs: Sequence[Pair]) -> Sequence[Contrast | None]:
        return self._checked(lambda: self._judge.conflicts(pairs), len(pairs), Contrast)

    def summaries(self, clusters: Sequence[Sequence[ShownMemory]]) -> Sequence[Summary | None]:
        return self._checked(lambda: self._judge.summaries(clusters), len(clusters), Summary)

    def left_open(self) -> str | None:
        """Return a sentence that says how many questions were left open, and why; None if none was."""
        if not self.open:
            return None
        why = f": {self.gone}" if self.gone is not None else ""
        return f"the judge left {self.open:,} of {self.asked:,} questions open{why} (ormahctl status)"

    def _checked(
        self, ask: Callable[[], Sequence[Verdict | None]], asked: int, kind: type[Verdict]
    ) -> list[Verdict | None]:
        self.asked += asked
        self.open += asked
        try:
            answers = ask()
            if len(answers) != asked:
                raise JudgeGone(f"{len(answers)} answers to {asked} questions")
        except JudgeGone as exc:
            self.gone = str(exc)
            raise
        checked = [replace(one, reason=_line(one.reason)) if isinstance(one, kind) else None for one in answers]
        self.open -= sum(one is not None for one in checked)
        return checked


def _line(reason: str) -> str:
    return shortened(" ".join(harmless(reason[: 4 * REASON]).split()), REASON)
