"""The blend: a logistic regression that weighs all evidence about a candidate and decides the order of the results.

`pieces` turns what the earlier stages computed into evidence by name; `Blend.weigh` multiplies each piece with its
weight. The weights stand in `blend.json` and are fitted by `python -m tests.bench fit`, which says on which texts.
Evidence is compared among the candidates of one query, so the result orders them; it is no measure of whether to speak
at all (`whisper.relevance` is).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from ormahd.index.rows import CandidateRow
from ormahd.model.chance import FittedWeights, sigmoid
from ormahd.text.traits import asks_for_time
from ormahd.text.words import words

Float = NDArray[np.float64]

PIECES: Final = ("earlier", "company", "named", "other_named", "asks", "time", "long")
"""Names of the evidence, in the order of the table."""
PART: Final = "part_"
"""Beginning of the names of the contributions in a trace: weight × value. With `base` they add up to `logit`."""
SLOPE: Final = 0.15
MIDDLE: Final = 2.0
"""The score is the logistic function of SLOPE × (logit - MIDDLE): it has the range of a similarity (0.2 to 0.8). So the
factors for confidence, tier, space and recency and the boosts for titles and names act on it as on a similarity, and
the best notes do not all come to 1."""
LONG: Final = 30.0
"""Tokens (two sentences) from which a note counts as long, and up to which its head and its question speak for all of it."""
LONGEST: Final = 240.0
"""Tokens from which all notes count as equally long: of two documents the longer one is not favoured."""


class StageEvidence(Struct, frozen=True):
    """What the earlier stages found about the candidates, in their order."""

    earlier: Float
    """The score of the earlier stages: fused rank and similarity."""
    plain: Float
    """Late interaction with equal weights."""
    matches: NDArray[np.float32]
    """Squared similarity of each token of the query and the token of the note that is nearest to it, float32[n, m]."""
    shares: NDArray[np.float32]
    """Weight of each token of the query; they add up to 1."""
    lengths: NDArray[np.int64]
    """Number of tokens of each note; 0: not known."""
    near: NDArray[np.bool_]
    """Which candidates are of one conversation, bool[n, n]."""


def pieces(text: str, rows: Sequence[CandidateRow], found: StageEvidence) -> dict[str, Float]:
    """Return the evidence for each candidate of the query `text`, by the names in `PIECES`.

    - `earlier`: the score of the earlier stages.
    - `company`: late interaction of the note read together with the candidates of its conversation. A question is often
      answered by what one of them names and another says.
    - `named`: the query names whom the note is about or who speaks in it; `other_named`: it names another one's.
    - `asks`: the note is itself a question.
    - `time`: the query asks for a time, and the note tells one.
    - `long`: unweighted late interaction, for notes that are longer than `LONG`.
    """
    said = frozenset(words(text))
    each = [row.traits for row in rows]
    lengths = np.where(found.lengths > 0, found.lengths, LONG)
    brief = np.minimum(1.0, LONG / lengths)
    named = np.array([not one.head.isdisjoint(said) for one in each], np.float64)
    headed = np.array([bool(one.head) for one in each], np.float64)
    when = asks_for_time(text)
    return {
        "earlier": found.earlier,
        "company": _company(found),
        "named": named * brief,
        "other_named": headed * (1.0 - named) * max(named, default=0.0) * brief,
        "asks": np.array([one.asks for one in each], np.float64) * brief,
        "time": np.array([when and one.tells_time for one in each], np.float64),
        "long": found.plain * np.log(np.clip(lengths / LONG, 1.0, LONGEST / LONG)),
    }


def _company(found: StageEvidence) -> Float:
    """Return the late interaction of each note together with its conversation: for each token of the query, the best
    match in any of its candidates counts."""
    together = found.matches.astype(np.float64)
    alike: dict[bytes, NDArray[np.float64]] = {}
    for at in np.flatnonzero(found.near.sum(axis=1) > 1):
        key = found.near[at].tobytes()
        if key not in alike:
            alike[key] = found.matches[found.near[at]].max(axis=0).astype(np.float64)
        together[at] = alike[key]
    return np.asarray(np.sqrt(together @ found.shares.astype(np.float64)), np.float64)


class Blend(FittedWeights, frozen=True):
    """The weights of the blend."""

    def weigh(self, evidence: Mapping[str, Float]) -> dict[str, Float]:
        """Return the contribution of each piece, `base`, their sum `logit`, and the score `likely`."""
        parts = {PART + name: self.weights[name] * np.asarray(evidence[name], np.float64) for name in PIECES}
        size = len(next(iter(parts.values())))
        logit = np.full(size, self.base)
        for part in parts.values():
            logit = logit + part
        return {**parts, "base": np.full(size, self.base), "logit": logit, "likely": likely(logit)}


def likely(logit: Float) -> Float:
    """Return the score of a logit, from 0 to 1."""
    return np.asarray(1.0 / (1.0 + np.exp(-np.clip(SLOPE * (logit - MIDDLE), -60.0, 60.0))), np.float64)


def recompute(numbers: Mapping[str, float]) -> float:
    """Return the score from the contributions in a trace."""
    logit = numbers["base"]
    for name in PIECES:
        logit = logit + numbers[PART + name]
    return sigmoid(SLOPE * (logit - MIDDLE))


@cache
def fitted() -> Blend:
    """Return the weights that are shipped."""
    return Blend.shipped(__package__, "blend.json", PIECES)
