"""Relevance: how likely a memory belongs to a prompt, by its text alone. An absolute value from 0 to 1.

A logistic regression over numbers that ranking computes. 0.5 is the default gate; `tests/quality/README.md` describes
the data.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

LATE: Final = 5.2
"""Weight of late interaction weighted by rarity."""
WORDS: Final = 4.0
"""Weight of the words in common (bm25 / (bm25 + half), see `search.shape.WORDS_HALF`)."""
BREVITY: Final = 1.7
"""Weight of `brevity`: a very short memory says little about anything."""
FAR: Final = 7.4
NEAR: Final = 0.4
"""Cosine below which relevance falls, however well the words fit: each 0.1 below costs `FAR` / 10 of the logit."""
BASE: Final = -5.0
SLOPE: Final = 0.5
"""Factor on the fitted logit. It puts nearly relevant memories between 0.4 and 0.5, where feedback can raise them
over the gate."""

CROSS_MIDDLE: Final = -3.9
"""Logit of the cross-encoder that counts as 0.5."""
CROSS_SCALE: Final = 0.4


FITTED: Final = 3_000
"""Number of notes of the vault used for fitting. The bm25 of a rare word grows with the number of notes; its meaning
does not."""
FEWEST: Final = 5
HALF: Final = 20.0
"""Value of `search.shape.WORDS_HALF` at the time of fitting."""


def common_words(words: float, notes: int) -> float:
    """Convert `words` (bm25 / (bm25 + half)) to the value it would have in a vault of `FITTED` notes."""
    scale = _rarest(FITTED) / _rarest(max(notes, FEWEST))
    return scale * words / (1.0 - words + scale * words)


FEW: Final = 30
"""Number of notes below which bm25 is not meaningful: a word in half of two notes counts 0."""
SHARED: Final = 8.0
"""The bm25 of one rare common word in a vault of `FITTED` notes."""


def few_words(shared: int) -> float:
    """Return `words` for a vault of few notes: each common word is taken for a rare one."""
    return SHARED * shared / (SHARED * shared + HALF)


def relevance(numbers: Mapping[str, float]) -> float | None:
    """Return one candidate's relevance from `Hit.numbers` and `common` (`common_words`); None if it has no vectors."""
    if "late_rare" not in numbers:
        return None
    return sigmoid(SLOPE * evidence(numbers))


def evidence(numbers: Mapping[str, float]) -> float:
    """Return the logit before scaling by `SLOPE`."""
    return (
        LATE * numbers["late_rare"]
        + WORDS * numbers["common"]
        + BREVITY * numbers["brevity"]
        - FAR * max(0.0, NEAR - numbers["cosine"])
        + BASE
    )


def cross(logit: float) -> float:
    """Return the relevance for a cross-encoder's logit."""
    return sigmoid(CROSS_SCALE * (logit - CROSS_MIDDLE))


def _rarest(notes: int) -> float:
    """Return bm25's inverse document frequency of a word that is in one of `notes` notes."""
    return math.log((notes - 0.5) / 1.5)


def sigmoid(value: float) -> float:
    return 1.0 / (1.0 + math.exp(-max(-60.0, min(60.0, value))))
