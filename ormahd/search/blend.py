"""The learned blend: a logistic regression that computes each candidate's score from all evidence about it.

`blend_evidence` computes the evidence from the results of the earlier stages; `Blend.weigh` multiplies each piece of
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
    *("turn_earlier", "turn_company", "turn_crowd", "turn_named", "turn_other_named", "turn_asks", "turn_time"),
    *("ask_earlier", "ask_focus", "task_earlier", "task_rare", "task_words", "titled_rare", "titled_itself"),
    *("note_talk", "note_crowd", "note_named", "note_asks", "note_time", "note_itself"),
    *("long_earlier", "long_words", "long_rare", "long_whole", "long_company", "long_crowd", "long_asks", "long_rule"),
    *("long_itself", "any_crowded"),
)
"""Names of the pieces of evidence (see `blend_evidence`), each of which has a weight in `blend.json`: the kind of text
or query for which the piece counts, and the evidence. Pieces that got no weight in any fit are left out."""
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
QUERY: Final = (5.0, 50.0)
"""Number of tokens up to which a query counts as a question, and from which it counts as a description of a task."""
TALK: Final = (300.0, 6000.0)
"""Number of tokens of a conversation's candidates up to which its company counts in full, and from which it counts as a
crowd, in which any word is found."""
ASKING: Final = 3.0
"""Notes of one time count as a conversation in proportion to the share that ends with a question mark, times this; of
fewer than `FEW` notes, as if they were so many. Notes that are stored together seldom ask."""
FEW: Final = 4


class StageEvidence(Struct, frozen=True):
    """Results of the earlier stages, as arrays in the order of the n candidates; m is the number of tokens of the
    query."""

    witnesses: Mapping[str, Float]
    """Name -> value for each note: `earlier` (the score of the earlier stages: fused rank and similarity), `rare` (late
    interaction, weighted by rarity), `words` (words in common), `focus` (cosine of the nearest piece with the
    question's rare words) and `whole` (cosine of the question with the mean of all pieces)."""
    matches: NDArray[np.float32]
    """For each token of the query, its squared similarity to the nearest token of the note: float32[n, m]."""
    shares: NDArray[np.float32]
    """Weight of each token of the query; they add up to 1."""
    lengths: NDArray[np.int64]
    """Number of tokens of each note; 0: not known."""
    near: NDArray[np.bool_]
    """Whether two candidates are taken to come from one conversation (`shape.in_one_talk`): bool[n, n]."""


def blend_evidence(text: str, rows: Sequence[CandidateRow], found: StageEvidence) -> dict[str, Float]:
    """Return {name in `PIECES`: value for each candidate}: the evidence about the candidates of the query `text`.

    A name has two parts: the kind of text, and the evidence. The value is the evidence, multiplied by how much the
    candidate is of that kind. The kinds are:

    - `long`: a long text.
    - `turn`: a short text that begins with a speaker's name, as most candidates do: a part of a conversation.
    - `note`: another short text. For a note, similarities count by the query: `ask` for a question, `task` for a longer
      text.
    - `titled`: a note with a title.
    - `any`: every text.

    The evidence is one of `StageEvidence.witnesses`, or:

    - `company`: late interaction of the query with the note and the other candidates of its conversation as one text.
      Often one of them names what the question asks about, and another one has the answer. `crowd` is the same, in a
      conversation so long that it has most words; `crowded` says how long it is. `talk` is `company` for notes that
      need not be a conversation: it counts if some of them ask.
    - `named`: the query contains a word of the note's head (the name before a colon at its beginning: its speaker or
      subject).
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
    headed = np.array([bool(one.head) for one in each], np.float64)
    named = np.array([not one.head.isdisjoint(asked) for one in each], np.float64)
    asks = np.array([one.asks for one in each], np.float64)
    titled = np.array([row.title is not None for row in rows], np.float64)

    company = _company(found)
    crowded = _between(TALK, found.near @ lengths)
    asking = np.minimum(1.0, ASKING * (found.near @ asks) / np.maximum(found.near.sum(axis=1), FEW))
    evidence = {
        **found.witnesses,
        "company": company * (1.0 - crowded),
        "talk": company * (1.0 - crowded) * asking,
        "crowd": company * crowded,
        "crowded": crowded,
        "named": named * brief,
        "other_named": headed * (1.0 - named) * max(named, default=0.0) * brief,
        "asks": asks * brief,
        "time": asks_for_time(text) * np.array([one.tells_time for one in each], np.float64),
        "rule": np.array([one.rules for one in each], np.float64),
        "itself": np.ones(len(rows)),
    }

    long = _between((SHORT, LONG), lengths)
    speaking = headed * (1.0 - titled)
    turn_share = (1.0 - long) * speaking * min(1.0, 2.0 * float(speaking.mean()) if len(rows) else 0.0)
    note = 1.0 - long - turn_share
    task = _between(QUERY, np.full(len(rows), len(found.shares)))
    share = {"turn": turn_share, "note": note, "ask": note * (1.0 - task), "task": note * task, "titled": note * titled}
    share |= {"long": long, "any": np.ones(len(rows))}
    return {name: share[name.partition("_")[0]] * evidence[name.partition("_")[2]] for name in PIECES}


def _between(bounds: tuple[float, float], values: Float) -> Float:
    """Return 0 for values up to the first bound, 1 from the second, and in between by their logarithm."""
    low, high = bounds
    return np.asarray(np.clip(np.log(np.maximum(values, low) / low) / np.log(high / low), 0.0, 1.0), np.float64)


def _company(found: StageEvidence) -> Float:
    """Return, for each note, the late interaction of the query with the note's conversation as one text.

    For each token of the query, its best match in any candidate of the conversation counts.
    """
    talks = {of.tobytes(): of for of in found.near}
    best = {talk: np.sqrt(found.matches[of].max(axis=0) @ found.shares) for talk, of in talks.items()}
    return np.array([best[of.tobytes()] for of in found.near], np.float64)


class Blend(FittedWeights, frozen=True):
    """Computes the learned score of candidates by the fitted weights of the evidence in `PIECES`."""

    def weigh(self, evidence: Mapping[str, Float]) -> dict[str, Float]:
        """Return {name: value for each candidate}: weight × value of each evidence, `base`, their sum `logit`, the
        score `likely`."""
        parts = {PART + name: self.weights[name] * np.asarray(evidence[name], np.float64) for name in PIECES}
        base = np.full(len(parts[PART + PIECES[0]]), self.base)
        logit = sum(parts.values(), base)
        return {**parts, "base": base, "logit": logit, "likely": likely(logit)}


def likely(logit: Float) -> Float:
    """Return the scores, from 0 to 1, of logits."""
    return np.asarray(1.0 / (1.0 + np.exp(-np.clip(SLOPE * (logit - MIDDLE), -60.0, 60.0))), np.float64)


def recompute(numbers: Mapping[str, float]) -> float:
    """Return the score `likely` of one candidate, computed from its `Trace.numbers`."""
    logit = sum((numbers[PART + name] for name in PIECES), numbers["base"])
    return sigmoid(SLOPE * (logit - MIDDLE))


@cache
def fitted() -> Blend:
    """Return the weights in `blend.json`, read once."""
    return Blend.shipped(__package__, "blend.json", PIECES)
