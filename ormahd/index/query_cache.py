"""A cache of what searches read from the index repeatedly, valid until a note changes.

After a change is committed, the index replaces its `QueryCache` by a new one (`without`). A reader takes the cache
first and its snapshot second, so nothing older than the change gets into the new cache. `tests/bench/README.md` says
what each part of the cache gains.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from ormahd.index import write as full_text
from ormahd.index.embedding_cache import Pieces
from ormahd.index.rows import CandidateRow, Filter
from ormahd.index.write import COUNTED_ANEW, RANK, SCORED, SMALL, Frequencies, split
from ormahd.model.node import NodeType
from ormahd.process import sql
from ormahd.process.sql import Snapshot
from ormahd.text.standing import Compared
from ormahd.text.statement import Statement
from ormahd.text.words import fts_match
from ormahd.vectors.matrix import SPARE

COUNTS = 1000
"""Maximum number of filters whose node counts are cached."""
CANDIDATES = 20_000
"""Maximum number of nodes whose `CandidateRow` is cached (10 MB)."""
PASSING = 100_000
"""Maximum number of node ids in all cached results of filters (10 MB)."""
SHARE = 0.05
"""If at most this share of all nodes passes a filter, SQLite searches instead of the cache, because SQLite scores only
those nodes."""
COMPARED = 20_000
"""Maximum number of pairs of memories whose comparison is cached (3 MB). For nearly all of them the result is None."""
STATED = 30_000
"""Maximum number of tokens in all cached statements (8 to 12 MB)."""
TOKENS = 56_000_000
"""Maximum size of the cached token vectors, in bytes: enough for about 10,000 notes of 30 words."""
POSTINGS = 1_000_000
"""Maximum number of rows in all cached postings (12 MB)."""
ROOM = 0.1
"""Share of `TOKENS` that is freed at once when the cache is full, because finding the oldest entries is slow."""
YOUNG_S = 3.0
"""Seconds after a change within which no postings are cached, because the next change would drop them."""
CHANGED = 200
"""If at most this many nodes change at once, the token vectors, statements and comparisons of other nodes stay cached.
A larger change is bulk work, after which all of them are dropped, to free the memory."""


class Posting(Struct, frozen=True):
    """The files that contain one word: their row numbers in ascending order, and how much the word adds to the bm25 of
    each of them (positive)."""

    numbers: NDArray[np.int32]
    scores: NDArray[np.float64]


Stated = tuple[Statement, NodeType, str | None]
"""A memory's text as read by `statement.read`, its type, and its space."""


class QueryCache:
    """Caches results of reads: postings of words, token vectors, nodes that pass a filter, statements, comparisons.
    Thread-safe: if two threads read the same value at once, one of the two equal results is kept."""

    def __init__(self) -> None:
        self._since = time.monotonic()
        self._lock = threading.Lock()
        self._files: int | None = None
        """The largest row number of a file; None until it is read."""
        self._postings: dict[str, Posting] = {}
        self._posted = 0
        self._tokens: dict[str, tuple[int, Pieces, bytes]] = {}
        self._bytes = 0
        self._passing: dict[Filter, list[str]] = {}
        self._passed = 0
        self.counts: dict[Filter, int] = {}
        self.candidates: dict[str, CandidateRow] = {}
        self.statements: dict[str, Stated] = {}
        self._stated = 0
        self.compared: dict[tuple[str, str], Compared | None] = {}
        """(older id, newer id) -> the comparison if the newer memory replaced the older one, else None."""

    def without(self, ids: Collection[str], *, words: bool) -> QueryCache:
        """Return a new cache that has the entries which are still valid after the nodes `ids` were added, changed or
        removed.

        `words`: whether words in the full text table changed, which changes the bm25 of every row. This object stays
        as it is, because other threads may still use it.
        """
        other = QueryCache()
        other.candidates = self.candidates.copy()
        for node_id in ids:
            other.candidates.pop(node_id, None)
        if not words:
            other._since, other._files = self._since, self._files
            other._postings, other._posted = self._postings.copy(), self._posted
        if len(ids) <= CHANGED:
            gone = frozenset(ids)
            other.compared = {two: one for two, one in self.compared.copy().items() if gone.isdisjoint(two)}
            with self._lock:
                other.statements, other._stated = self.statements.copy(), self._stated
                other._tokens, other._bytes = self._tokens.copy(), self._bytes
            for node_id in ids:
                if (stated := other.statements.pop(node_id, None)) is not None:
                    other._stated -= _size(stated)
                other._forget_tokens(node_id)
        return other

    def learn(self, new: Mapping[str, Stated]) -> None:
        """Cache the statements `new` (node id -> statement). If there is no room for them, all cached ones are
        dropped first."""
        with self._lock:
            fresh = {node_id: stated for node_id, stated in new.items() if node_id not in self.statements}
            size = sum(map(_size, fresh.values()))
            if self._stated + size > STATED:
                self.statements, self._stated = {}, 0
            if size <= STATED:
                self.statements.update(fresh)
                self._stated += size

    def passing(self, chosen: Filter, read: Callable[[], list[str]]) -> list[str]:
        """Return the ids of all nodes that pass the filter. If these ids are not cached, `read` is called, which
        returns them.

        They are not cached if the filter depends on the time.
        """
        found = self._passing.get(chosen)
        if found is None:
            found = read()
            if chosen.alive_at is None:
                if self._passed + len(found) > PASSING:
                    self._passing, self._passed = {}, 0
                self._passing[chosen] = found
                self._passed += len(found)
        return found

    # Words

    @property
    def large(self) -> bool:
        """Whether the index is known to have so many files that `search` leaves it to SQLite to score them."""
        return self._files is not None and self._files > COUNTED_ANEW

    def search(
        self, read: Snapshot, terms: Sequence[str], limit: int, chosen: Filter, counts: Frequencies, share: float
    ) -> list[tuple[str, float]] | None:
        """Search as `write.search` does, but with cached postings of words. `share`: the share of all nodes that pass
        the filter.

        Return None if SQLite should search instead: if the index is large or changed a moment ago, or if few nodes
        pass the filter.
        """
        if self._files is None:
            self._files = full_text.largest(read())
        if self.large or share <= SHARE:
            return None
        choose, others = split(read, terms, self._files, counts)
        known = self._postings.keys() >= {*choose, *others}
        if not known and time.monotonic() - self._since < YOUNG_S:
            return None
        if self._files > SMALL and not self._learn(read, [*choose, *others], counts.rows(read, terms, self._files)):
            return None
        scores = self._bm25(read, choose, others)
        numbers = np.flatnonzero(scores)
        wanted = int((limit + limit // SPARE + 1) / share)
        while True:
            best = numbers[top(scores[numbers], wanted)]
            found = full_text.named(read(), dict(zip(best.tolist(), scores[best].tolist(), strict=True)), chosen)
            if len(found) >= limit or len(best) == len(numbers):
                return found[:limit]
            wanted *= 3  # many best rows were no nodes, duplicates, or filtered out

    def _learn(self, read: Snapshot, terms: Sequence[str], rows: Mapping[str, int]) -> bool:
        """Cache the postings of the words `terms` (rarest first), `SCORED` rows at most in one call. `rows`: word ->
        number of rows. Return False if the postings of some words are still missing."""
        room = SCORED
        for term in terms:  # rarest first
            if term not in self._postings:
                room -= rows[term]
                if room < 0:
                    return False
                self._posting(read, term)
        return True

    def _posting(self, read: Snapshot, term: str) -> Posting:
        found = self._postings.get(term)
        if found is None:
            select = f"SELECT rowid AS key, {RANK} AS score FROM words WHERE words MATCH ? ORDER BY rowid"
            numbers, scores = sql.scored(read(), select, (fts_match([term]),))
            found = Posting(np.fromiter(map(int, numbers), np.int32, len(numbers)), -scores)
            if self._posted + len(numbers) > POSTINGS:
                self._postings, self._posted = {}, 0
            self._postings[term] = found
            self._posted += len(numbers)
        return found

    def _bm25(self, read: Snapshot, choose: Sequence[str], others: Sequence[str]) -> NDArray[np.float64]:
        """Return an array with the bm25 of each file; the index is the file's row number. Files without any of the
        words `choose` have 0.

        The words `others` add to the bm25 of a file, but do not make it one of the results.
        """
        chosen = [self._posting(read, term) for term in choose]
        added = [self._posting(read, term) for term in others]
        last = max((int(one.numbers[-1]) for one in (*chosen, *added) if len(one.numbers)), default=0)
        found = np.zeros(last + 1, np.float64)
        for one in chosen:
            found[one.numbers] += one.scores
        if added:
            left_out = found == 0.0
            for one in added:
                found[one.numbers] += one.scores
            found[left_out] = 0.0
        return found

    # Token vectors

    def tokens(
        self, model: int, pieces: Mapping[str, Pieces], read: Callable[[Mapping[str, Pieces]], dict[str, bytes]]
    ) -> dict[str, bytes]:
        """Return node id -> token vectors of the node's pieces, in the order of `pieces` (node id -> numbers of the
        pieces). `read` (`embedding_cache.tokens`) is called for the nodes that are not cached.

        Nodes without token vectors are left out and not cached, because they will be embedded soon.
        """
        known = self._tokens
        there = {
            node_id: one[2]
            for node_id, some in pieces.items()
            if (one := known.get(node_id)) is not None and one[0] == model and one[1] == some
        }
        if len(there) == len(pieces):
            return there
        missing = {node_id: some for node_id, some in pieces.items() if node_id not in there}
        found = read(missing)
        with self._lock:
            for node_id, packed in found.items():
                self._forget_tokens(node_id)
                self._tokens[node_id] = (model, missing[node_id], packed)
                self._bytes += len(packed)
            if self._bytes > TOKENS:
                self._make_room()
        there |= found
        return {node_id: there[node_id] for node_id in pieces if node_id in there}

    def _make_room(self) -> None:
        """Drop the token vectors that were cached first, until the share `ROOM` of the space is free."""
        kept = list(self._tokens.items())
        first = 0
        while self._bytes > (1 - ROOM) * TOKENS:
            self._bytes -= len(kept[first][1][2])
            first += 1
        self._tokens = dict(kept[first:])

    def _forget_tokens(self, node_id: str) -> None:
        found = self._tokens.pop(node_id, None)
        if found is not None:
            self._bytes -= len(found[2])


def _size(stated: Stated) -> int:
    return 1 + sum(len(sentence.tokens) for sentence in stated[0].sentences)


def top(scores: NDArray[np.float64], limit: int) -> NDArray[np.int64]:
    """Return the positions in `scores` of the `limit` highest scores, and of all scores that equal the lowest of
    these."""
    if len(scores) <= limit:
        return np.arange(len(scores))
    return np.flatnonzero(scores >= np.partition(scores, len(scores) - limit)[len(scores) - limit])
