"""All vectors in memory, for exact cosines: float16, one row a piece, 0.8 KB each.

To find the nearest, a shorter vector of each row is compared first (`prefilter.py`), and of the rows that come out best the
whole ones: as many as it takes until nothing as near can stand among the others.

Rows are written once and never changed, so readers need no lock while they compute: a note that changes gets new
rows, and when a quarter of the rows is dead the living ones are copied into new blocks.
"""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Collection, Iterable, Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from ormahd.embedding.token_vectors import Float
from ormahd.vectors.nearest import Only, View, nearest, row_by_row
from ormahd.vectors.prefilter import STEP, Front, Half

BLOCK = 65_536
"""Rows in one allocation (48 MB at 384 dimensions, of which the system gives what is written to): to pick some hundred rows out of one
array takes a third of what it takes out of several."""
DEAD = 0.25
"""Share of dead rows from which the living ones are copied together."""


class Frozen(Struct, frozen=True):
    """The vectors of a `Matrix` at one moment."""

    places: dict[str, tuple[int, int]]
    """Id to first row and number of rows."""
    view: View

    def vectors(self, node_id: str) -> Float | None:
        """float32[pieces, dimensions] of one node."""
        place = self.places.get(node_id)
        return None if place is None else self.view.rows(np.arange(place[0], place[0] + place[1]))


class Matrix:
    """Vectors by node id; a node has one row for each piece of its text."""

    def __init__(self, dimensions: int, *, quick: int = 0, block: int = BLOCK) -> None:
        """`quick`: rows up to which everything is compared at once (`quick` tells whether that is so), and that have a short form.
        `block`: rows in one allocation."""
        self.dimensions = dimensions
        self._quick = quick
        self._block = block
        self._lock = threading.Lock()
        self._places: dict[str, tuple[int, int]] = {}  # id -> first row, number of rows
        self._blocks: list[Half] = []
        self._front = Front()
        self._owners: list[str] = []  # whose row it is, or was
        self._dead = np.zeros(STEP, np.bool_)  # by row: it was
        self._used = 0
        self._live = 0

    def __len__(self) -> int:
        """Nodes that have vectors."""
        return len(self._places)

    def __contains__(self, node_id: str) -> bool:
        return node_id in self._places

    @property
    def pieces(self) -> int:
        return self._live

    @property
    def quick(self) -> bool:
        """Whether comparing everything is quicker than asking anybody."""
        return self._used <= self._quick

    @property
    def memory(self) -> int:
        """Bytes of the vectors."""
        return 2 * self._used * self.dimensions + self._front.memory

    def put(self, items: Iterable[tuple[str, Half]]) -> None:
        """Set the vectors (float16[pieces, dimensions]) of nodes. One caller at a time, as of `remove`."""
        with self._lock:
            for node_id, vectors in items:
                self._forget(node_id)
                self._append(node_id, vectors)
            self._compact()
        self._shorten()

    def remove(self, ids: Collection[str]) -> None:
        with self._lock:
            for node_id in ids:
                self._forget(node_id)
            self._compact()
        self._shorten()

    def _forget(self, node_id: str) -> None:
        place = self._places.pop(node_id, None)
        if place is not None:
            self._live -= place[1]
            self._dead[place[0] : place[0] + place[1]] = True

    def _append(self, node_id: str, vectors: Half) -> None:
        """A node's rows stand together, also across the border of two blocks."""
        self._places[node_id] = (self._used, len(vectors))
        self._owners += [node_id] * len(vectors)
        self._live += len(vectors)
        if self._used + len(vectors) > len(self._dead):
            more = np.zeros(len(self._dead) + len(vectors), np.bool_)
            self._dead = np.concatenate([self._dead, more])
        done = 0
        while done < len(vectors):
            number, at = divmod(self._used, self._block)
            if number == len(self._blocks):
                self._blocks.append(np.empty((self._block, self.dimensions), np.float16))
            some = vectors[done : done + self._block - at]
            self._blocks[-1][at : at + len(some)] = some
            self._used += len(some)
            done += len(some)

    def _compact(self) -> None:
        if self._used - self._live <= max(STEP, DEAD * self._used):
            return
        old, places = self._view(), self._places
        self._blocks, self._front, self._owners, self._places, self._used, self._live = [], Front(), [], {}, 0, 0
        self._dead = np.zeros(STEP, np.bool_)
        for node_id, (first, count) in places.items():
            self._append(node_id, old.halves(np.arange(first, first + count)))

    def _shorten(self) -> None:
        """Give the new rows their short form; without the lock, so that a search need not wait for it."""
        front = self._front.grown(self._blocks, min(self._used, self._quick))
        with self._lock:
            self._front = front

    def _view(self) -> View:
        return View(tuple(self._blocks), self._front, self._owners, self._dead, self._used)

    def vectors(self, node_id: str) -> Float | None:
        """float32[pieces, dimensions] of one node."""
        with self._lock:
            place, view = self._places.get(node_id), self._view()
        return None if place is None else view.rows(np.arange(place[0], place[0] + place[1]))

    def frozen(self) -> Frozen:
        """The vectors of all nodes as they are now, whatever is changed later: rows are written once."""
        with self._lock:
            return Frozen(self._places.copy(), self._view())

    def counts(self, ids: Sequence[str]) -> list[int]:
        """Pieces of each node; 0 where there is none."""
        nothing = (0, 0)
        return [place[1] for place in map(self._places.get, ids, itertools.repeat(nothing))]

    def ids(self) -> list[str]:
        with self._lock:
            return list(self._places)

    def cosines(self, vector: Float, ids: Sequence[str]) -> dict[str, float]:
        """Cosine of `vector` (unit) and the nearest piece of each node; nodes without vectors are left out."""
        ids = list(dict.fromkeys(ids))
        found = self.similarities(vector[None], ids)[:, 0].tolist()
        return {node_id: cosine for node_id, cosine in zip(ids, found, strict=True) if not math.isnan(cosine)}

    def similarities(self, vectors: Float, ids: Sequence[str]) -> NDArray[np.float64]:
        """Cosines of several unit vectors and the nearest piece of each node: float64[len(ids), len(vectors)], NaN for
        nodes without vectors."""
        with self._lock:
            places = [self._places.get(node_id) for node_id in ids]
            view = self._view()
        there = [place for place in places if place is not None]
        if len(there) == len(ids):
            return _scores(view, there, vectors)
        found = np.full((len(ids), len(vectors)), np.nan)
        found[[number for number, place in enumerate(places) if place is not None]] = _scores(view, there, vectors)
        return found

    def nearest(self, vector: Float, limit: int, only: Only | None = None) -> list[tuple[str, float]]:
        """The nearest nodes of all, or of those that `only` lets through: (id, exact cosine). Looks at every row: 0.3 ms for 10,000
        of 384 dimensions that have a short form, 2 ms for 100,000."""
        return self.nearest_each(vector[None], limit, only)[0]

    def nearest_each(self, vectors: Float, limit: int, only: Only | None = None) -> list[list[tuple[str, float]]]:
        """`nearest` of several vectors (float32[k, dimensions]): the rows are read once for all of them, and reading is
        what it costs."""
        with self._lock:
            view, places = self._view(), self._places
        if not view.used or limit < 1:
            return [[] for _ in vectors]
        first = view.first(vectors)
        return [
            nearest(view, places, column, vector, limit, only, self.cosines)
            for column, vector in zip(first.T, vectors, strict=True)
        ]


def _scores(view: View, places: Sequence[tuple[int, int]], vectors: Float) -> NDArray[np.float64]:
    """Of each place (first row, number of rows) the best cosine with each vector: float64[places, vectors]."""
    if not places:
        return np.empty((0, len(vectors)))
    starts, counts = np.array(places, np.int64).T
    ends = np.cumsum(counts)
    rows = np.arange(ends[-1]) - np.repeat(ends - counts, counts) + np.repeat(starts, counts)
    scores = np.empty((len(rows), len(vectors)))
    for at in range(0, len(rows), STEP):  # float32 copies stay small
        some = rows[at : at + STEP]
        scores[at : at + len(some)] = row_by_row(view.rows(some), vectors)
    return np.maximum.reduceat(scores, ends - counts, axis=0)
