"""All vectors in memory, for exact cosines: float16, one row a piece, 0.8 KB each.

The first rows are kept as float32 too: a product with them takes a third of a millisecond for 10,000, where turning
float16 into float32 for each question takes forty times as long.

Rows are written once and never changed, so readers need no lock while they compute: a note that changes gets new
rows, and when a quarter of the rows is dead the living ones are copied into new blocks.
"""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ormahd.index.late import Float

Half = NDArray[np.float16]
BLOCK = 4096
"""Rows in one allocation (3 MB at 384 dimensions)."""
DECIMALS = 6
"""Of a cosine: float16 vectors are good for three or four."""
ROUNDED = 2.0 * 10**-DECIMALS
"""By how much two cosines may change places when they are rounded."""
SPARE = 8
"""A share of the rows (one in so many) that is looked at beyond those asked for."""
DEAD = 0.25
"""Share of dead rows from which the living ones are copied together."""


@dataclass(frozen=True, slots=True)
class _View:
    """Rows as they were at one moment; blocks may grow behind `used`, which this view does not see."""

    blocks: tuple[Half, ...]
    wide: tuple[Float, ...]
    owners: Sequence[str]
    used: int

    def floats(self, number: int) -> Float:
        """A block as float32, without its unused end."""
        block = self.wide[number] if number < len(self.wide) else self.blocks[number]
        return block[: min(BLOCK, self.used - number * BLOCK)].astype(np.float32, copy=False)

    def rows(self, rows: NDArray[np.int64]) -> Float:
        """Some rows as float32."""
        found = np.empty((len(rows), self.blocks[0].shape[1]), np.float32)
        of = rows // BLOCK
        for number in np.flatnonzero(np.bincount(of)).tolist():
            here = of == number
            block = self.wide[number] if number < len(self.wide) else self.blocks[number]
            found[here] = block[rows[here] % BLOCK]
        return found


class Matrix:
    """Vectors by node id; a node has one row for each piece of its text."""

    def __init__(self, dimensions: int, *, quick: int = 0) -> None:
        """`quick`: rows up to which everything is compared at once (`quick` tells whether that is so), in memory twice."""
        self.dimensions = dimensions
        self._most_wide = -(-quick // BLOCK)
        self._quick = quick
        self._lock = threading.Lock()
        self._places: dict[str, tuple[int, int]] = {}  # id -> first row, number of rows
        self._blocks: list[Half] = []
        self._wide: list[Float] = []
        self._owners: list[str] = []  # whose row it is, or was
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
        parts: list[NDArray[Any]] = [*self._blocks, *self._wide]
        return sum(part.nbytes for part in parts)

    def put(self, items: Iterable[tuple[str, Half]]) -> None:
        """Set the vectors (float16[pieces, dimensions]) of nodes."""
        with self._lock:
            for node_id, vectors in items:
                self._forget(node_id)
                self._append(node_id, vectors)
            self._compact()

    def remove(self, ids: Collection[str]) -> None:
        with self._lock:
            for node_id in ids:
                self._forget(node_id)
            self._compact()

    def _forget(self, node_id: str) -> None:
        place = self._places.pop(node_id, None)
        if place is not None:
            self._live -= place[1]

    def _append(self, node_id: str, vectors: Half) -> None:
        """A node's rows stand together, also across the border of two blocks."""
        self._places[node_id] = (self._used, len(vectors))
        self._owners += [node_id] * len(vectors)
        self._live += len(vectors)
        done = 0
        while done < len(vectors):
            at = self._used % BLOCK
            if self._used // BLOCK == len(self._blocks):
                self._blocks.append(np.empty((BLOCK, self.dimensions), np.float16))
                if len(self._wide) < self._most_wide:
                    self._wide.append(np.empty((BLOCK, self.dimensions), np.float32))
            some = vectors[done : done + BLOCK - at]
            self._blocks[-1][at : at + len(some)] = some
            if len(self._wide) == len(self._blocks):
                self._wide[-1][at : at + len(some)] = some
            self._used += len(some)
            done += len(some)

    def _compact(self) -> None:
        if self._used - self._live <= max(BLOCK, DEAD * self._used):
            return
        old, places = self._view(), self._places
        self._blocks, self._wide, self._owners, self._places, self._used, self._live = [], [], [], {}, 0, 0
        for node_id, (first, count) in places.items():
            self._append(node_id, old.rows(np.arange(first, first + count)).astype(np.float16))

    def _view(self) -> _View:
        return _View(tuple(self._blocks), tuple(self._wide), self._owners, self._used)

    def vectors(self, node_id: str) -> Float | None:
        """float32[pieces, dimensions] of one node."""
        with self._lock:
            place, view = self._places.get(node_id), self._view()
        return None if place is None else view.rows(np.arange(place[0], place[0] + place[1]))

    def count(self, node_id: str) -> int:
        """Pieces of one node."""
        return self._places.get(node_id, (0, 0))[1]

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

    def nearest(self, vector: Float, limit: int) -> list[tuple[str, float]]:
        """The nearest nodes of all, exactly: (id, cosine). Reads every row: 0.5 ms for 10,000 that are `quick`, 0.1 s for
        100,000 that are not."""
        return self.nearest_each(vector[None], limit)[0]

    def nearest_each(self, vectors: Float, limit: int) -> list[list[tuple[str, float]]]:
        """`nearest` of several vectors (float32[k, dimensions]): the rows are read once for all of them, and reading is
        what it costs."""
        with self._lock:
            view = self._view()
        if not view.used or limit < 1:
            return [[] for _ in vectors]
        scores = np.concatenate([view.floats(number) @ vectors.T for number in range(len(view.blocks))])
        return [self._best(view, column, vector, limit) for column, vector in zip(scores.T, vectors, strict=True)]

    def _best(self, view: _View, scores: Float, vector: Float, limit: int) -> list[tuple[str, float]]:
        """Of what was read, the nearest nodes with their exact cosines."""
        wanted = limit + limit // SPARE + 1
        while True:
            wanted = min(wanted, len(scores))
            rows = np.argpartition(scores, len(scores) - wanted)[-wanted:]
            near = {view.owners[row] for row in rows.tolist()}
            with self._lock:  # a dead row's node may have gone, or have other vectors now
                alive = [(node_id, self._places[node_id]) for node_id in near if node_id in self._places]
            exact = _scores(view, [place for _, place in alive], vector[None])[:, 0].tolist()
            best = sorted([(-cosine, node_id) for (node_id, _), cosine in zip(alive, exact, strict=True)])[:limit]
            # Long notes fill the rows with their pieces: more of them, until nothing as good can stand outside.
            outside = float(scores[rows].min()) + ROUNDED
            if wanted == len(scores) or (len(best) == limit and -best[-1][0] > outside):
                return [(node_id, -less) for less, node_id in best]
            wanted *= 2


def _scores(view: _View, places: Sequence[tuple[int, int]], vectors: Float) -> NDArray[np.float64]:
    """Of each place (first row, number of rows) the best cosine with each vector: float64[places, vectors]."""
    if not places:
        return np.empty((0, len(vectors)))
    starts, counts = np.array(places, np.int64).T
    ends = np.cumsum(counts)
    rows = np.arange(ends[-1]) - np.repeat(ends - counts, counts) + np.repeat(starts, counts)
    scores = np.empty((len(rows), len(vectors)), np.float32)
    for at in range(0, len(rows), BLOCK):  # float32 copies stay small
        some = rows[at : at + BLOCK]
        scores[at : at + len(some)] = view.rows(some) @ vectors.T
    # Rounded, because the last bits depend on how many rows were multiplied together.
    return np.maximum.reduceat(scores, ends - counts, axis=0).astype(np.float64).round(DECIMALS)
