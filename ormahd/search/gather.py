"""Gather candidates by words and by meaning, wide enough that a filter never leaves too few; and score them by late interaction.

MaxSim is computed twice, because neither weighting is best on every text: tokens weighted by inverse document frequency (best on
short dialogue), and all tokens alike (best on long messages).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

from ormahd.embedding.token_vectors import cosines
from ormahd.index.rows import Candidate, EdgeRow, Filter, NodeRow
from ormahd.search.hear import Heard
from ormahd.settings import SearchSettings
from ormahd.text.standing import Compared

Float = NDArray[np.float32]

LEAST_WEIGHT = 1e-4
"""So that a question of words that every note has is still compared by them."""
POWER = 2.0
"""The mean over a question's tokens is a root mean square: what matches closely counts more than what hardly does, as
most words of a long prompt are beside the point. Measured against the plain mean: a point of any@10 on prompts that
are no questions and of mean reciprocal rank on long notes, half a point less on dialogue."""
SCANNED = 400_000
"""Tokens whose cosines are there at once: 50 MB, and 1.6 MB of cosines with each token of the question."""


class Stored(Protocol):
    """Token vectors of notes, one after the other (`index.embedding_cache.TokenVectors`): note `ids[i]` has the rows
    `offsets[i]` to `offsets[i + 1]` of `packed` (uint8[n, d / 2], of `embedding.token_vectors.pack`). Notes without tokens are left out."""

    @property
    def ids(self) -> Sequence[str]: ...
    @property
    def offsets(self) -> NDArray[np.int64]: ...
    @property
    def packed(self) -> NDArray[np.uint8]: ...


class Late(Struct, frozen=True):
    """Per note: MaxSim weighted by rarity, MaxSim unweighted (both a mean cosine, up to 1), and its tokens."""

    rare: Float
    plain: Float
    lengths: NDArray[np.int64]
    """Tokens of the note; 0: its token vectors are not there."""


def token_weights(idf: Float) -> Float:
    """What each token of a question counts: its inverse document frequency, and a little where it is in every note."""
    return np.asarray(idf + LEAST_WEIGHT, np.float32)


def max_sim(tokens: Float, weights: Float, ids: Sequence[str], stored: Stored) -> Late:
    """Compare a question's tokens (unit, float32[m, d]) with those of each note in `ids`."""
    rare, plain = np.zeros(len(ids), np.float32), np.zeros(len(ids), np.float32)
    lengths = np.zeros(len(ids), np.int64)
    row = {one: at for at, one in enumerate(ids)}
    at = np.array([row[one] for one in stored.ids], np.int64)
    lengths[at] = np.diff(stored.offsets)
    if not len(tokens) or not len(at):
        return Late(rare, plain, lengths)
    shares = weights / weights.sum()
    first = 0
    while first < len(at):
        begin = stored.offsets[first]
        last = max(first + 1, int(np.searchsorted(stored.offsets, begin + SCANNED, side="right")) - 1)
        together = cosines(stored.packed[begin : stored.offsets[last]], tokens)
        best = np.maximum.reduceat(together, stored.offsets[first:last] - begin, axis=0)
        best = np.clip(best, 0.0, 1.0) ** POWER
        rare[at[first:last]] = (best @ shares) ** (1.0 / POWER)
        plain[at[first:last]] = best.mean(axis=1) ** (1.0 / POWER)
        first = last
    return Late(rare, plain, lengths)


MIN_POOL = 100
"""Candidates by words and by meaning each, at least: a Chroma filter is met by fetching wide (DESIGN 9)."""


class Query(Protocol):
    """A question's vectors (`embedding.embedder.QueryVectors`)."""

    @property
    def vector(self) -> Float: ...
    @property
    def token_ids(self) -> NDArray[np.uint32]: ...
    @property
    def tokens(self) -> Float: ...
    @property
    def wide(self) -> Float:
        """The tokens' vectors before they were made small: unit, float32[m, dimensions]."""
        ...


EmbedQuery = Callable[[str], Query | None]
"""A question's vectors, or None while the model is not there."""


class Searchable(Protocol):
    """What ranking asks of the index. All of it is reading, from any thread."""

    def keep(self, ids: Sequence[str], chosen: Filter) -> list[str]: ...
    def newest(self, chosen: Filter, limit: int) -> list[str]: ...
    def candidates(self, ids: Sequence[str]) -> dict[str, Candidate]: ...
    def notes(self, ids: Sequence[str], *, connections: bool = ...) -> dict[str, NodeRow]: ...
    def frequencies(self, terms: Sequence[str]) -> tuple[dict[str, int], int]:
        """In how many files each term stands, and how many files there are."""
        ...

    def edges_of(self, ids: Sequence[str]) -> list[EdgeRow]: ...
    def begin_text(
        self, query: str | Sequence[str], limit: int, chosen: Filter = ...
    ) -> Callable[[], list[tuple[str, float]]]:
        """Begin `search_text`, beside what the caller does next; calling what is returned waits for it."""
        ...

    def search_vectors(self, vector: Float, limit: int, chosen: Filter = ...) -> list[tuple[str, float]]:
        """The nearest nodes that the filter lets through, as many as there are: fetched wider, or scored exactly."""
        ...

    def similarities(self, vectors: Float, ids: Sequence[str]) -> NDArray[np.float64]: ...
    def tokens(self, ids: Sequence[str], vector: Float | None = ..., *, pieces: int = ...) -> Stored | None: ...
    def idf(self, token_ids: NDArray[np.uint32]) -> Float: ...
    def vectors(self, node_id: str) -> Float | None: ...
    def replacing(self, pairs: Sequence[tuple[str, str, float]]) -> dict[tuple[str, str], Compared]: ...


class Meaning(Struct, frozen=True):
    """A question as vectors: as the model pools it, and pooled by what its tokens tell."""

    vector: Float
    focus: Float
    """Mean of the token vectors, weighted like `weights`. "What did Ana say about boats" looks less like every line of
    Ana's. Short dialogue, any@10 of the cosine alone: .55 as pooled, .64 so; long notes and short facts: the same."""
    tokens: Float
    weights: Float
    """Per token, its inverse document frequency in the vault."""


class Gathered(Struct, frozen=True):
    """The two lists, each best first, and everything that is known of the notes on them."""

    by_words: list[tuple[str, float]]
    by_meaning: list[tuple[str, float]]
    meaning: Meaning | None
    pool: int
    degraded: list[str] = field(default_factory=list)


def understand(index: Searchable, query: Query) -> Meaning:
    """Weigh a question's tokens by how rare they are in the vault."""
    weights = token_weights(index.idf(query.token_ids))
    focus = query.vector
    if len(weights):
        pooled = weights @ query.wide
        length = float(np.linalg.norm(pooled))
        focus = np.asarray(pooled / length, np.float32) if length > 0 else query.vector
    return Meaning(query.vector, focus, query.tokens, weights)


def pool_size(heard: Heard, least: int) -> int:
    """Candidates of each kind: the seeds' 3 or 10 times the limit, at least `least`."""
    times = 10 if heard.windowed or heard.chosen.created_after is not None else 3
    return max(times * heard.limit, least)


def gather(
    index: Searchable, heard: Heard, embed: EmbedQuery, settings: SearchSettings, least: int = MIN_POOL
) -> Gathered:
    """Ask for notes by words and by meaning, at least `least` of each. Without vectors words answer alone, and `degraded` says so."""
    pool = pool_size(heard, least)
    by_words = index.begin_text(heard.terms, pool, heard.chosen)
    query = embed(heard.text)
    if query is None:
        return Gathered(by_words(), [], None, pool, ["vectors"])
    meaning = understand(index, query)
    near = index.search_vectors(meaning.focus, pool, heard.chosen)
    kept = [(node_id, cosine) for node_id, cosine in near if cosine >= settings.similarity_threshold]
    return Gathered(by_words(), kept, meaning, pool)
