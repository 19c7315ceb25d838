"""Relevance: the chance that a memory belongs to a prompt, by its text alone. An absolute value from 0 to 1.

It is a logistic regression over numbers that ranking computes, which do not depend on what else was found. The weights
stand in `relevance.json`. `python -m tests.bench fit-relevance` fits them, and `tests/quality/README.md` shows how far
they are from the truth: of the memories with a relevance of 0.7 some 70 % belong to the prompt.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from typing import Final

from ormahd.model.chance import FittedWeights, sigmoid

FAR: Final = 0.4
"""Cosine below which relevance falls, however well the words fit."""
CROSS_MIDDLE: Final = -2.7
"""Logit of the cross-encoder that counts as 0.5."""
CROSS_SCALE: Final = 0.92


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


SHORT: Final = 5.0
"""Number of words up to which prompts count as equally short: there are too few shorter ones to learn from."""
WITNESSES: Final = ("late", "close", "common", "far", "terms")
"""Names of the evidence, in the order of the table."""
PART: Final = "text_"
"""Beginning of the names of the contributions in a trace. They add up to the logit of `text_alone`."""


class Chances(FittedWeights, frozen=True):
    """The weights of the relevance."""

    def contributions(self, evidence: Mapping[str, float]) -> dict[str, float]:
        """Return weight × value of each piece of evidence, and `text_base`; they add up to the logit."""
        return {PART + "base": self.base} | {PART + name: self.weights[name] * evidence[name] for name in WITNESSES}


def witnesses(numbers: Mapping[str, float]) -> dict[str, float] | None:
    """Return the evidence from `Hit.numbers`, `common` (`common_words`) and `terms`; None if there are no vectors.

    - `late`: late interaction weighted by rarity; `close`: its square, because likeness counts more near the top.
    - `common`: the square of the words in common.
    - `far`: how far the cosine lies below `FAR`.
    - `terms`: the logarithm of the number of words of the prompt. A long prompt resembles more memories by chance.
    """
    if "late_rare" not in numbers:
        return None
    late, common = numbers["late_rare"], numbers["common"]
    return {
        "late": late, "close": late * late, "common": common * common, "far": max(0.0, FAR - numbers["cosine"]),
        "terms": math.log1p(max(SHORT, numbers["terms"])),
    }  # fmt: skip


def relevance(numbers: Mapping[str, float]) -> dict[str, float]:
    """Return one candidate's relevance by its text (`text_alone`) and the contributions; empty if it has no vectors."""
    evidence = witnesses(numbers)
    if evidence is None:
        return {}
    parts = fitted().contributions(evidence)
    return {**parts, "text_alone": sigmoid(sum(parts.values()))}


@cache
def fitted() -> Chances:
    """Return the weights that are shipped."""
    return Chances.shipped(__package__, "relevance.json", WITNESSES)


def cross(logit: float) -> float:
    """Return the relevance for a cross-encoder's logit."""
    return sigmoid(CROSS_SCALE * (logit - CROSS_MIDDLE))


def _rarest(notes: int) -> float:
    """Return bm25's inverse document frequency of a word that is in one of `notes` notes."""
    return math.log((notes - 0.5) / 1.5)
