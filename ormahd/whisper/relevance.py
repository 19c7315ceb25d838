"""Relevance: how sure the texts alone make us that a memory belongs to a prompt, 0 to 1, whatever else was found.

Fitted as a logistic regression over the witnesses that ranking hears anyway. 0.5 is where the default gate stands; see
`tests/quality/README.md` for the sets, the split and the figures.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

LATE: Final = 5.2
"""Late interaction weighted by rarity: does the memory have what is special about the prompt?"""
WORDS: Final = 4.0
"""The words in common (bm25, saturating, `search.shape.WORDS_HALF`)."""
BREVITY: Final = 1.7
"""A memory of few words says little about anything."""
FAR: Final = 7.4
NEAR: Final = 0.4
"""Cosine below which a memory is about something else, however well its words fit; each 0.1 below costs `FAR` / 10."""
BASE: Final = -5.0
SLOPE: Final = 0.5
"""Of the fitted logit, so that what was nearly relevant lies between 0.4 and 0.5, where feedback can reach it."""

CROSS_MIDDLE: Final = -3.9
"""Logit of the cross-encoder that counts as 0.5: the gate that version 0.15.3 of the original settled on, 0.45 of
(logit + 12) / 18. Not measured here, because the model's files cannot be had."""
CROSS_SCALE: Final = 0.4


FITTED: Final = 3_000
"""Notes of the vault that it was fitted in. Of a word that is in one note only, bm25 makes 2.4 where there are 5 notes and
17 where there are 3,000; what the word tells is the same."""
FEWEST: Final = 5
HALF: Final = 20.0
"""`search.shape.WORDS_HALF`, as it was when this was fitted."""


def common_words(words: float, notes: int) -> float:
    """The witness `words` (bm25 / (bm25 + half)) as it would be in a vault of `FITTED` notes."""
    scale = _rarest(FITTED) / _rarest(max(notes, FEWEST))
    return scale * words / (1.0 - words + scale * words)


FEW: Final = 30
"""Notes below which bm25 says nothing: a word that half of two notes have counts 0 there."""
SHARED: Final = 8.0
"""What bm25 makes of a rare word in common, in a vault of `FITTED` notes."""


def few_words(shared: int) -> float:
    """The same witness in a vault of a few notes: each word in common is taken for a rare one."""
    return SHARED * shared / (SHARED * shared + HALF)


def relevance(numbers: Mapping[str, float]) -> float | None:
    """Of one candidate, from `Hit.numbers` and `common` (`common_words`); None where it has no vectors to judge by."""
    if "late_rare" not in numbers:
        return None
    return sigmoid(SLOPE * evidence(numbers))


def evidence(numbers: Mapping[str, float]) -> float:
    """The logit before it is scaled."""
    return (
        LATE * numbers["late_rare"]
        + WORDS * numbers["common"]
        + BREVITY * numbers["brevity"]
        - FAR * max(0.0, NEAR - numbers["cosine"])
        + BASE
    )


def cross(logit: float) -> float:
    """Of a cross-encoder's logit, on the same scale."""
    return sigmoid(CROSS_SCALE * (logit - CROSS_MIDDLE))


def _rarest(notes: int) -> float:
    """bm25's inverse document frequency of a word that is in one of so many notes."""
    return math.log((notes - 0.5) / 1.5)


def sigmoid(value: float) -> float:
    return 1.0 / (1.0 + math.exp(-max(-60.0, min(60.0, value))))
