"""The first half of a search: parse the query, and gather candidates by words and by vectors.

`parse_query` finds a query's words, the memory types and the period that it names, whether it is a question, and its
filters. A named type is not a filter, because a decision may be recorded in a memory of type fact. `gather` fetches
more candidates than are requested, so that filters do not leave too few. `parts` splits a text that asks several
questions: "Which port do gateways use and who is our contact?" resembles no memory well, because each answer resembles
one half. A text is split only if every part begins with a question word, has a subject, and has no pronoun that may
refer to another part. A `Trace` records, for one candidate, every number of its score and the stage that dropped it.

`max_sim` compares candidates with the query token by token: late interaction (MaxSim). It is computed with two
weightings, because neither is best for every text: with tokens weighted by inverse document frequency (best for
short dialogue), and with equal weights (best for long messages).
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Callable, Sequence
from datetime import datetime
from importlib import resources
from typing import Any, Final

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

from ormahd.embedding.embedder import QueryVectors
from ormahd.embedding.reading import READABLE
from ormahd.embedding.token_vectors import cosines
from ormahd.index.embeddings import TokenVectors
from ormahd.index.reader import Reader
from ormahd.index.rows import Filter
from ormahd.model.node import ABOUT_SELF, Found, NodeType, SearchQuery
from ormahd.search import blend
from ormahd.text.times import Period, find_period
from ormahd.text.words import (
    FUNCTION_WORDS,
    IDENTITY_WORDS,
    QUESTION_WORDS,
    STOP_WORDS,
    fold,
    is_question,
    query_terms,
    words,
)

SHORT: Final = 2_000
"""Number of characters at the beginning of a text in which words for types are looked for. A longer text usually
states its request at the beginning."""
_FILE: Final = tomllib.loads(resources.files(__package__).joinpath("query_words.toml").read_text("utf-8"))
WORDS: Final = {NodeType(kind): frozenset(named.split()) for kind, named in _FILE["types"].items()}
"""Memory type -> words that name it, in the form that `words` returns."""
_WHO: Final = frozenset(_FILE["who"].split())
"""First words of questions that ask for a person."""
NAMING: Final = frozenset().union(*WORDS.values())
"""The words in `WORDS`, of all types."""


def named_types(text: str) -> frozenset[NodeType]:
    """Return the memory types that a text names; empty if it names none."""
    beginning = words(text[:SHORT])
    found = {kind for kind, named in WORDS.items() if not named.isdisjoint(beginning)}
    if beginning and beginning[0] in _WHO and is_question(text):
        found.add(NodeType.PERSON)
    return frozenset(found)


_IDLE: Final = frozenset(_FILE["idle"].split())
"""Words without a topic. A question of only such words and a time, such as "what did we do yesterday", asks for
everything of that time."""
_IDLE_ELSEWHERE: Final = frozenset(_FILE["idle_elsewhere"].split())
"""The words of `_IDLE` in German, Spanish and French."""
_IDLE_HAN: Final = frozenset(_FILE["idle_han"])
"""Characters of Chinese questions without a topic. Chinese text is split into pairs of characters."""


class ParsedQuery(Struct, frozen=True):
    """A parsed query. `chosen`: the filter on results, which has the caller's filters and leaves out expired
    memories."""

    text: str
    terms: tuple[str, ...]
    """Terms for full text search: words without stop words, and `about_self` if the query mentions the user."""
    topic: frozenset[str]
    """The words of three letters or more; they are compared with titles."""
    question: bool
    chosen: Filter
    limit: int
    space: str | None
    """Space of the caller, whose memories are favoured. None if the query filters by space: then no space is
    favoured."""
    period: Period | None
    """The period that the text names, if the caller gave no bounds."""
    only_time: bool
    """Whether the query asks for a time and nothing else. Then the newest memories of that time are the results."""
    now: datetime
    kinds: frozenset[NodeType] = frozenset()
    """Types that the question names; memories of them are slightly favoured."""

    @property
    def windowed(self) -> bool:
        """Whether the filter restricts the time of creation."""
        return self.chosen.created_after is not None or self.chosen.created_before is not None


def parse_query(query: SearchQuery, *, space: str | None, now: datetime) -> ParsedQuery:
    """Return the parsed form of a query from a caller in the space `space`.

    If the text names a period, memories of that period are favoured. The period becomes a filter if the text asks for
    nothing else.
    """
    windowed = query.created_after is not None or query.created_before is not None
    period = None if windowed else find_period(query.query, now)
    topic_text = period.rest if period is not None else query.query
    only_time = (period is not None or windowed) and subject_words(topic_text).isdisjoint(query_terms(topic_text))
    after, before = query.created_after, query.created_before
    if period is not None and only_time:
        after, before = period.after, period.before
    lists: tuple[list[Any] | None, ...] = (query.types, query.tiers, query.spaces, query.tags)
    types, tiers, spaces, tags = (None if values is None else tuple(values) for values in lists)
    terms = query_terms(query.query)
    about_self = [] if IDENTITY_WORDS.isdisjoint(words(query.query)) else [ABOUT_SELF]
    return ParsedQuery(
        text=query.query,
        terms=(*terms, *about_self),
        topic=frozenset(term for term in terms if len(term) > 2),
        question=is_question(query.query),
        chosen=Filter(
            types=types, tiers=tiers, spaces=spaces, tags=tags, created_after=after, created_before=before, alive_at=now
        ),
        limit=query.limit,
        space=space if query.spaces is None else None,
        period=period,
        only_time=only_time,
        kinds=named_types(query.query),
        now=now,
    )


def topic_words(text: str) -> frozenset[str]:
    """Return the words that say what a question is about; empty if it asks only about a time, or about the user."""
    return frozenset(words(text)) - STOP_WORDS - _IDLE - QUESTION_WORDS - IDENTITY_WORDS


def subject_words(text: str) -> frozenset[str]:
    """Return the topic words (`topic_words`) without function words and words that name a type.

    Empty for a question such as "what did we decide last week".
    """
    return frozenset(
        word for word in topic_words(text) - FUNCTION_WORDS - NAMING - _IDLE_ELSEWHERE if not _IDLE_HAN.issuperset(word)
    )


MAX_PARTS: Final = 3
"""Maximum number of parts; a text with more questions is searched as a whole."""
LONGEST: Final = 400
"""Maximum number of characters of a text that is split. A longer text is rarely a question: it is a task with its
context."""

_ASKING: Final = (
    "what|which|who|whom|whose|when|where|why|how|do|does|did|is|are|was|were|can|at which|in which|from where|until when|"
    "was|welche|welcher|welches|wer|wem|wen|wann|wo|woher|wohin|warum|wieso|wie|ist|sind|hat|haben|"
    "quel|quelle|quels|quelles|qui|quand|ou|pourquoi|comment|combien|"
    "que|cual|cuales|quien|quienes|cuando|donde|por que|como|cuanto|cuantos"
)
_SEAM: Final = re.compile(
    rf"(?:\?+\s*(?:and\s+|und\s+|et\s+|y\s+)?|,?\s+(?:and|und|et|y)\s+(?:also\s+|auch\s+)?)(?=(?:{_ASKING})\s+\S)"
)
_BEGIN: Final = re.compile(rf"(?:{_ASKING})\s")
_LEANING: Final = frozenset(
    [
        *("it", "its", "they", "them", "their", "that", "those", "this", "these", "he", "she", "his", "her"),
        *("er", "sie", "es", "ihn", "ihr", "ihre", "il", "elle", "ils", "elles", "lui", "lo", "esa", "ese", "eso"),
    ]
)
"""Pronouns by which a part refers to something that the part before it names."""


def parts(text: str) -> tuple[str, ...]:
    """Return the questions that a text asks, each with a question mark; empty if it asks one only, or cannot be split.

    A text is split only if each part begins with a question word, has a subject, and has no pronoun that may refer to
    another part.
    """
    if len(text) > LONGEST:
        return ()
    folded = fold(text)
    if len(folded) != len(text):
        folded = text.lower()  # a seam in the folded text has to be one in the text
    if len(folded) != len(text):
        return ()
    cuts = [0]
    found: list[str] = []
    for seam in _SEAM.finditer(folded):
        found.append(text[cuts[-1] : seam.start()])
        cuts.append(seam.end())
    found.append(text[cuts[-1] :])
    found = [part.strip(" \t\n,;?") for part in found]
    if not 1 < len(found) <= MAX_PARTS:
        return ()
    # a part that stands alone begins with a question word, has a subject, and has no pronoun
    alone = all(_BEGIN.match(fold(part)) and subject_words(part) and _LEANING.isdisjoint(words(part)) for part in found)
    return tuple(f"{part}?" for part in found) if alone else ()


class Trace(Struct):
    """How a candidate got its score. `numbers`: name -> unrounded value that the score is computed from (`shape`)."""

    node_id: str
    numbers: dict[str, float]
    words_rank: int | None = None
    bm25: float | None = None
    meaning_rank: int | None = None
    score: float = 0.0
    source: Found = "search"
    before: float = 0.0
    """The score without the learned blend."""
    dropped: str | None = None
    """The reason why the candidate is no result: the stage that dropped it and its limit. None: it is a result."""
    path: list[dict[str, Any]] = field(default_factory=list)
    """For an activated result: the edge that leads to it. For a newer memory that was placed before an older one: the
    older one's id."""
    older_than: str | None = None
    """Id of the newer memory that replaced this one."""

    def recompute(self) -> float:
        """Return the score, computed only from `numbers`."""
        n = self.numbers
        if "renewed" in n:  # set by `renew`: a newer memory moved before an older one, or that older one
            return n["renewed"]
        if "activation" in n:
            return n["seed"] * n["weight"] * n["factor"] * n["decay"]
        if "temporal" in n:
            return n["temporal"]
        if "logit" in n:
            base = blend.recompute(n)
        else:
            base = n["dampening"] * n["rrf_share"]
        # For small scores this is base × (1 + boost). It approaches 1 without reaching it, so boosted notes do not tie at 1.
        titled = 1.0 - math.pow(1.0 - min(base, 1.0), 1.0 + n["title"] + n["exact"])
        adjusted = titled * n["without"] * n["confidence"]
        final = min(1.0, adjusted * (n["tier"] + n["recency"] + n["access"]) * n["period"] * n["kind"])
        score = round(final * n["space"], 6)
        return round(score * n["part"], 6) if "part" in n else score

    def to_dict(self) -> dict[str, Any]:
        """Return the trace for `--explain`: {name: plain value} in the order in which the values were computed."""
        own = {"node_id": self.node_id, "source": self.source, "score": self.score, "dropped": self.dropped}
        ranks = {"words_rank": self.words_rank, "bm25": self.bm25, "meaning_rank": self.meaning_rank}
        path = {"path": self.path} if self.path else {}
        older = {"older_than": self.older_than} if self.older_than else {}
        return {**own, "before_blend": self.before, **ranks, **self.numbers, **path, **older}


Float = NDArray[np.float32]

LEAST_WEIGHT = 1e-4
"""Added to each token's weight, so that a question made only of words that every note contains can still be
compared."""
POWER = 2.0
"""Exponent of the mean over a question's tokens (2: root mean square). Close matches count more than weak ones,
because most words of a long prompt do not matter."""
SCANNED = 400_000
"""Number of tokens of notes whose cosines are computed at once. It limits the RAM needed."""


class Late(Struct, frozen=True):
    """Late interaction of a question (m tokens) with each of n notes.

    `rare`: with the question's tokens weighted by their rarity. `plain`: with equal weights. Both are from 0 to 1.
    """

    rare: Float
    plain: Float
    lengths: NDArray[np.int64]
    """Number of tokens of each note; 0: its token vectors are not stored."""
    matches: Float
    """For each token of the question, its similarity to the nearest token of the note, to the power `POWER`:
    float32[n, m]."""
    shares: Float
    """Weight of each token of the question; the sum is 1."""


def token_weights(idf: Float) -> Float:
    """Return the weight of each token of a question: its inverse document frequency plus `LEAST_WEIGHT`."""
    return np.asarray(idf + LEAST_WEIGHT, np.float32)


def max_sim(tokens: Float, weights: Float, ids: Sequence[str], stored: TokenVectors) -> Late:
    """Return the late interaction of a question with each note in `ids`.

    `tokens`: unit vectors of the question's tokens, float32[m, d]; `weights`: their weights; `stored`: the token
    vectors of the notes, of those that have any.
    """
    rare, plain = np.zeros(len(ids), np.float32), np.zeros(len(ids), np.float32)
    lengths = np.zeros(len(ids), np.int64)
    matches = np.zeros((len(ids), len(tokens)), np.float32)
    shares = np.asarray(weights / weights.sum() if len(weights) else weights, np.float32)
    row_of = {node_id: row for row, node_id in enumerate(ids)}
    at = np.array([row_of[node_id] for node_id in stored.ids], np.int64)
    lengths[at] = np.diff(stored.offsets)
    if not len(tokens) or not len(at):
        return Late(rare, plain, lengths, matches, shares)
    first = 0
    while first < len(at):
        begin = stored.offsets[first]
        last = max(first + 1, int(np.searchsorted(stored.offsets, begin + SCANNED, side="right")) - 1)
        together = cosines(stored.packed[begin : stored.offsets[last]], tokens)
        best = np.maximum.reduceat(together, stored.offsets[first:last] - begin, axis=0)
        best = np.clip(best, 0.0, 1.0) ** POWER
        rare[at[first:last]] = (best @ shares) ** (1.0 / POWER)
        plain[at[first:last]] = best.mean(axis=1) ** (1.0 / POWER)
        matches[at[first:last]] = best
        first = last
    return Late(rare, plain, lengths, matches, shares)


LEAST_COSINE: Final = 0.1
"""Cosine below which a memory is no candidate. Right answers have 0.31 to 0.57 with the default model."""
MIN_POOL: Final = 100
"""Minimum number of candidates fetched by words and by vectors each, so that later stages can drop many."""


EmbedQuery = Callable[[str], QueryVectors | None]
"""A function that returns a question's vectors, or None while the model is not loaded."""


class Meaning(Struct, frozen=True):
    """A question as vectors: one of all its words (`vector`, `focus`), and one for each token (`tokens`).

    `vector` is the one that the model computes. `focus` is the mean of `tokens`, weighted by `weights`.
    """

    vector: Float
    focus: Float
    """Mean of the token vectors, weighted by `weights`. It stresses rare words: without that, "what did Ana say about
    boats" would resemble every memory in which Ana speaks."""
    tokens: Float
    weights: Float
    """Weight of each token: its inverse document frequency in the vault, plus `LEAST_WEIGHT`."""


class Gathered(Struct, frozen=True):
    """The candidates found by words and by vectors; each list has (node id, score), best first.

    `meaning` None: no search by vectors took place. `pool`: number of candidates requested for each list.
    """

    by_words: list[tuple[str, float]]
    by_meaning: list[tuple[str, float]]
    meaning: Meaning | None
    pool: int
    degraded: list[str] = field(default_factory=list)


def embed_meaning(index: Reader, query: QueryVectors) -> Meaning:
    """Return a question as vectors, with its tokens weighted by how rare they are in the vault."""
    weights = token_weights(index.idf(query.token_ids, query.function_words))
    pooled = weights @ query.wide
    length = float(np.linalg.norm(pooled))
    focus = np.asarray(pooled / length, np.float32) if length > 0 else query.vector
    return Meaning(query.vector, focus, query.tokens, weights)


def gather(index: Reader, parsed: ParsedQuery, embed: EmbedQuery, least: int = MIN_POOL) -> Gathered:
    """Return at least `least` candidates found by words, and as many found by vectors, if there are so many.

    Only the words are searched if the model is not loaded (then `degraded` contains "vectors"), or if it does not read
    the question's language.
    """
    pool = max((10 if parsed.windowed else 3) * parsed.limit, least)
    words_found = index.begin_text(parsed.terms, pool, parsed.chosen)
    query = embed(parsed.text)
    if query is None or query.read < READABLE:  # vectors of a language that the model does not read say nothing
        degraded = ["vectors"] if query is None else []
        return Gathered(by_words=words_found(), by_meaning=[], meaning=None, pool=pool, degraded=degraded)
    meaning = embed_meaning(index, query)
    near = index.search_vectors(meaning.focus, pool, parsed.chosen)
    by_meaning = [(node_id, cosine) for node_id, cosine in near if cosine >= LEAST_COSINE]
    return Gathered(by_words=words_found(), by_meaning=by_meaning, meaning=meaning, pool=pool)
