"""Compute each candidate's score, from 0 to 1, from the similarity of its text and from its other properties.

Steps: similarity, blend with the fused rank, the learned blend (`blend.py`), title and exact names, confidence, tier,
recency, access, space. All candidates are computed at once. A `Trace` holds one candidate's numbers, and
`Trace.recompute` computes the score from them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from ormahd.index.rows import CandidateRow, micros
from ormahd.model.node import Tier
from ormahd.search.blend import StageEvidence, blend_evidence, fitted
from ormahd.search.exact import Exact
from ormahd.search.fuse import Fused
from ormahd.search.gather import Late, ParsedQuery
from ormahd.text.words import stems, words

Float = NDArray[np.float64]

FULL_ACCESS = 20
"""Number of confirmed uses from which the access boost is largest: log1p(count) / log1p(20). Merely being found
does not count: otherwise a memory that was found for one question would rank higher for every question."""
NAMED = 0.1
"""Share by which the score of a memory rises if the question names its type."""
CHANCE_LIMIT = 0.9
"""Largest correction for a note's length. It is below 1, so that a perfect match in a very long note still counts."""
DAY_US = 86_400_000_000
LATE_WEIGHT, COSINE_WEIGHT, WORDS_WEIGHT = 0.6, 0.25, 0.15
"""Weights of late interaction, cosine and common words in the similarity. A larger cosine weight helps long notes but
harms dialogue."""
WORDS_HALF = 20.0
"""The bm25 value that is converted to 0.5. Two to three rare words in common have it."""
MOMENT_WEIGHT = 0.2
"""Weight of the best memory of a conversation in the score of its other memories."""
MOMENT_S = 1800.0
"""Two memories created at most this many seconds apart are taken to come from one conversation. The results
hardly depend on the value."""
BREVITY_TOKENS = 3.0
"""The similarity of a note of n tokens is multiplied by n / (n + this), because a very short note about Ana
resembles every question about Ana."""
LENGTH_CHANCE = 0.1
"""Amount by which late interaction grows by chance when a note becomes e times longer. Estimated on unrelated
texts."""
LENGTH_FREE: Final = 600
"""Length in characters up to which late interaction is not corrected: notes of a few sentences need no correction."""
BLEND: Final = 0.98
"""Share of the similarity in the mix of similarity and fused rank, which is far less exact."""
QUESTION_BLEND: Final = 1.0
"""Like `BLEND`, if the query is a question: the fused rank only chooses the candidates, the similarity alone
orders them."""
TITLE_BOOST: Final = 2.0
"""Boost if the title has all words of the query; proportionally less if it has some, but all rare ones. Questions
get none."""
TIER_BOOSTS: Final = {Tier.CORE: 0.1, Tier.WORKING: 0.0, Tier.ARCHIVAL: -0.1}
"""Tier -> share by which a memory's score rises or falls."""
FTS_ONLY_DAMPENING = 0.5
"""Factor on the score of a candidate without vectors."""
PERIOD_BOOST = 0.1
"""Share by which the score of a memory rises if it was created in the period that the query names."""
BOOST_OTHER = 0.6
"""Factor for memories of other spaces: they answer only if nothing of this space fits nearly as well."""
RECENCY_BOOST, RECENCY_HALF_LIFE_DAYS = 0.05, 7.0
"""Largest share by which a score rises because of recent access, and the number of days in which this share halves."""
ACCESS_BOOST = 0.05
"""Largest share by which the score of a memory rises because it was often opened or judged useful."""
HALVINGS = 1000.0
"""Maximum number of half-lives in the exponent of recency; keeps the power within float64."""


class Evidence(Struct, frozen=True):
    """Similarity of the query to each candidate by vectors, in the candidates' order. NaN: the note has no
    vectors yet."""

    focus: Float
    """Cosine with `Meaning.focus`, which stresses the question's rare words."""
    cosine: Float
    """Cosine with the question's vector as the model computes it: an absolute measure that a gate can use."""
    whole: Float
    """Cosine of the question's vector with the mean of the vectors of all pieces of the note."""
    late: Late


class Named(Struct, frozen=True):
    """What a query names.

    `exact`: the effect of its exact terms on scores. `rare`: its words that few notes contain; empty for a question.
    """

    exact: Exact
    rare: frozenset[str]


class Shaped(Struct, frozen=True):
    """Scores of the candidates, in their order, and the numbers they are computed from: {name: value for each
    candidate}."""

    scores: Float
    before: Float
    """The scores computed without the learned blend. A candidate with too low a score here is no result."""
    judged: Mapping[str, Float]
    """Numbers computed from the texts; valid only for candidates with vectors."""
    known: NDArray[np.bool_]
    """Which candidates have vectors."""
    factors: Mapping[str, Float]
    """Numbers that do not depend on the similarity of the texts."""
    evidence: Mapping[str, Float]
    """The evidence of the learned blend (`blend.PIECES`); empty without vectors."""

    def numbers(self, at: int) -> dict[str, float]:
        """Return the numbers of the candidate at the position `at`, as {name: value} for `Trace.numbers`."""
        judged = {name: float(values[at]) for name, values in self.judged.items()} if self.known[at] else {}
        return judged | {name: float(values[at]) for name, values in self.factors.items()}


def similarity(
    rows: Sequence[CandidateRow], bm25: Float, evidence: Evidence, near: NDArray[np.bool_]
) -> dict[str, Float]:
    """Return {name: value for each note}: `similarity`, how well its text answers, and the numbers that it is computed
    from.

    It is a weighted mean of three values: late interaction (less what a note of that length reaches by chance), the
    cosine with `Meaning.focus`, and the words in common (`bm25`). It is lower for very short notes. The best memory of
    a conversation raises the others.

    `near`: whether two memories are of one conversation; each memory is near itself, so this never lowers a similarity.
    """
    # late interaction, without what a note of this length reaches by chance
    lengths = evidence.late.lengths.astype(np.float64)
    size = np.array([row.size + len(row.title or "") for row in rows], np.float64)
    chance = LENGTH_CHANCE * np.log(np.maximum(size / LENGTH_FREE, 1.0))
    chance = np.minimum(chance, CHANCE_LIMIT)
    raw = (evidence.late.rare.astype(np.float64) + evidence.late.plain) / 2
    late = np.clip((raw - chance) / (1.0 - chance), 0.0, 1.0)

    # the weighted mean; late interaction counts only for notes whose tokens are known
    shared = bm25 / (bm25 + WORDS_HALF)
    focus = np.clip(np.nan_to_num(evidence.focus), 0.0, 1.0)
    late_weight = np.where(lengths > 0, LATE_WEIGHT, 0.0)
    weights = np.stack([late_weight, np.full(len(rows), COSINE_WEIGHT), np.full(len(rows), WORDS_WEIGHT)])
    brevity = np.where(lengths > 0, lengths / (lengths + BREVITY_TOKENS), 1.0)
    total = np.maximum(weights.sum(axis=0), 1e-9)
    own = (weights * np.stack([late, focus, shared])).sum(axis=0) / total * brevity

    # the best memory of a conversation raises the others
    moment = np.where(near, np.where(np.isnan(evidence.focus), 0.0, own)[None, :], -1.0).max(axis=1)
    judged = (own + MOMENT_WEIGHT * moment) / (1.0 + MOMENT_WEIGHT)
    inputs: dict[str, Any] = {"late_rare": evidence.late.rare, "late_plain": evidence.late.plain, "chance": chance}
    weighted = {
        "late": late,
        "late_weight": weights[0],
        "focus": focus,
        "words": shared,
        "brevity": brevity,
        "own": own,
    }
    return {**inputs, **weighted, "moment": moment, "similarity": judged, "cosine": np.nan_to_num(evidence.cosine)}


def in_one_talk(rows: Sequence[CandidateRow]) -> NDArray[np.bool_]:
    """Return for each two memories whether they seem to come from one conversation, as bool[n, n]. The diagonal is
    True.

    They do if they are in one space and were created within `MOMENT_S` of each other.
    """
    times = np.array([row.created for row in rows], np.int64)
    spaces = {space: number for number, space in enumerate(dict.fromkeys(row.space for row in rows))}
    of = np.array([spaces[row.space] for row in rows])
    return np.asarray((np.abs(times[:, None] - times[None, :]) <= MOMENT_S * 1e6) & (of[:, None] == of[None, :]))


def shape(
    rows: Sequence[CandidateRow], fused: Sequence[Fused], evidence: Evidence | None, parsed: ParsedQuery, named: Named
) -> Shaped:
    """Return the scores of all candidates, and the numbers that they are computed from. `evidence` None: without
    vectors."""
    judged: dict[str, Float] = {}
    known = np.zeros(len(rows), np.bool_)
    if evidence is not None and rows:
        near = in_one_talk(rows)
        judged = similarity(rows, np.array([candidate.bm25 or 0.0 for candidate in fused], np.float64), evidence, near)
        known = ~np.isnan(evidence.focus)
    learned: dict[str, Float] = {}
    factors = _factors(rows, fused, parsed, named)
    earlier = factors["dampening"] * factors["rrf_share"]
    if evidence is not None and judged:
        blended = (1.0 - factors["blend"]) * factors["rrf_norm"] + factors["blend"] * judged["similarity"]
        earlier = np.where(known, blended, earlier)
        late = evidence.late
        witnesses = {"earlier": earlier, "rare": judged["late_rare"], "whole": np.nan_to_num(evidence.whole)}
        witnesses |= {"words": judged["words"], "focus": judged["focus"]}
        stages = StageEvidence(witnesses, late.matches, late.shares, late.lengths, near)
        learned = blend_evidence(parsed.text, rows, stages)
        judged |= {"earlier": earlier} | fitted().weigh(learned)
    before = _scores(earlier, factors)
    scores = _scores(np.where(known, judged["likely"], earlier), factors) if judged else before
    return Shaped(scores, before, judged, known, factors, learned)


def _scores(base: Float, factors: Mapping[str, Float]) -> Float:
    """Return the scores, from how well the texts answer (`base`) and from the other properties (`factors`)."""
    rest = 1.0 - np.minimum(base, 1.0)
    boost = factors["title"] + factors["exact"]
    for at in np.flatnonzero(boost):
        # For small scores this is base × (1 + boost). It approaches 1 without reaching it, so boosted notes do not tie at 1.
        rest[at] = math.pow(rest[at], 1.0 + boost[at])
    adjusted = (1.0 - rest) * factors["without"] * factors["confidence"]
    used = factors["tier"] + factors["recency"] + factors["access"]
    scores = np.minimum(1.0, adjusted * used * factors["period"] * factors["kind"]) * factors["space"]
    return np.array([round(score, 6) for score in scores.tolist()], np.float64)


def _factors(
    rows: Sequence[CandidateRow], fused: Sequence[Fused], parsed: ParsedQuery, named: Named
) -> dict[str, Float]:
    """Return {name: value for each candidate} of the numbers that do not depend on the similarity of the texts."""
    topic = frozenset[str]() if parsed.question else parsed.topic
    overlaps = title_overlaps(topic, named.rare, [row.title for row in rows])
    exact = [named.exact.of(row.id) for row in rows]
    after, before = (micros(parsed.period.after), micros(parsed.period.before)) if parsed.period else (0, -1)
    idle = np.array([row.accessed for row in rows], np.int64)
    days = np.maximum(micros(parsed.now) - idle, 0) / DAY_US
    recency = 2.0 ** -np.minimum(days / RECENCY_HALF_LIFE_DAYS, HALVINGS)
    columns: dict[str, Sequence[float] | Float] = {
        "rrf": [candidate.rrf for candidate in fused],
        "rrf_norm": [candidate.rrf_norm for candidate in fused],
        "rrf_share": [candidate.rrf_share for candidate in fused],
        "blend": np.full(len(rows), QUESTION_BLEND if parsed.question else BLEND),
        "dampening": np.full(len(rows), FTS_ONLY_DAMPENING),
        "title": [TITLE_BOOST * overlap for overlap in overlaps],
        "exact": [boost for boost, _ in exact],
        "without": [factor for _, factor in exact],
        "confidence": [certainty(row.confidence) for row in rows],
        "tier": [1.0 + TIER_BOOSTS[row.tier] for row in rows],
        "recency": RECENCY_BOOST * recency,
        "access": [
            ACCESS_BOOST * min(1.0, math.log1p(row.strength.use_count) / math.log1p(FULL_ACCESS)) for row in rows
        ],
        "period": [1.0 + PERIOD_BOOST * (after <= row.created <= before) for row in rows],
        "kind": [1.0 + (NAMED if row.type in parsed.kinds else 0.0) for row in rows],
        "space": [space_factor(row.space, parsed.space) for row in rows],
    }
    return {name: np.asarray(values, np.float64) for name, values in columns.items()}


def title_overlaps(topic: frozenset[str], rare: frozenset[str], titles: Sequence[str | None]) -> list[float]:
    """Return for each title the share of the words in `topic` that it contains, in any inflected form.

    The share is 0 if a word in `rare` is not in the title: a title that shares common words only is no answer.
    """
    if not topic:
        return [0.0] * len(titles)
    # A quick check of letters: stemming keeps the first two letters of a word, so there is no overlap if those of a rare
    # word, or those of all words of `topic`, are not in the title.
    rare_begins, topic_begins = [_begins(word) for word in rare], [_begins(word) for word in topic]
    title_words: list[list[str]] = []
    for title in titles:
        lowered = (title or "").lower()
        quick = all(begin in lowered for begin in rare_begins) and any(begin in lowered for begin in topic_begins)
        title_words.append(words(title) if title and (quick or not title.isascii()) else [])
    stems(chain(topic, rare, *title_words))  # all at once: one by one takes five times as long
    rare_stems = [stems((word,)) for word in rare]
    topic_stems = [stems((word,)) for word in topic]
    found = []
    for listed in title_words:
        title_stems = stems(listed)
        whole = bool(listed) and all(rare_stem <= title_stems for rare_stem in rare_stems)
        shared = sum(topic_stem <= title_stems for topic_stem in topic_stems)
        found.append(shared / len(topic) if whole else 0.0)
    return found


def _begins(word: str) -> str:
    """Return the first two letters of a word; "" if stemming may change them (it is short, or not ASCII letters)."""
    return word[:2] if len(word) > 3 and word.isascii() and word.isalpha() else ""


def certainty(confidence: float) -> float:
    """Return the factor for a memory's confidence: 0.4 + 0.6 × confidence."""
    return 0.4 + 0.6 * confidence


def space_factor(space: str | None, favoured: str | None) -> float:
    """Return the factor on a memory's score for its space: `BOOST_OTHER` for spaces other than `favoured`, else 1.

    It is 1 for global memories, and for all memories if no space is favoured.
    """
    return BOOST_OTHER if favoured is not None and space not in (None, favoured) else 1.0
