"""All vectors in memory (float32, one row per piece of a note), and exact nearest neighbours by matrix product.

The product only ranks. Returned cosines are computed row by row and rounded, so that they do not depend on what else is
compared at the same time, nor on how the index was built.

Rows are written once and never changed, so readers need no lock while they compute. A note that changes gets new rows,
and its old ones are dead. When a quarter of the rows is dead, the others are copied into a new array.
"""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from ormahd.embedding.token_vectors import Float, Half

SPARE = 8
"""A search for `limit` nodes first examines `limit` + `limit` // `SPARE` + 1 rows."""
STEP = 4096
"""The number of rows that are scored at a time, which limits the size of temporary copies."""
DEAD = 0.25
"""If more than this share of the rows is dead (replaced or removed), the others are copied into a new array."""
GROWTH = 1.5
"""When the array is full, one with so many times as many rows takes its place."""
DECIMALS = 6
"""The number of decimals of returned cosines. Stored vectors have 16-bit numbers, which justify three or four."""
ROUNDED = 2.0 * 10**-DECIMALS
"""Two cosines that differ by less may change places by rounding, or by another order of computation."""

Places = Mapping[str, tuple[int, int]]
"""{node id: (first row, number of rows)}."""


class MatrixView(Struct, frozen=True):
    """The rows of a `Matrix` at one moment.

    `rows`: float32[used, dimensions]. `owners`: the node id of each row; those after the last row belong to rows that
    were added later. `dead`: for each row, whether its node was removed or had newer rows.
    """

    rows: Float
    owners: Sequence[str]
    dead: NDArray[np.bool_]


class MatrixSnapshot(Struct, frozen=True):
    """A copy of a `Matrix` that still returns the vectors of nodes at one moment."""

    places: Places
    view: MatrixView

    def vectors(self, node_id: str) -> Float | None:
        """Return the vectors of a node: float32[pieces, dimensions]; None if it has none."""
        place = self.places.get(node_id)
        return None if place is None else self.view.rows[place[0] : place[0] + place[1]]


class Matrix:
    """The vectors of all nodes in RAM, as rows of a matrix, in which the nearest nodes are found. A node has one row
    for each piece of its text."""

    def __init__(self, dimensions: int, *, quick: int = 0) -> None:
        """`quick`: the largest number of rows at which the property `quick` is true."""
        self.dimensions = dimensions
        self._quick = quick
        self._lock = threading.Lock()
        self._places: dict[str, tuple[int, int]] = {}  # id -> first row, number of rows
        self._rows: Float = np.empty((STEP, dimensions), np.float32)
        self._owners: list[str] = []  # node id of each row, dead ones included
        self._dead = np.zeros(STEP, np.bool_)  # by row: no longer used
        self._used = 0
        self._live = 0

    def __len__(self) -> int:
        """Return the number of nodes that have vectors."""
        return len(self._places)

    def __contains__(self, node_id: str) -> bool:
        """Return whether a node has vectors."""
        return node_id in self._places

    @property
    def pieces(self) -> int:
        """The number of rows that are not dead."""
        return self._live

    @property
    def quick(self) -> bool:
        """Whether there are so few rows that comparing all of them is faster than a search in Chroma."""
        return self._used <= self._quick

    @property
    def memory(self) -> int:
        """The number of bytes of all rows, dead ones included."""
        return 4 * self._used * self.dimensions

    def put(self, items: Iterable[tuple[str, Half]]) -> None:
        """Set the vectors of nodes. `items`: (node id, float16[pieces, dimensions]).

        Only one thread at a time may call `put` or `remove`.
        """
        with self._lock:
            for node_id, vectors in items:
                self._mark_dead(node_id)
                self._append(node_id, vectors)
            self._compact()

    def remove(self, ids: Collection[str]) -> None:
        """Remove the vectors of nodes. Unknown ids are ignored."""
        with self._lock:
            for node_id in ids:
                self._mark_dead(node_id)
            self._compact()

    def _mark_dead(self, node_id: str) -> None:
        """Mark the rows of a node as dead, if it has any."""
        place = self._places.pop(node_id, None)
        if place is not None:
            self._live -= place[1]
            self._dead[place[0] : place[0] + place[1]] = True

    def _append(self, node_id: str, vectors: Half | Float) -> None:
        """Append the rows of a node."""
        first, last = self._used, self._used + len(vectors)
        if last > len(self._rows):
            size = int(GROWTH * last)
            rows, dead = np.empty((size, self.dimensions), np.float32), np.zeros(size, np.bool_)
            rows[:first], dead[:first] = self._rows[:first], self._dead[:first]
            self._rows, self._dead = rows, dead
        self._rows[first:last] = vectors
        self._places[node_id] = (first, len(vectors))
        self._owners += [node_id] * len(vectors)
        self._live += len(vectors)
        self._used = last

    def _compact(self) -> None:
        """Copy the rows that are not dead into a new array, if too many rows are dead."""
        if self._used - self._live <= max(STEP, DEAD * self._used):
            return
        # Readers that have the old array go on with it.
        old, places = self._rows, self._places
        self._rows = np.empty((max(STEP, int(GROWTH * self._live)), self.dimensions), np.float32)
        self._dead = np.zeros(len(self._rows), np.bool_)
        self._owners, self._places, self._used, self._live = [], {}, 0, 0
        for node_id, (first, count) in places.items():
            self._append(node_id, old[first : first + count])

    def _view(self) -> MatrixView:
        """Return the rows as they are now. The caller holds the lock."""
        return MatrixView(self._rows[: self._used], self._owners, self._dead[: self._used].copy())

    def vectors(self, node_id: str) -> Float | None:
        """Return the vectors of a node: float32[pieces, dimensions]; None if it has none."""
        with self._lock:
            place, view = self._places.get(node_id), self._view()
        return None if place is None else view.rows[place[0] : place[0] + place[1]]

    def frozen(self) -> MatrixSnapshot:
        """Return the vectors of all nodes as they are now; later changes do not affect them."""
        with self._lock:
            return MatrixSnapshot(self._places.copy(), self._view())

    def counts(self, ids: Sequence[str]) -> list[int]:
        """Return the number of pieces of each node; 0 if it has no vectors."""
        nothing = (0, 0)
        return [place[1] for place in map(self._places.get, ids, itertools.repeat(nothing))]

    def ids(self) -> list[str]:
        """Return the ids of all nodes that have vectors."""
        with self._lock:
            return list(self._places)

    def cosines(self, vector: Float, ids: Sequence[str]) -> dict[str, float]:
        """Return {node id: cosine of `vector`, a unit vector, with the nearest piece of the node}. Nodes without
        vectors are left out."""
        ids = list(dict.fromkeys(ids))
        found = self.similarities(vector[None], ids)[:, 0].tolist()
        return {node_id: cosine for node_id, cosine in zip(ids, found, strict=True) if not math.isnan(cosine)}

    def similarities(self, vectors: Float, ids: Sequence[str]) -> NDArray[np.float64]:
        """Return the cosine of each unit vector in `vectors` with the nearest piece of each node, float64[len(ids),
        len(vectors)]. NaN for nodes without vectors."""
        with self._lock:
            places = [self._places.get(node_id) for node_id in ids]
            view = self._view()
        known = [place for place in places if place is not None]
        if len(known) == len(ids):
            return _cosines(view, known, vectors)
        found = np.full((len(ids), len(vectors)), np.nan)
        found[[number for number, place in enumerate(places) if place is not None]] = _cosines(view, known, vectors)
        return found

    def nearest(self, vector: Float, limit: int) -> list[tuple[str, float]]:
        """Return the `limit` nodes nearest to `vector` as (id, cosine with the nearest piece), nearest first, then by
        id."""
        return self.nearest_each(vector[None], limit)[0]

    def nearest_each(self, vectors: Float, limit: int) -> list[list[tuple[str, float]]]:
        """Return what `nearest` returns for each of `vectors` (float32[k, dimensions]), with one pass over the rows."""
        with self._lock:
            view = self._view()
        if not len(view.rows) or limit < 1:
            return [[] for _ in vectors]
        products = view.rows @ vectors.T
        return [_nearest(view, column, vector, limit) for column, vector in zip(products.T, vectors, strict=True)]


def _nearest(view: MatrixView, products: Float, vector: Float, limit: int) -> list[tuple[str, float]]:
    """Return the `limit` nodes nearest to `vector` as (id, cosine), nearest first. `products`: the dot product of each
    row of `view` with `vector`."""
    row_count = limit + limit // SPARE + 1  # number of rows whose exact cosines are computed
    while True:
        row_count = min(row_count, len(products))
        rows = np.argpartition(products, len(products) - row_count)[-row_count:]
        exact = row_by_row(view.rows.take(rows, axis=0), vector[None])[:, 0]
        order = np.argsort(-exact)
        best: dict[str, float] = {}  # of the nearest row of each node
        sorted_rows = rows[order]
        columns = (sorted_rows.tolist(), exact[order].tolist(), view.dead[sorted_rows].tolist())
        for row, cosine, dead in zip(*columns, strict=True):
            if not dead:
                best.setdefault(view.owners[row], cosine)
        near = sorted(best.items(), key=lambda item: (-item[1], item[0]))[:limit]
        # Other pieces of the same note and dead rows take up places: examine more rows, until no other node can be as
        # near as the last one.
        if row_count == len(products) or (len(near) == limit and near[-1][1] - ROUNDED > float(products[rows].min())):
            return near
        row_count *= 2


def row_by_row(rows: Float, vectors: Float) -> NDArray[np.float64]:
    """Return `rows @ vectors.T`, rounded, with each number computed separately.

    A single matrix product is not used, because the last bits of its numbers depend on the sizes of the matrices.
    """
    return np.asarray(np.vecdot(rows[:, None], vectors), np.float64).round(DECIMALS)


def _cosines(view: MatrixView, places: Sequence[tuple[int, int]], vectors: Float) -> NDArray[np.float64]:
    """Return the largest cosine of a node's rows with each vector, float64[places, vectors]. `places`: (first row,
    number of rows) of each node."""
    if not places:
        return np.empty((0, len(vectors)))
    starts, counts = np.array(places, np.int64).T
    ends = np.cumsum(counts)
    rows = np.arange(ends[-1]) - np.repeat(ends - counts, counts) + np.repeat(starts, counts)
    scores = np.empty((len(rows), len(vectors)))
    for at in range(0, len(rows), STEP):  # keeps the copies small
        chunk = rows[at : at + STEP]
        scores[at : at + len(chunk)] = row_by_row(view.rows.take(chunk, axis=0), vectors)
    return np.maximum.reduceat(scores, ends - counts, axis=0)
