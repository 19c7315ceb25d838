"""The nearest of many vectors, exactly: a first comparison of all rows by their short form, the whole ones of the best.

As many rows are compared in full as it takes until nothing as near can stand among the others; where short forms are compared
that is all but certain, not proved (`DEVIATIONS`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from ormahd.index.front import BLOCK, Front, Half, wide
from ormahd.index.late import Float
from ormahd.index.rows import SPARE

DECIMALS = 6
"""Of a cosine: float16 vectors are good for three or four."""
ROUNDED = 2.0 * 10**-DECIMALS
"""By how much two cosines may change places when they are rounded."""
SHORTENED = 3
"""So many times as many rows are looked at where the first comparison was of shortened vectors."""
DEVIATIONS = 4.0
"""How far the shortened comparison may be off for a row that was not looked at, in standard deviations of those that were.
Of the hundred nearest of 100,000 rows mixed from conversations it misses one in 1,400, near the end of the hundred."""
ENOUGH = 40
"""So many times as many rows are looked at at most, where vectors are such that shortening them tells little."""


class View(Struct, frozen=True):
    """Rows as they were at one moment; blocks may grow behind `used`, which this view does not see."""

    blocks: tuple[Half, ...]
    front: Front
    owners: Sequence[str]
    used: int

    def rows(self, rows: NDArray[np.int64]) -> Float:
        """Some rows as float32."""
        return wide(self.halves(rows))

    def halves(self, rows: NDArray[np.int64]) -> Half:
        if len(self.blocks) == 1:
            return self.blocks[0][rows]
        found = np.empty((len(rows), self.blocks[0].shape[1]), np.float16)
        of = rows // BLOCK
        for number in np.flatnonzero(np.bincount(of)).tolist():
            here = of == number
            found[here] = self.blocks[number][rows[here] % BLOCK]
        return found

    def first(self, vectors: Float) -> Float:
        """The first comparison of every row with each vector: float32[rows, vectors]."""
        parts = self.front.products(vectors)
        for at in range(self.front.rows, self.used, BLOCK):  # beyond those that have a short form
            some = np.arange(at, min(at + BLOCK, self.used))
            parts.append(self.rows(some) @ vectors.T)
        return np.concatenate(parts)


class Only(Struct, frozen=True):
    """Nodes that are wanted: these, but none of `gone`. `share`: about how many they are of all."""

    members: AbstractSet[str]
    gone: AbstractSet[str]
    share: float


def nearest(
    view: View, places: Mapping[str, tuple[int, int]], first: Float, vector: Float, limit: int, only: Only | None,
    cosines: Callable[[Float, Sequence[str]], Mapping[str, float]],
) -> list[tuple[str, float]]:  # fmt: skip
    """The nearest nodes, each with its nearest piece's cosine, by the `first` comparison of all rows of `view`.

    `places`: first row and number of rows of each node; `cosines`: of nodes as they are now, exactly.
    """
    shortened = view.front.shortened
    asked = limit + limit // SPARE + 1
    looked, taken = int(asked * (SHORTENED if shortened else 1) / (only.share if only else 1.0)), asked
    while True:
        looked = min(looked, len(first))
        rows = np.argpartition(first, len(first) - looked)[-looked:]
        cut = float(first[rows].min())
        if only is not None:
            rows = _wanted(view, rows, only)
        exact = view.rows(rows) @ vector if shortened else first[rows]
        order = np.argsort(-exact)[:taken]  # none, where nobody who is wanted is among the nearest
        best = _owned(view, places, rows[order], exact[order])
        worst = -best[limit - 1][0] - ROUNDED if len(best) >= limit else -math.inf
        # Long notes fill the rows with their pieces: more of them, until nothing as good can stand outside.
        if taken < len(rows) and worst <= float(exact[order].min()):
            taken *= 2
            continue
        if shortened and 0 < len(rows) < ENOUGH * asked:
            cut += DEVIATIONS * float(np.std(exact - first[rows]))
        if looked == len(first) or worst > cut:
            # The last bits depend on what was multiplied together: equal questions get equal answers, whatever was asked beside.
            exactly = cosines(vector, [node_id for less, node_id in best if -less >= worst])
            return sorted(exactly.items(), key=lambda item: (-item[1], item[0]))[:limit]
        looked *= 2


def _wanted(view: View, rows: NDArray[np.int64], only: Only) -> NDArray[np.int64]:
    members, gone, owners = only.members, only.gone, view.owners
    chosen = [row for row in rows.tolist() if (owner := owners[row]) in members and owner not in gone]
    return np.array(chosen, np.int64)


def _owned(
    view: View, places: Mapping[str, tuple[int, int]], rows: NDArray[np.int64], exact: Float
) -> list[tuple[float, str]]:
    """Whose these rows are, the nearest row first, each with its best row's cosine: (-cosine, id), the nearest first."""
    best: dict[str, float] = {}
    numbers = rows.tolist()
    ids = [view.owners[row] for row in numbers]
    for row, cosine, node_id, place in zip(numbers, exact.tolist(), ids, map(places.get, ids), strict=True):
        # A node that is gone; or, as the rows come by their cosines, one that has a better row already.
        if place is None or node_id in best:
            continue
        # A dead row, unless it has other vectors since a moment ago, which this view does not see: those are compared in the end.
        if place[0] <= row < place[0] + place[1] or place[0] >= view.used:
            best[node_id] = cosine
    return sorted([(-cosine, node_id) for node_id, cosine in best.items()])
