"""The learned blend: a logistic regression that computes each candidate's score from all evidence about it.

`pieces` computes the evidence from the results of the earlier stages; `Blend.weigh` multiplies each piece of
evidence by its weight. The weights are in `blend.json`. They are fitted by `python -m tests.bench fit`, which says
on which texts. The score orders the candidates of one query. It is not absolute, so it does not decide whether a
memory is whispered (`whisper.relevance` does).
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

PIECES: Final = (
    *("turn_earlier", "turn_company", "turn_crowd", "turn_named", "turn_other_named", "turn_asks", "turn_time", "turn_rule"),
    *("note_itself", "note_rare", "note_words", "note_focus", "note_window", "note_named", "note_time"),
    *("long_itself", "long_rare", "long_plain", "long_words", "long_window", "long_whole", "long_company", "long_crowd"),
    *("long_rule", "any_crowded"),
)  # fmt: skip
"""Names of the pieces of evidence (see `pieces`), each of which has a weight in `blend.json`: the kind of text for which
the piece counts, and what it says. Left out are pieces that got no weight in any fit."""
PART: Final = "part_"
"""Prefix of the numbers in a trace that hold weight × value of a piece of evidence. Their sum plus `base` is
`logit`."""
SLOPE: Final = 0.15
MIDDLE: Final = 2.0
"""The score is the logistic function of SLOPE × (logit - MIDDLE): its usual range is that of a similarity (0.2 to
0.8). So the factors and boosts that are applied afterwards change it as they change a similarity, and the best
notes do not all reach 1."""
SHORT: Final = 30.0
"""Number of tokens (two sentences) up to which a note counts as short. In a longer note its head (the name before a
colon) and its question mark count less."""
LONG: Final = 480.0
"""Number of tokens from which a note counts as long. In between it is partly short and partly long."""
TALK: Final = (300.0, 6000.0)
"""Number of tokens of a conversation's candidates up to which its company counts in full, and from which it counts as a
crowd, in which any word is found."""


class StageEvidence(Struct, frozen=True):
    """Results of the earlier stages, as arrays in the order of the n candidates; m is the number of tokens of the
    query."""

    witnesses: Mapping[str, Float]
    """What each witness says of each note: `earlier` (the score of the earlier stages: fused rank and similarity), `rare`
    and `plain` (late interaction, weighted by rarity and with equal weights), `words` (words in common), `focus`, `window`
    (cosine of the nearest piece with the question's rare words, and with the question) and `whole` (cosine of the mean of
    all pieces)."""
    matches: NDArray[np.float32]
    """For each token of the query, its squared similarity to the nearest token of the note: float32[n, m]."""
    shares: NDArray[np.float32]
    """Weight of each token of the query; they add up to 1."""
    lengths: NDArray[np.int64]
    """Number of tokens of each note; 0: not known."""
    near: NDArray[np.bool_]
    """Whether two candidates are taken to come from one conversation (`shape.of_one_moment`): bool[n, n]."""


def pieces(text: str, rows: Sequence[CandidateRow], found: StageEvidence) -> dict[str, Float]:
    """Return the evidence for each candidate of the query `text`, by the names in `PIECES`.

    The kinds are `turn` (a short text without a title, as in a conversation), `note` (a short text with a title) and
    `long`. A piece is multiplied by how much the candidate is of that kind; the shares of the three add up to 1. What a
    piece says is one of the `witnesses`, or:

    - `company`: late interaction of the query with the note and the other candidates of its conversation as one text. Often
      one of them names what the question asks about, and another one has the answer. `crowd` is the same, in a
      conversation so long that it has most words; `crowded` says how long it is.
    - `named`: the query contains a word of the note's head (the name before a colon at its beginning: its speaker or subject).
    - `other_named`: the query names the head of another candidate, but not that of this note.
    - `asks`: the note ends with a question mark.
    - `time`: the query asks for a time, and the note names one.
    - `rule`: the note states a standing instruction or a preference, which shares few words with what it is for.
    - `itself`: 1, so that kinds of text are compared with each other.
    """
    asked = frozenset(words(text))
    each = [row.traits for row in rows]
    lengths = np.where(found.lengths > 0, found.lengths, SHORT).astype(np.float64)
    brief = np.minimum(1.0, SHORT / lengths)
    named = np.array([not one.head.isdisjoint(asked) for one in each], np.float64)
    when = asks_for_time(text)
    company = _company(found)
    crowded = np.clip(np.log(np.maximum(found.near @ lengths, 1.0) / TALK[0]) / np.log(TALK[1] / TALK[0]), 0.0, 1.0)
    says = {
        **found.witnesses,
        "company": company * (1.0 - crowded),
        "crowd": company * crowded,
        "crowded": crowded,
        "named": named * brief,
        "other_named": np.array([bool(one.head) for one in each]) * (1.0 - named) * max(named, default=0.0) * brief,
        "asks": np.array([one.asks for one in each], np.float64) * brief,
        "time": np.array([when and one.tells_time for one in each], np.float64),
        "rule": np.array([one.rules for one in each], np.float64),
        "itself": np.ones(len(rows)),
    }
    long = np.clip(np.log(lengths / SHORT) / np.log(LONG / SHORT), 0.0, 1.0)
    titled = np.array([row.title is not None for row in rows], np.float64)
    share = {"turn": (1 - long) * (1 - titled), "note": (1 - long) * titled, "long": long, "any": np.float64(1)}
    return {name: share[name.partition("_")[0]] * says[name.partition("_")[2]] for name in PIECES}


def _company(found: StageEvidence) -> Float:
    """Return the late interaction of the query with each note's conversation: for each token of the query, the best
    match in any candidate of the conversation counts."""
    together = found.matches.astype(np.float64)
    alike: dict[bytes, NDArray[np.float64]] = {}
    for at in np.flatnonzero(found.near.sum(axis=1) > 1):
        key = found.near[at].tobytes()
        if key not in alike:
            alike[key] = found.matches[found.near[at]].max(axis=0).astype(np.float64)
        together[at] = alike[key]
    return np.asarray(np.sqrt(together @ found.shares.astype(np.float64)), np.float64)


class Blend(FittedWeights, frozen=True):
    """Computes the learned score of candidates by the fitted weights of the evidence in `PIECES`."""

    def weigh(self, evidence: Mapping[str, Float]) -> dict[str, Float]:
        """Return {name: value for each candidate}: each piece's weight × value, `base`, their sum `logit`, and
        the score `likely`."""
        parts = {PART + name: self.weights[name] * np.asarray(evidence[name], np.float64) for name in PIECES}
        size = len(next(iter(parts.values())))
        logit = np.full(size, self.base)
        for part in parts.values():
            logit = logit + part
        return {**parts, "base": np.full(size, self.base), "logit": logit, "likely": likely(logit)}


def likely(logit: Float) -> Float:
    """Return the scores, from 0 to 1, of logits."""
    return np.asarray(1.0 / (1.0 + np.exp(-np.clip(SLOPE * (logit - MIDDLE), -60.0, 60.0))), np.float64)


def recompute(numbers: Mapping[str, float]) -> float:
    """Return the score `likely`, computed from `numbers` (`Trace.numbers`)."""
    logit = numbers["base"]
    for name in PIECES:
        logit = logit + numbers[PART + name]
    return sigmoid(SLOPE * (logit - MIDDLE))


@cache
def fitted() -> Blend:
    """Return the weights from `blend.json`."""
    return Blend.shipped(__package__, "blend.json", PIECES)
