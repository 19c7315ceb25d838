"""What was read from the index once and holds until a note changes: asking for it again costs no SQL.

Whoever changes the index puts another `Kept` in its place, after the change is committed and before the next question
begins: one that has forgotten the changed notes (`without`), and all words where one did change. A reader takes the
`Kept` first and its snapshot after, so nothing older than the change gets into the new one.
"""

from __future__ import annotations

import bisect
import time
from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from ormahd.index import lookup
from ormahd.index.edge_cache import KeptEdges
from ormahd.index.full_text import COUNTED_ANEW, RANK, SCORED, SMALL, Frequencies, largest, split
from ormahd.index.rows import Candidate, Filter, micros
from ormahd.index.standing_cache import KeptStandings
from ormahd.index.token_cache import KeptTokens
from ormahd.process import sql
from ormahd.process.sql import Snapshot
from ormahd.text.words import fts_match
from ormahd.vectors.nearest import SPARE

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


class Passing(Struct):
    """The nodes that a filter lets through: `ids` in their order, and the key of each."""

    ids: list[str]
    numbers: NDArray[np.int64]
    _members: frozenset[str] | None = None

    @property
    def members(self) -> frozenset[str]:
        """`ids` as a set."""
        if self._members is None:
            self._members = frozenset(self.ids)
        return self._members

    def mended(self, stale: Collection[str], rows: Sequence[tuple[str, int]]) -> Passing:
        """This list without the nodes `stale`, and with those of them that pass now (id and key)."""
        rows = sorted(rows)
        ids = self.ids.copy()
        places = [bisect.bisect_left(ids, node_id) for node_id in stale]
        gone = sorted(at for at, one in zip(places, stale, strict=True) if at < len(ids) and ids[at] == one)
        for at in reversed(gone):
            del ids[at]
        numbers = np.delete(self.numbers, gone)
        places = [bisect.bisect_left(ids, node_id) for node_id, _ in rows]
        for at, (node_id, _) in zip(reversed(places), reversed(rows), strict=True):
            ids.insert(at, node_id)
        numbers = np.insert(numbers, places, [number for _, number in rows])
        members = None if self._members is None else self._members.difference(stale).union(row[0] for row in rows)
        return Passing(ids, numbers, members)

    def best(
        self, scores: NDArray[np.float64], places: NDArray[np.int64], limit: int, gone: Collection[str]
    ) -> list[tuple[str, float]]:
        """Of these places on the list the `limit` with the best scores (aligned to the list), but none of `gone`: (id,
        score), equally good ones in the order of their ids."""
        order = places[top(scores[places], limit + len(gone))]
        found = [(self.ids[at], score) for at, score in zip(order.tolist(), scores[order].tolist(), strict=True)]
        return [one for one in found if one[0] not in gone][:limit]


class Posting(Struct, frozen=True):
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
        self.edges = KeptEdges()
        self.standings = KeptStandings()
        self._passing: dict[Filter, Passing] = {}
        self._times: dict[Filter, int] = {}
        self._postings: dict[str, Posting] = {}
        self._names: dict[int, str | None] = {}
        """Which node a file is; None: it is none."""
        self._asked: set[Filter] = set()
        self._ends: tuple[list[int], list[str]] | None = None
        """When the first nodes expire, in order, and which."""
        self._passed = 0
        self._posted = 0
        self._before: dict[Filter, tuple[Passing, frozenset[str]]] = {}
        """Lists that are right but for some nodes, which have changed since."""

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
            other.standings = self.standings.without(ids)
        before = self._before | {chosen: (listed, frozenset()) for chosen, listed in self._passing.copy().items()}
        room = PASSING
        for chosen, (listed, stale) in reversed(before.items()):  # the newest first
            room -= len(listed.ids)
            if room >= 0 and len(now := stale.union(ids)) <= CHANGED:
                other._before[chosen] = listed, now
        return other

    def passing(self, read: Snapshot, chosen: Filter) -> Passing:
        found = self._passing.get(chosen)
        if found is None:
            before = self._before.get(chosen)
            condition, values = chosen.sql()
            where = f"FROM node n WHERE {condition}"
            if before is None:
                found = _passing(_read(read, where, values))
            else:
                listed, changed = before
                stale = sorted(changed)
                rows = _read(read, f"{where} AND n.id IN ({sql.marks(stale)})", [*values, *stale])
                found = listed.mended(stale, rows)
            if self._passed + len(found.ids) > PASSING:
                self._passing, self._passed = {}, 0
            if chosen.alive_at is None:
                self._passing[chosen] = found
                self._passed += len(found.ids)
        return found

    def lists(self, chosen: Filter) -> bool:
        """Whether `passing` has the list, or one from before the last change, which is soon mended."""
        return chosen in self._passing or chosen in self._before

    def worth(self, chosen: Filter) -> bool:
        """Whether it pays to have the list of all that the filter lets through: it is there, or the filter was asked about so often
        since the last change that reading it does."""
        if self.lists(chosen):
            return True
        times = self._times.get(chosen, 0) + 1
        if chosen in self._times or len(self._times) < COUNTS:
            self._times[chosen] = times
        return times > WORTH

    def members(self, read: Snapshot, chosen: Filter) -> AbstractSet[str]:
        """The ids of `passing`."""
        return self.passing(read, chosen).members

    def posting(self, read: Snapshot, term: str) -> Posting:
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

    def gone(self, read: Snapshot, chosen: Filter) -> AbstractSet[str] | None:
        """The nodes that have expired by the filter's time; None: too many to tell."""
        if chosen.alive_at is None:
            return frozenset()
        if self._ends is None:
            self._ends = lookup.ends(read(), FEW_EXPIRED)
        times, ids = self._ends
        expired = bisect.bisect_right(times, micros(chosen.alive_at))
        return frozenset(ids[:expired]) if expired < FEW_EXPIRED else None

    def search(
        self, read: Snapshot, terms: Sequence[str], limit: int, chosen: Filter, counts: Frequencies
    ) -> list[tuple[str, float]] | None:
        """`text.search`, word by word; None where that is no use: the index is large or has just changed, too much has expired, or
        a filter is met for the first time, which saves SQLite more than reading whole words costs."""
        if self.files is None:
            self.files = largest(read())
        if self.large:
            return None
        lasting = replace(chosen, alive_at=None)
        if chosen.narrow and lasting not in self._asked:
            if len(self._asked) < COUNTS:
                self._asked.add(lasting)
            return None
        choose, others = split(read, terms, self.files, counts)
        known = self._postings.keys() >= {*choose, *others}
        if not known and time.monotonic() - self._since < YOUNG_S:
            return None
        gone = self.gone(read, chosen)
        if gone is None:
            return None
        if self.files > SMALL and not self._learn(read, [*choose, *others], counts.rows(read, terms, self.files)):
            return None
        scores = self._bm25(read, choose, others)
        if chosen.narrow:
            passing = self.passing(read, lasting)
            scores = scores[np.minimum(passing.numbers, len(scores) - 1)]
            return passing.best(scores, np.flatnonzero(scores), limit, gone)
        numbers = np.flatnonzero(scores)
        wanted = limit + len(gone) + limit // SPARE
        while True:
            best = numbers[top(scores[numbers], wanted)]
            passing = self._named(read, best)
            found = passing.best(scores[passing.numbers], np.arange(len(passing.ids)), limit, gone)
            if len(found) == limit or len(best) == len(numbers):
                return found
            wanted *= 3  # files that are no nodes, or copies of others

    def _learn(self, read: Snapshot, terms: Sequence[str], rows: Mapping[str, int]) -> bool:
        """Read the words that are not remembered, as far as they are in `SCORED` rows together: many common words at once
        are quicker scored in one go, and remembered little by little. False: some are left."""
        room = SCORED
        for term in terms:  # the rarest first
            if term not in self._postings:
                room -= rows[term]
                if room < 0:
                    return False
                self.posting(read, term)
        return True

    def _named(self, read: Snapshot, numbers: NDArray[np.int64]) -> Passing:
        """Those of these files that are nodes."""
        wanted, known = numbers.tolist(), self._names
        missing = [number for number in wanted if number not in known]
        found: dict[int, str | None] = dict.fromkeys(missing)
        for some in sql.sets(missing):
            rows = _read(read, f"FROM node n WHERE n.held = 1 AND n.number IN ({sql.marks(some)})", some)
            found |= {number: node_id for node_id, number in rows}
        known |= found
        return _passing([(node_id, number) for number in wanted if (node_id := known[number]) is not None])

    def _bm25(self, read: Snapshot, choose: Sequence[str], others: Sequence[str]) -> NDArray[np.float64]:
        """bm25 of every row that has one of the words `choose`, with what `others` add to it; by row, 0 elsewhere and at
        the end."""
        chosen = [self.posting(read, term) for term in choose]
        added = [self.posting(read, term) for term in others]
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


def _read(read: Snapshot, where: str, values: Sequence[object]) -> list[tuple[str, int]]:
    """Id and key of nodes."""
    ids, numbers = sql.columns(read(), ("n.id", "n.number"), where, values)
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
