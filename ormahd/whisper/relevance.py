"""Relevance: the chance that a memory belongs to a prompt. This one number decides whether the memory is told.

It is a logistic regression over evidence on the text, on the other memories found, and on the prompt (`WITNESSES`). Its
weights are in `relevance.json`, and those of `asks` in `asks.json`, fitted by `python -m tests.bench fit-relevance` to
the default model; those of the multilingual one are beside them. `tests/quality/README.md` shows how well calibrated it
is: of the memories with a relevance of 0.7, some 70 % belong to the prompt.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from typing import Final

import numpy as np

from ormahd.embedding.embedder import DIMENSIONS, QueryVectors
from ormahd.model.chance import FittedWeights, sigmoid
from ormahd.whisper.types import Float

FAR: Final = 0.4
"""Cosine below which the evidence `far` lowers the relevance."""


FITTED: Final = 3_000
"""Number of notes in the vault that the weights were fitted with. The bm25 of a rare word grows with the number of
notes, so values of other vaults are converted."""
FEWEST: Final = 5
HALF: Final = 20.0
"""Value of `search.shape.WORDS_HALF` at the time of fitting."""


def common_words(words: float, notes: int) -> float:
    """Return `words` (bm25 / (bm25 + `HALF`)) of a vault of `notes` notes as the value in a vault of `FITTED` notes."""
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


WITNESSES: Final = ("common", "far", "lead", "rare", "rank", "asks", "away")
"""Names of the evidence, see `evidence_of`."""
PART: Final = "text_"
"""Prefix of the names of the contributions in a trace. The contributions add up to the logit of `text_alone`."""
TEXT_ALONE: Final = "text_alone"
"""Name of the relevance by the text, in a trace."""
RIVAL: Final = 0.3
"""Similarity that the next memory is assumed to have at least, if `lead` is computed. In a vault of few memories
there may be none."""
EVEN: Final = 0.01
"""By how much the best memory of other projects may be above the best one at home while `away` is still 0."""
SLIGHT: Final = 0.02
"""A difference of similarities that is small for `away`; differences far above it all count the same."""
UNSURE: Final = 0.0
"""Value of `asks` for a prompt without a vector of a model that it was fitted to."""
MOST_ASKS: Final = 4.0
"""Largest absolute value of `asks`."""


class Chances(FittedWeights, frozen=True):
    """The fitted logistic regression for relevance. It computes what each evidence contributes."""

    def contributions(self, evidence: Mapping[str, float]) -> dict[str, float]:
        """Return `{name with PART: weight × value}` of each evidence, and the constant; they add up to the logit."""
        return {PART + "base": self.base} | {PART + name: self.weights[name] * evidence[name] for name in WITNESSES}


def asks(vectors: QueryVectors | None) -> float:
    """Return the log odds that a prompt needs a memory, by its vector: high for "how do we deploy?", low for "make it
    bold".

    Returns `UNSURE` if no weights were fitted to the model.
    """
    if vectors is None or vectors.fitted is None:
        return UNSURE
    base, weights = fitted_asks(vectors.fitted)
    if len(vectors.vector) != len(weights):
        return UNSURE
    return max(-MOST_ASKS, min(MOST_ASKS, base + float(vectors.vector @ weights)))


def away(here: float, elsewhere: float) -> float:
    """Return from -1 to 1 how clearly other projects fit the prompt better than the caller's.

    `here`, `elsewhere`: the best similarity at home and of other projects.
    """
    return math.tanh((elsewhere - here - EVEN) / SLIGHT)


def evidence_of(numbers: Mapping[str, float]) -> dict[str, float] | None:
    """Return `{name: evidence}` of one candidate, from its `numbers`; None if these have no late interaction.

    - `common`: the square of `common_words`, because high values count more.
    - `far`: how far the cosine is below `FAR`.
    - `lead`: its similarity minus that of the best other memory at home.
    - `rare`: the share of the prompt's words that it has, each weighted by its rarity in the vault.
    - `rank`: the logarithm of its place (from 1) among the memories at home in the search's order.
    - `asks`: see `asks`.
    - `away`: see `away`; -1 if the caller is in no project.

    At home are the caller's project, global memories and a project that the prompt names.
    """
    if "late_rare" not in numbers:
        return None
    common = numbers["common"]
    return {
        "common": common * common, "far": max(0.0, FAR - numbers["cosine"]),
        "rank": math.log(numbers["place_found"]), **{name: numbers[name] for name in ("lead", "rare", "asks", "away")},
    }  # fmt: skip


def relevance(numbers: Mapping[str, float], model: str | None = "") -> dict[str, float]:
    """Return one candidate's relevance by its text (key `text_alone`), and the contributions to it (keys with `PART`).

    Returns {} if `numbers` have no late interaction. `model`: `QueryVectors.fitted` of the model in use.
    """
    evidence = evidence_of(numbers)
    if evidence is None:
        return {}
    parts = fitted(model).contributions(evidence)
    return {**parts, TEXT_ALONE: sigmoid(sum(parts.values()))}


@cache
def fitted(model: str | None = "") -> Chances:
    """Return the weights that were fitted to a model (`QueryVectors.fitted`), or to the default one if none were."""
    return Chances.shipped(__package__, f"relevance{model or ''}.json", WITNESSES)


@cache
def fitted_asks(model: str = "") -> tuple[float, Float]:
    """Return the base and the weight of each dimension of a prompt's vector, as they were fitted to a model."""
    table = FittedWeights.shipped(__package__, f"asks{model}.json", map(str, range(DIMENSIONS)))
    return table.base, np.array(list(table.weights.values()), np.float32)


def _rarest(notes: int) -> float:
    """Return bm25's inverse document frequency of a word that is in one of `notes` notes."""
    return math.log((notes - 0.5) / 1.5)
