"""How alike two memories are, by arithmetic: what makes a pair worth a question, to a judge or to a person.

The composite is the original's: 0.6 cosine + 0.2 likeness of the titles + 0.2 words in common (REFERENCE 3.4).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from ormahd.actions.views import headline
from ormahd.text.words import overlap, words

if TYPE_CHECKING:
    from ormahd.index.rows import NodeRow

COSINE, TITLE, WORDS = 0.6, 0.2, 0.2


class Likeness(Struct, frozen=True):
    """Each part 0 to 1 (a cosine below 0 counts as 0)."""

    cosine: float
    title: float
    """1 less the edit distance of the titles as a share of the longer; a memory without one has its first line."""
    words: float
    """Jaccard index of the words of title and content."""

    @property
    def composite(self) -> float:
        return COSINE * max(0.0, self.cosine) + TITLE * self.title + WORDS * self.words

    def __str__(self) -> str:
        return f"composite {self.composite:.2f} (cosine {self.cosine:.2f}, titles {self.title:.2f}, words {self.words:.2f})"


def likeness(one: NodeRow, other: NodeRow, cosine: float) -> Likeness:
    from rapidfuzz.distance import Levenshtein  # here, because all jobs are imported at the start

    names = [headline(row.title, row.content).casefold() for row in (one, other)]
    return Likeness(
        cosine,
        Levenshtein.normalized_similarity(*names),
        overlap(*(words(f"{row.title or ''}\n{row.content}") for row in (one, other))),
    )
