"""Gather: the notes that may answer, by words and by meaning, without ever starving a filter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ormahd.index.rows import Edge, Filter, NodeRow
from ormahd.ranking.hear import Heard
from ormahd.ranking.late import Stored, token_weights
from ormahd.settings import SearchSettings

Float = NDArray[np.float32]

EXACT_COUNT = 2000
"""Passing nodes up to which all of them are scored exactly (4 ms) instead of asking the graph and filtering after."""
EXACT_SHARE = 0.05
"""The same as a share of all nodes: the graph would have to be asked for twenty times the pool (DESIGN section 9)."""
WIDENINGS = 2
"""How often the pool of neighbours is widened, four-fold each time, before the passing ones are scored exactly."""


class Query(Protocol):
    """A question's vectors (`index.embed.QueryVectors`)."""

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


class Searchable(Protocol):
    """What ranking asks of the index. All of it is reading, from any thread."""

    def count(self, chosen: Filter = ...) -> int: ...
    def ids(self, chosen: Filter = ...) -> list[str]: ...
    def keep(self, ids: Sequence[str], chosen: Filter) -> list[str]: ...
    def newest(self, chosen: Filter, limit: int) -> list[str]: ...
    def notes(self, ids: Sequence[str], *, connections: bool = ...) -> dict[str, NodeRow]: ...
    def edges_of(self, ids: Sequence[str]) -> list[Edge]: ...
    def search_text(self, query: str | Sequence[str], limit: int, chosen: Filter = ...) -> list[tuple[str, float]]: ...
    def search_vectors(self, vector: Float, limit: int) -> list[tuple[str, float]]: ...
    def cosines(self, vector: Float, ids: Sequence[str]) -> dict[str, float]: ...
    def tokens(self, ids: Sequence[str]) -> Stored: ...
    def token_df(self, tokens: Sequence[int]) -> tuple[Sequence[int], int]: ...


@dataclass(frozen=True, slots=True)
class Meaning:
    """A question as vectors: as the model pools it, and pooled by what its tokens tell."""

    vector: Float
    focus: Float
    """Mean of the token vectors, weighted like `weights`. "What did Ana say about boats" looks less like every line of
    Ana's. Short dialogue, any@10 of the cosine alone: .55 as pooled, .64 so; long notes and short facts: the same."""
    tokens: Float
    weights: Float
    """Per token, its inverse document frequency in the vault."""


@dataclass(frozen=True, slots=True)
class Gathered:
    """The two lists, each best first, and everything that is known of the notes on them."""

    by_words: list[tuple[str, float]]
    by_meaning: list[tuple[str, float]]
    meaning: Meaning | None
    how: str
    """How the neighbours were found, for the trace."""
    pool: int
    degraded: list[str] = field(default_factory=list)


def understand(index: Searchable, query: Query) -> Meaning:
    """Weigh a question's tokens by how rare they are in the vault."""
    df, documents = index.token_df([int(token) for token in query.token_ids])
    weights = token_weights(df, documents)
    focus = query.vector
    if len(weights):
        pooled = weights @ query.wide
        length = float(np.linalg.norm(pooled))
        focus = np.asarray(pooled / length, np.float32) if length > 0 else query.vector
    return Meaning(query.vector, focus, query.tokens, weights)


def pool_size(heard: Heard, settings: SearchSettings) -> int:
    """Candidates of each kind: the seeds' 3 or 10 times the limit, at least `min_pool`."""
    times = 10 if heard.windowed or heard.chosen.created_after is not None else 3
    return max(times * heard.limit, settings.min_pool)


def gather(index: Searchable, heard: Heard, query: Query | None, settings: SearchSettings) -> Gathered:
    """Ask for notes by words and by meaning. Without vectors words answer alone, and `degraded` says so."""
    pool = pool_size(heard, settings)
    by_words = index.search_text(heard.terms, pool, heard.chosen)
    if query is None:
        return Gathered(by_words, [], None, "none", pool, ["vectors"])
    meaning = understand(index, query)
    near, how = _near(index, meaning.focus, heard.chosen, pool)
    kept = [(node_id, cosine) for node_id, cosine in near if cosine >= settings.similarity_threshold]
    return Gathered(by_words, kept[:pool], meaning, how, pool)


def _near(index: Searchable, vector: Float, chosen: Filter, pool: int) -> tuple[list[tuple[str, float]], str]:
    passing, everything = index.count(chosen), index.count()
    if not passing:
        return [], "nothing passes"
    if passing <= max(EXACT_COUNT, EXACT_SHARE * everything):
        return _exact(index, vector, chosen, pool), f"exact, {passing} pass"
    wanted = pool if passing == everything else int(pool * 1.2 * everything / passing) + 10
    for widening in range(WIDENINGS + 1):
        found = index.search_vectors(vector, wanted)
        through = set(index.keep([node_id for node_id, _ in found], chosen))
        kept = [one for one in found if one[0] in through]
        if len(kept) >= min(pool, passing) or len(found) >= everything:
            return _ordered(kept)[:pool], f"graph, {wanted} asked, widened {widening} times"
        wanted *= 4
    return _exact(index, vector, chosen, pool), f"exact after {WIDENINGS} widenings, {passing} pass"


def _exact(index: Searchable, vector: Float, chosen: Filter, pool: int) -> list[tuple[str, float]]:
    return _ordered(list(index.cosines(vector, index.ids(chosen)).items()))[:pool]


def _ordered(found: list[tuple[str, float]]) -> list[tuple[str, float]]:
    """Best first; equal ones by id, so that an index that grew and one that was rebuilt answer alike."""
    return sorted(found, key=lambda one: (-one[1], one[0]))
