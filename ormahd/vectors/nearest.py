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

from ormahd.embedding.token_vectors import Float
from ormahd.vectors.prefilter import STEP, Front, Half, wide

SPARE = 8
"""A share of the rows (one in so many) that is looked at beyond those asked for."""
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
_NOWHERE = (-1, 0)
"""The place of a node that has no vectors."""


class View(Struct, frozen=True):
    """Rows as they were at one moment; blocks may grow behind `used`, which this view does not see."""

    blocks: tuple[Half, ...]
    front: Front
    owners: Sequence[str]
    dead: NDArray[np.bool_]
    """By row: it is nobody's any more."""
    used: int

    def rows(self, rows: NDArray[np.int64]) -> Float:
        """Some rows as float32."""
        return wide(self.halves(rows))

    def halves(self, rows: NDArray[np.int64]) -> Half:
        if len(self.blocks) == 1:
            return self.blocks[0].take(rows, axis=0)
        size, dimensions = self.blocks[0].shape
        found = np.empty((len(rows), dimensions), np.float16)
        of = rows // size
        for number in np.flatnonzero(np.bincount(of)).tolist():
            here = of == number
            found[here] = self.blocks[number][rows[here] % size]
        return found

    def first(self, vectors: Float) -> Float:
        """The first comparison of every row with each vector: float32[rows, vectors]."""
        parts = self.front.products(vectors)
        for at in range(self.front.rows, self.used, STEP):  # beyond those that have a short form
            some = np.arange(at, min(at + STEP, self.used))
            parts.append(self.rows(some) @ vectors.T)
        return parts[0] if len(parts) == 1 else np.concatenate(parts)


class Only(Struct, frozen=True):
    """Nodes that are wanted: these, but none of `gone`. `share`: about how many they are of all."""

    members: AbstractSet[str]
    gone: AbstractSet[str]
    share: float


def row_by_row(rows: Float, vectors: Float) -> NDArray[np.float64]:
    """`rows @ vectors.T`, rounded, each number by itself: the last bits of a product depend on how much is multiplied together, and
    equal questions get equal answers, whatever is asked beside."""
    return np.asarray(np.vecdot(rows[:, None], vectors), np.float64).round(DECIMALS)


def nearest(
    view: View, places: Mapping[str, tuple[int, int]], first: Float, vector: Float, limit: int, only: Only | None,
    cosines: Callable[[Float, Sequence[str]], Mapping[str, float]],
) -> list[tuple[str, float]]:  # fmt: skip
    """The nearest nodes, each with its nearest piece's cosine, by the `first` comparison of all rows of `view`.

    `places`: first row and number of rows of each node; `cosines`: of nodes as they are now, for those that changed meanwhile.
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
        exact = row_by_row(view.rows(rows), vector[None])[:, 0]
        order = np.argsort(-exact)[:taken]  # none, where nobody who is wanted is among the nearest
        best, changed = _owned(view, places, rows[order], exact[order])
        worst = -best[limit - 1][0] - ROUNDED if len(best) >= limit else -math.inf
        # Long notes fill the rows with their pieces: more of them, until nothing as good can stand outside.
        if taken < len(rows) and worst <= float(exact[order].min()):
            taken *= 2
            continue
        if shortened and 0 < len(rows) < ENOUGH * asked:
            cut += DEVIATIONS * float(np.std(exact - first[rows]))
        if looked == len(first) or worst > cut:
            near = {node_id: -less for less, node_id in best}
            near |= cosines(vector, changed) if changed else {}
            return sorted(near.items(), key=lambda item: (-item[1], item[0]))[:limit]
        looked *= 2


def _wanted(view: View, rows: NDArray[np.int64], only: Only) -> NDArray[np.int64]:
    members, gone, owners = only.members, only.gone, view.owners
    chosen = [row for row in rows.tolist() if (owner := owners[row]) in members and owner not in gone]
    return np.array(chosen, np.int64)


def _owned(
    view: View, places: Mapping[str, tuple[int, int]], rows: NDArray[np.int64], exact: NDArray[np.float64]
) -> tuple[list[tuple[float, str]], list[str]]:
    """Whose these rows are, the nearest row first, each with its best row's cosine: (-cosine, id), the nearest first. And which of
    them have other vectors since a moment ago, which this view does not see."""
    best: dict[str, float] = {}
    changed: list[str] = []
    for row, cosine, dead in zip(rows.tolist(), exact.tolist(), view.dead[rows].tolist(), strict=True):
        node_id = view.owners[row]
        if node_id in best:  # by a better row: they come by their cosines
            continue
        if dead:
            if places.get(node_id, _NOWHERE)[0] < view.used:
                continue
            changed.append(node_id)
        best[node_id] = cosine
    return sorted([(-cosine, node_id) for node_id, cosine in best.items()]), changed
