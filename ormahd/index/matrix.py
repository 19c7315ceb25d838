"""All vectors in memory, for exact cosines: float16, one row a piece, 0.8 KB each.

Rows are written once and never changed, so readers need no lock while they compute: a note that changes gets new
rows, and when a quarter of the rows is dead the living ones are copied into new blocks.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from ormahd.index.late import Float

Half = NDArray[np.float16]
BLOCK = 4096
"""Rows in one allocation (3 MB at 384 dimensions)."""
DECIMALS = 6
"""Of a cosine: float16 vectors are good for three or four."""
DEAD = 0.25
"""Share of dead rows from which the living ones are copied together."""


@dataclass(frozen=True, slots=True)
class _View:
    """Rows as they were at one moment; blocks may grow behind `used`, which this view does not see."""

    blocks: tuple[Half, ...]
    owners: tuple[NDArray[np.void], ...]
    used: int


class Matrix:
    """Vectors by node id; a node has one row for each piece of its text."""

    def __init__(self, dimensions: int) -> None:
        self.dimensions = dimensions
        self._lock = threading.Lock()
        self._places: dict[bytes, tuple[int, int]] = {}  # id -> first row, number of rows
        self._blocks: list[Half] = []
        self._owners: list[NDArray[np.void]] = []
        self._used = 0
        self._live = 0

    def __len__(self) -> int:
        """Nodes that have vectors."""
        return len(self._places)

    def __contains__(self, node_id: str) -> bool:
        return _key(node_id) in self._places

    @property
    def pieces(self) -> int:
        return self._live

    @property
    def memory(self) -> int:
        """Bytes of the vectors."""
        return sum(block.nbytes for block in self._blocks) + sum(owner.nbytes for owner in self._owners)

    def put(self, items: Iterable[tuple[str, Half]]) -> None:
        """Set the vectors (float16[pieces, dimensions]) of nodes."""
        with self._lock:
            for node_id, vectors in items:
                key = _key(node_id)
                self._forget(key)
                self._append(key, vectors)
            self._compact()

    def remove(self, ids: Collection[str]) -> None:
        with self._lock:
            for node_id in ids:
                self._forget(_key(node_id))
            self._compact()

    def _forget(self, key: bytes) -> None:
        place = self._places.pop(key, None)
        if place is not None:
            self._live -= place[1]

    def _append(self, key: bytes, vectors: Half) -> None:
        """A node's rows stand together, also across the border of two blocks."""
        self._places[key] = (self._used, len(vectors))
        self._live += len(vectors)
        done = 0
        while done < len(vectors):
            at = self._used % BLOCK
            if self._used // BLOCK == len(self._blocks):
                self._blocks.append(np.empty((BLOCK, self.dimensions), np.float16))
                self._owners.append(np.zeros(BLOCK, "V16"))
            some = vectors[done : done + BLOCK - at]
            self._blocks[-1][at : at + len(some)] = some
            self._owners[-1][at : at + len(some)] = np.void(key)
            self._used += len(some)
            done += len(some)

    def _compact(self) -> None:
        if self._used - self._live <= max(BLOCK, DEAD * self._used):
            return
        old_blocks, places = self._blocks, self._places
        self._blocks, self._owners, self._places, self._used, self._live = [], [], {}, 0, 0
        for key, (first, count) in places.items():
            self._append(key, _rows(old_blocks, np.arange(first, first + count)))

    def vectors(self, node_id: str) -> Float | None:
        """float32[pieces, dimensions] of one node."""
        with self._lock:
            place = self._places.get(_key(node_id))
            blocks = tuple(self._blocks)
        if place is None:
            return None
        return _rows(blocks, np.arange(place[0], place[0] + place[1])).astype(np.float32)

    def count(self, node_id: str) -> int:
        """Pieces of one node."""
        return self._places.get(_key(node_id), (0, 0))[1]

    def ids(self) -> list[str]:
        with self._lock:
            keys = list(self._places)
        return [str(UUID(bytes=key)) for key in keys]

    def cosines(self, vector: Float, ids: Sequence[str]) -> dict[str, float]:
        """Cosine of `vector` (unit) and the nearest piece of each node; nodes without vectors are left out."""
        places, blocks = self._find(ids)
        if not places:
            return {}
        counts = np.array([count for _, (_, count) in places])
        starts = np.array([first for _, (first, _) in places])
        ends = np.cumsum(counts)
        rows = np.arange(ends[-1]) - np.repeat(ends - counts, counts) + np.repeat(starts, counts)
        scores = np.empty(len(rows), np.float32)
        for at in range(0, len(rows), BLOCK):  # float32 copies stay small
            some = rows[at : at + BLOCK]
            scores[at : at + len(some)] = _rows(blocks, some).astype(np.float32) @ vector
        # Rounded, because the last bits depend on how many rows were multiplied together.
        best = np.maximum.reduceat(scores, ends - counts).astype(np.float64).round(DECIMALS)
        return {node_id: float(score) for (node_id, _), score in zip(places, best, strict=True)}

    def _find(self, ids: Sequence[str]) -> tuple[list[tuple[str, tuple[int, int]]], tuple[Half, ...]]:
        keys = [(node_id, _key(node_id)) for node_id in dict.fromkeys(ids)]
        with self._lock:
            return [(name, self._places[key]) for name, key in keys if key in self._places], tuple(self._blocks)

    def nearest(self, vector: Float, limit: int) -> list[tuple[str, float]]:
        """The nearest nodes of all, exactly: (id, cosine). Reads every row: 0.1 s for 100,000."""
        with self._lock:
            view = _View(tuple(self._blocks), tuple(self._owners), self._used)
        best: dict[bytes, float] = {}
        for number, block in enumerate(view.blocks):
            used = min(BLOCK, view.used - number * BLOCK)
            scores = block[:used].astype(np.float32) @ vector
            wanted = min(used, 4 * limit)
            for row in np.argpartition(-scores, wanted - 1)[:wanted]:
                key = view.owners[number][row].tobytes()
                if scores[row] > best.get(key, -2.0):
                    best[key] = float(scores[row])
        with self._lock:  # a dead row's node may have gone, or have other vectors now
            alive = [str(UUID(bytes=key)) for key in best if key in self._places]
        exact = self.cosines(vector, alive)
        return sorted(exact.items(), key=lambda item: (-item[1], item[0]))[:limit]


def _key(node_id: str) -> bytes:
    """An id in 16 bytes; three times as fast as through UUID, and hundreds are looked up for one question."""
    return bytes.fromhex(node_id.replace("-", ""))


def _rows(blocks: Sequence[Half], rows: NDArray[np.int64]) -> Half:
    found = np.empty((len(rows), blocks[0].shape[1]), np.float16)
    for number in np.unique(rows // BLOCK):
        here = rows // BLOCK == number
        found[here] = blocks[number][rows[here] % BLOCK]
    return found
