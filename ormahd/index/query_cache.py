"""What questions read from the index again and again, remembered until a note changes.

Whoever changes the index puts another `QueryCache` in its place (`without`), after the change is committed. A reader takes the
cache first and its snapshot after, so nothing older than the change gets into the new one. What each part buys stands in
`tests/bench/README.md`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from ormahd.index import full_text
from ormahd.index.embedding_cache import Pieces
from ormahd.index.full_text import COUNTED_ANEW, RANK, SCORED, SMALL, Frequencies, split
from ormahd.index.rows import Candidate, Filter
from ormahd.model.node import NodeType
from ormahd.process import sql
from ormahd.process.sql import Snapshot
from ormahd.text.standing import Compared
from ormahd.text.statement import Statement
from ormahd.text.words import fts_match
from ormahd.vectors.matrix import SPARE

COUNTS = 1000
"""Filters whose count is remembered."""
CANDIDATES = 20_000
"""Nodes of which is remembered what ranking asks (10 MB)."""
PASSING = 100_000
"""Nodes on all remembered lists of those that a filter lets through (10 MB)."""
SHARE = 0.05
"""Share of nodes that a filter lets through, up to which SQLite has less to score than all rows of the words."""
COMPARED = 20_000
"""Pairs of memories whose comparison is kept (3 MB): nearly all of them come to nothing."""
STATED = 30_000
"""Tokens of all memories that are kept read (8 to 12 MB): of 1,600 memories of 170 characters, or 300 of 1,700."""
TOKENS = 56_000_000
"""Bytes of token vectors: those of 10,000 notes of 30 words."""
POSTINGS = 1_000_000
"""Rows in the remembered words (12 MB)."""
ROOM = 0.1
"""Share of `TOKENS` that is forgotten at once: to find the oldest entry of a dictionary is to walk past all that were deleted."""
YOUNG_S = 3.0
"""Seconds after a change in which no words are remembered: beside writers the next change would come first."""
CHANGED = 200
"""Nodes in one change up to which the tokens and statements of all others stay; more is bulk work, after which memory is freed."""


class Posting(Struct, frozen=True):
    """The rows of the full text table that have a word, in order, and what it adds to the bm25 of each (positive)."""

    numbers: NDArray[np.int32]
    scores: NDArray[np.float64]


Stated = tuple[Statement, NodeType, str | None]
"""What `statement.read` makes of a memory's text, its type and space."""


class QueryCache:
    """Safe from any thread: two that ask for the same at once both read it, and one result stays."""

    def __init__(self) -> None:
        self._since = time.monotonic()
        self._lock = threading.Lock()
        self._files: int | None = None
        """The largest key of a file."""
        self._postings: dict[str, Posting] = {}
        self._posted = 0
        self._tokens: dict[str, tuple[int, Pieces, bytes]] = {}
        self._bytes = 0
        self._passing: dict[Filter, list[str]] = {}
        self._passed = 0
        self.counts: dict[Filter, int] = {}
        self.candidates: dict[str, Candidate] = {}
        self.statements: dict[str, Stated] = {}
        self._stated = 0
        self.compared: dict[tuple[str, str], Compared | None] = {}
        """Of (older, newer) what the words say where the newer one replaced the older; None: it did not."""

    def without(self, ids: Collection[str], *, words: bool) -> QueryCache:
        """Return what holds after these nodes came, changed or went; `words`: also in their words, on which every row's bm25
        depends. This one may still be asked meanwhile."""
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
        """Keep these memories read; all others are forgotten where there is no room for them."""
        with self._lock:
            fresh = {node_id: stated for node_id, stated in new.items() if node_id not in self.statements}
            size = sum(map(_size, fresh.values()))
            if self._stated + size > STATED:
                self.statements, self._stated = {}, 0
            if size <= STATED:
                self.statements.update(fresh)
                self._stated += size

    def passing(self, chosen: Filter, read: Callable[[], list[str]]) -> list[str]:
        """Return the ids of all nodes that the filter lets through, from `read` where they are not known or depend on the time."""
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
        """Whether there are known to be so many files that `search` is no use."""
        return self._files is not None and self._files > COUNTED_ANEW

    def search(
        self, read: Snapshot, terms: Sequence[str], limit: int, chosen: Filter, counts: Frequencies, share: float
    ) -> list[tuple[str, float]] | None:
        """`text.search` from remembered words; None where that is no use: a large index, one that just changed, or a filter that
        leaves SQLite less to score than all rows of the words. `share`: of all nodes, how many the filter lets through."""
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
            wanted *= 3  # files that are no nodes, copies of others, expired ones

    def _learn(self, read: Snapshot, terms: Sequence[str], rows: Mapping[str, int]) -> bool:
        """Read words that are not remembered, as far as they are in `SCORED` rows together; False: some are left."""
        room = SCORED
        for term in terms:  # the rarest first
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
        """bm25 of every row that has one of the words `choose`, with what `others` add to it; by row, 0 elsewhere."""
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
        """Return the token vectors of these pieces, in their order; `read` gives those that are not known (`cache.tokens`). Nodes
        without any are left out, and asked for again: they are embedded in a moment."""
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
        """Forget the tokens that were read first."""
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
    """Return the places of the `limit` best scores, and of all that equal the last of them."""
    if len(scores) <= limit:
        return np.arange(len(scores))
    return np.flatnonzero(scores >= np.partition(scores, len(scores) - limit)[len(scores) - limit])
