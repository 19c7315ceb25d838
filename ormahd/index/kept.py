"""What was read from the index once and holds until a note changes: asking for it again costs no SQL.

Whoever changes the index puts another `Kept` in its place, after the change is committed and before the next question
begins: one that has forgotten the changed notes (`without`), and all words where one did change. A reader takes the
`Kept` first and its snapshot after, so nothing older than the change gets into the new one.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ormahd.core.words import fts_match
from ormahd.index import lookup, one_row
from ormahd.index.kept_tokens import KeptTokens
from ormahd.index.rows import SPARE, Candidate, Filter, chunks, marks
from ormahd.index.text import COUNTED_ANEW, RANK, SCORED, SMALL, Frequencies, largest, split

COUNTS = 1000
"""Filters whose count is remembered."""
PASSING = 100_000
"""Nodes on all the remembered lists of those that a filter lets through (20 MB)."""
CANDIDATES = 20_000
"""Nodes of which is remembered what ranking asks (10 MB)."""
WORTH = 3
"""Questions with a filter that are answered without the list of all that it lets through: to read it costs as much as some of them."""
YOUNG_S = 3.0
"""Seconds after a change in which no words are read to be remembered: where notes are written one after another the next change
comes first, and each of thousands of rows is a turn of the interpreter (3 ms for a question, 100 beside many writers)."""
POSTINGS = 1_000_000
"""Rows in the remembered lists of words (12 MB): most of an index of 20,000 short notes."""


CHANGED = 200
"""Nodes that may have changed since a list of those that a filter lets through was read, so that it is mended and not read anew."""
FEW_EXPIRED = 500
"""Expired nodes up to which it is quicker to know them all than to ask about each of some hundred."""


@dataclass(frozen=True, slots=True)
class Passing:
    """The nodes that a filter lets through: `ids` in their order, and the key of each."""

    ids: list[str]
    numbers: NDArray[np.int64]

    def best(
        self, scores: NDArray[np.float64], places: NDArray[np.int64], limit: int, gone: Collection[str]
    ) -> list[tuple[str, float]]:
        """Of these places on the list the `limit` with the best scores (aligned to the list), but none of `gone`: (id,
        score), equally good ones in the order of their ids."""
        order = places[top(scores[places], limit + len(gone))]
        found = [(self.ids[at], score) for at, score in zip(order.tolist(), scores[order].tolist(), strict=True)]
        return [one for one in found if one[0] not in gone][:limit]


@dataclass(frozen=True, slots=True)
class Posting:
    """The rows of the full text table that a word is in, in order, and what it adds to their bm25 (positive: FTS5 adds up words)."""

    numbers: NDArray[np.int32]
    scores: NDArray[np.float64]


class Kept:
    """Safe from any thread: two that ask for the same at once both read it, and one result stays."""

    def __init__(self) -> None:
        self._since = time.monotonic()
        self.files: int | None = None
        """The largest key of a file."""
        self.counts: dict[Filter, int] = {}
        self.candidates: dict[str, Candidate] = {}
        self.tokens = KeptTokens()
        self._passing: dict[Filter, Passing] = {}
        self._members: dict[Filter, AbstractSet[str]] = {}
        self._times: dict[Filter, int] = {}
        self._postings: dict[str, Posting] = {}
        self._asked: set[Filter] = set()
        self._passed = 0
        self._posted = 0
        self._before: dict[Filter, Passing] = {}
        """Lists that are right but for the nodes in `_stale`."""
        self._stale: frozenset[str] = frozenset()

    @property
    def large(self) -> bool:
        """Whether it is known that there are so many files that `search` is no use."""
        return self.files is not None and self.files > COUNTED_ANEW

    def without(self, ids: Collection[str], *, words: bool) -> Kept:
        """What of this holds after these nodes came, changed or went; `words`: also in their words, on which every row's bm25
        depends. This one may still be asked meanwhile."""
        other = Kept()
        other.candidates = self.candidates.copy()
        for node_id in ids:
            other.candidates.pop(node_id, None)
        if not words:
            other._since = self._since
            other.files = self.files
            other._postings, other._posted = self._postings.copy(), self._posted
        other._asked = self._asked.copy()
        if len(ids) <= CHANGED:  # else it was bulk work, after which the memory is wanted back
            other.tokens = self.tokens.without(ids)
        stale = self._stale.union(ids)
        if len(stale) <= CHANGED:
            other._stale = stale
            other._before = self._before.copy()
            other._before.update(self._passing.copy())
        return other

    def passing(self, connection: sqlite3.Connection, chosen: Filter) -> Passing:
        found = self._passing.get(chosen)
        if found is None:
            before = self._before.get(chosen)
            condition, values = chosen.sql()
            where = f"FROM node n WHERE {condition}"
            if before is None:
                rows = _read(connection, where, values)
            else:
                rows = [
                    row for row in zip(before.ids, before.numbers.tolist(), strict=True) if row[0] not in self._stale
                ]
                stale = sorted(self._stale)
                rows += _read(connection, f"{where} AND n.id IN ({marks(stale)})", [*values, *stale])
            found = _passing(rows)
            if self._passed + len(found.ids) > PASSING:
                self._passing, self._members, self._passed = {}, {}, 0
            if chosen.alive_at is None:
                self._passing[chosen] = found
                self._passed += len(found.ids)
        return found

    def worth(self, chosen: Filter) -> bool:
        """Whether the filter was asked about so often since the last change that it pays to read all that it lets through."""
        times = self._times.get(chosen, 0) + 1
        if chosen in self._times or len(self._times) < COUNTS:
            self._times[chosen] = times
        return times > WORTH

    def members(self, connection: sqlite3.Connection, chosen: Filter) -> AbstractSet[str]:
        """The ids of `passing`."""
        found = self._members.get(chosen)
        if found is None:
            found = frozenset(self.passing(connection, chosen).ids)
            if chosen in self._passing:
                self._members[chosen] = found
        return found

    def posting(self, connection: sqlite3.Connection, term: str) -> Posting:
        found = self._postings.get(term)
        if found is None:
            select = f"SELECT rowid AS key, {RANK} AS score FROM words WHERE words MATCH ? ORDER BY rowid"
            numbers, scores = one_row.scored(connection, select, (fts_match([term]),))
            found = Posting(np.fromiter(map(int, numbers), np.int32, len(numbers)), -scores)
            if self._posted + len(numbers) > POSTINGS:
                self._postings, self._posted = {}, 0
            self._postings[term] = found
            self._posted += len(numbers)
        return found

    def gone(self, connection: sqlite3.Connection, chosen: Filter) -> AbstractSet[str] | None:
        """The nodes that have expired by the filter's time; None: too many to tell."""
        if chosen.alive_at is None:
            return frozenset()
        found = lookup.expired(connection, chosen.alive_at, FEW_EXPIRED)
        return found if len(found) < FEW_EXPIRED else None

    def search(
        self, connection: sqlite3.Connection, terms: Sequence[str], limit: int, chosen: Filter, counts: Frequencies
    ) -> list[tuple[str, float]] | None:
        """`text.search`, word by word; None where that is no use: the index is large or has just changed, too much has expired, or
        a filter is met for the first time, which saves SQLite more than reading whole words costs."""
        if self.files is None:
            self.files = largest(connection)
        if self.large:
            return None
        lasting = replace(chosen, alive_at=None)
        if chosen.narrow and lasting not in self._asked:
            if len(self._asked) < COUNTS:
                self._asked.add(lasting)
            return None
        choose, others = split(connection, terms, self.files, counts)
        known = self._postings.keys() >= {*choose, *others}
        if not known and time.monotonic() - self._since < YOUNG_S:
            return None
        gone = self.gone(connection, chosen)
        if gone is None:
            return None
        if self.files > SMALL and not self._learn(
            connection, [*choose, *others], counts.rows(connection, terms, self.files)
        ):
            return None
        scores = self._bm25(connection, choose, others)
        if chosen.narrow:
            passing = self.passing(connection, lasting)
            scores = scores[np.minimum(passing.numbers, len(scores) - 1)]
            return passing.best(scores, np.flatnonzero(scores), limit, gone)
        numbers = np.flatnonzero(scores)
        wanted = limit + len(gone) + limit // SPARE
        while True:
            best = numbers[top(scores[numbers], wanted)]
            passing = self._named(connection, best)
            found = passing.best(scores[passing.numbers], np.arange(len(passing.ids)), limit, gone)
            if len(found) == limit or len(best) == len(numbers):
                return found
            wanted *= 3  # files that are no nodes, or copies of others

    def _learn(self, connection: sqlite3.Connection, terms: Sequence[str], rows: Mapping[str, int]) -> bool:
        """Read the words that are not remembered, as far as they are in `SCORED` rows together: many common words at once
        are quicker scored in one go, and remembered little by little. False: some are left."""
        room = SCORED
        for term in terms:  # the rarest first
            if term not in self._postings:
                room -= rows[term]
                if room < 0:
                    return False
                self.posting(connection, term)
        return True

    def _named(self, connection: sqlite3.Connection, numbers: NDArray[np.int64]) -> Passing:
        """Those of these files that are nodes."""
        rows: list[tuple[str, int]] = []
        for some in chunks(numbers.tolist()):
            select = f"SELECT id, number FROM node WHERE held = 1 AND number IN ({marks(some)})"
            rows += connection.execute(select, some)
        return _passing(rows)

    def _bm25(
        self, connection: sqlite3.Connection, choose: Sequence[str], others: Sequence[str]
    ) -> NDArray[np.float64]:
        """bm25 of every row that has one of the words `choose`, with what `others` add to it; by row, 0 elsewhere and at
        the end."""
        chosen = [self.posting(connection, term) for term in choose]
        added = [self.posting(connection, term) for term in others]
        last = max((int(one.numbers[-1]) for one in (*chosen, *added) if len(one.numbers)), default=0)
        found = np.zeros(last + 2, np.float64)
        for one in chosen:
            found[one.numbers] += one.scores
        if added:
            left_out = found == 0.0
            for one in added:
                found[one.numbers] += one.scores
            found[left_out] = 0.0
        return found


def _read(connection: sqlite3.Connection, where: str, values: Sequence[object]) -> list[tuple[str, int]]:
    """Id and key of nodes."""
    ids, numbers = one_row.columns(connection, ("n.id", "n.number"), where, values)
    return list(zip(ids, map(int, numbers), strict=True))


def _passing(rows: list[tuple[str, int]]) -> Passing:
    rows.sort()
    return Passing([row[0] for row in rows], np.array([row[1] for row in rows], np.int64))


def top(scores: NDArray[np.float64], limit: int) -> NDArray[np.int64]:
    """Places of the `limit` best scores, best first, equal ones in their order; and of all that equal the last of them."""
    places = np.arange(len(scores))
    if len(scores) > limit:
        places = np.flatnonzero(scores >= np.partition(scores, len(scores) - limit)[len(scores) - limit])
    return np.asarray(places[np.argsort(-scores[places], kind="stable")], np.int64)
