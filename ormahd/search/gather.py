"""Gather candidates by full text and by vectors, and score them by late interaction (MaxSim).

More candidates are fetched than are asked for, so that filters do not leave too few. MaxSim is computed twice because
neither weighting is best for every text: with tokens weighted by inverse document frequency (best for short
dialogue), and with equal weights (best for long messages).
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
"""Added to each token's weight, so that a question made only of words that every note contains can still be compared."""
POWER = 2.0
"""Exponent of the mean over a question's tokens (2: root mean square). Close matches count more than weak ones,
because most words of a long prompt do not matter."""
SCANNED = 400_000
"""Tokens of notes whose cosines are computed at once; bounds the memory needed."""


class Stored(Protocol):
    """Token vectors of notes, concatenated (`index.embedding_cache.TokenVectors`).

    Note `ids[i]` has the rows `offsets[i]` to `offsets[i + 1]` of `packed` (uint8[n, d / 2], made by
    `embedding.token_vectors.pack`). Notes without tokens are left out.
    """

    @property
    def ids(self) -> Sequence[str]: ...
    @property
    def offsets(self) -> NDArray[np.int64]: ...
    @property
    def packed(self) -> NDArray[np.uint8]: ...


class Late(Struct, frozen=True):
    """Late interaction of a question with each note: `rare` (tokens weighted by rarity) and `plain` (unweighted),
    both at most 1."""

    rare: Float
    plain: Float
    lengths: NDArray[np.int64]
    """Number of tokens of each note; 0: its token vectors are not stored."""


def token_weights(idf: Float) -> Float:
    """Return the weight of each token of a question: its inverse document frequency plus `LEAST_WEIGHT`."""
    return np.asarray(idf + LEAST_WEIGHT, np.float32)


def max_sim(tokens: Float, weights: Float, ids: Sequence[str], stored: Stored) -> Late:
    """Compare a question's tokens (unit vectors, float32[m, d]) with the tokens of each note in `ids`."""
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
"""Minimum number of candidates fetched from each list. Fetching many compensates for filters applied afterwards."""


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
        """The token vectors before they were shortened: unit vectors, float32[m, dimensions]."""
        ...


EmbedQuery = Callable[[str], Query | None]
"""Return a question's vectors, or None while the model is not loaded."""


class Searchable(Protocol):
    """What ranking needs from the index. All methods only read, and may be called from any thread."""

    def keep(self, ids: Sequence[str], chosen: Filter) -> list[str]: ...
    def newest(self, chosen: Filter, limit: int) -> list[str]: ...
    def candidates(self, ids: Sequence[str]) -> dict[str, Candidate]: ...
    def notes(self, ids: Sequence[str], *, connections: bool = ...) -> dict[str, NodeRow]: ...
    def frequencies(self, terms: Sequence[str]) -> tuple[dict[str, int], int]:
        """Return the number of files that contain each term, and the number of all files."""
        ...

    def edges_of(self, ids: Sequence[str]) -> list[EdgeRow]: ...
    def begin_text(
        self, query: str | Sequence[str], limit: int, chosen: Filter = ...
    ) -> Callable[[], list[tuple[str, float]]]:
        """Start a full text search in the background. Calling the returned function waits for the result."""
        ...

    def search_vectors(self, vector: Float, limit: int, chosen: Filter = ...) -> list[tuple[str, float]]:
        """Return the nearest nodes that pass the filter, up to `limit`, as (node id, cosine)."""
        ...

    def similarities(self, vectors: Float, ids: Sequence[str]) -> NDArray[np.float64]: ...
    def tokens(self, ids: Sequence[str], vector: Float | None = ..., *, pieces: int = ...) -> Stored | None: ...
    def idf(self, token_ids: NDArray[np.uint32]) -> Float: ...
    def vectors(self, node_id: str) -> Float | None: ...
    def replacing(self, pairs: Sequence[tuple[str, str, float]]) -> dict[tuple[str, str], Compared]: ...


class Meaning(Struct, frozen=True):
    """A question as vectors: `vector`, as the model pools it, and `focus`, pooled by the rarity of its tokens."""

    vector: Float
    focus: Float
    """Mean of the token vectors, weighted by `weights`. It stresses rare words: otherwise "what did Ana say about
    boats" resembles every line that Ana said."""
    tokens: Float
    weights: Float
    """Weight of each token: its inverse document frequency in the vault, plus `LEAST_WEIGHT`."""


class Gathered(Struct, frozen=True):
    """The candidates found by words and by vectors, each list best first as (node id, score)."""

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
    """Return the number of candidates to fetch from each list: 3 times the limit, or 10 times with a time window, at
    least `least`."""
    times = 10 if heard.windowed or heard.chosen.created_after is not None else 3
    return max(times * heard.limit, least)


def gather(
    index: Searchable, heard: Heard, embed: EmbedQuery, settings: SearchSettings, least: int = MIN_POOL
) -> Gathered:
    """Search by words and by vectors for at least `least` candidates each.

    If the question has no vectors, only the words are searched, and `degraded` contains "vectors".
    """
    pool = pool_size(heard, least)
    by_words = index.begin_text(heard.terms, pool, heard.chosen)
    query = embed(heard.text)
    if query is None:
        return Gathered(by_words(), [], None, pool, ["vectors"])
    meaning = understand(index, query)
    near = index.search_vectors(meaning.focus, pool, heard.chosen)
    kept = [(node_id, cosine) for node_id, cosine in near if cosine >= settings.similarity_threshold]
    return Gathered(by_words(), kept, meaning, pool)
