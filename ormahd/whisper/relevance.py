"""Relevance: the probability that a memory belongs to a prompt, computed from the memory's text alone.

It is a logistic regression over numbers of the search that do not depend on what else was found. Its weights are in
`relevance.json`; `python -m tests.bench fit-relevance` fits them. `tests/quality/README.md` shows how well calibrated
it is: of the memories with a relevance of 0.7, some 70 % belong to the prompt.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from typing import Final

from ormahd.model.chance import FittedWeights, sigmoid

FAR: Final = 0.4
"""Cosine below which the evidence `far` lowers the relevance."""


FITTED: Final = 3_000
"""Number of notes in the vault that the weights were fitted with. The bm25 of a rare word grows with the number of
notes, so values of other vaults are converted."""
FEWEST: Final = 5
HALF: Final = 20.0
"""Value of `search.shape.WORDS_HALF` at the time of fitting."""


def common_words(words: float, notes: int) -> float:
    """Convert `words` (bm25 / (bm25 + `HALF`)), of a vault of `notes` notes, to its value in a vault of `FITTED`
    notes."""
    scale = _rarest(FITTED) / _rarest(max(notes, FEWEST))
    return scale * words / (1.0 - words + scale * words)


FEW: Final = 30
"""Number of notes below which bm25 is not meaningful. In a vault of two notes, a word that one of them has counts 0."""
SHARED: Final = 8.0
"""The bm25 in a vault of `FITTED` notes that is assumed for each word that prompt and memory have in common."""


def few_words(shared: int) -> float:
    """Return bm25 / (bm25 + `HALF`) for a vault of few notes, where each shared word is assumed to be rare.

    `shared`: number of words that prompt and memory have in common.
    """
    return SHARED * shared / (SHARED * shared + HALF)


SHORT: Final = 5.0
"""Number of words up to which prompts count as equally short: there are too few shorter ones to learn from."""
WITNESSES: Final = ("late", "close", "common", "far", "terms")
"""Names of the evidence, see `witnesses`."""
PART: Final = "text_"
"""Prefix of the names of the contributions in a trace. The contributions add up to the logit of `text_alone`."""


class Chances(FittedWeights, frozen=True):
    """The fitted logistic regression for relevance. It computes what each evidence contributes."""

    def contributions(self, evidence: Mapping[str, float]) -> dict[str, float]:
        """Return `{name with PART: weight × value}` of each evidence, and the constant; they add up to the logit."""
        return {PART + "base": self.base} | {PART + name: self.weights[name] * evidence[name] for name in WITNESSES}


def witnesses(numbers: Mapping[str, float]) -> dict[str, float] | None:
    """Return `{name: evidence}` on one candidate, from its `numbers`; None if these have no late interaction.

    - `late`: late interaction weighted by rarity; `close`: its square, because high values count more.
    - `common`: the square of `common_words`.
    - `far`: how far the cosine is below `FAR`.
    - `terms`: the logarithm of the number of the prompt's words. A long prompt resembles more memories by chance.
    """
    if "late_rare" not in numbers:
        return None
    late, common = numbers["late_rare"], numbers["common"]
    return {
        "late": late, "close": late * late, "common": common * common, "far": max(0.0, FAR - numbers["cosine"]),
        "terms": math.log1p(max(SHORT, numbers["terms"])),
    }  # fmt: skip


def relevance(numbers: Mapping[str, float]) -> dict[str, float]:
    """Return one candidate's relevance by its text (key `text_alone`) and the contributions (keys with `PART`).

    Empty if `numbers` have no late interaction.
    """
    evidence = witnesses(numbers)
    if evidence is None:
        return {}
    parts = fitted().contributions(evidence)
    return {**parts, "text_alone": sigmoid(sum(parts.values()))}


@cache
def fitted() -> Chances:
    """Return the weights in `relevance.json`."""
    return Chances.shipped(__package__, "relevance.json", WITNESSES)


def _rarest(notes: int) -> float:
    """Return bm25's inverse document frequency of a word that is in one of `notes` notes."""
    return math.log((notes - 0.5) / 1.5)
