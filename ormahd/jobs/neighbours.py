"""Find pairs of memories that are near in meaning, from the index; and score how alike the two of a pair are.

One `NearMemories` lives for one run, so three jobs that ask for the same neighbours search once. The score is the original's: 0.6
cosine + 0.2 similarity of the titles + 0.2 share of common words.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ormahd.model.change import Kind

if TYPE_CHECKING:
    from ormahd.index.index import Index
    from ormahd.jobs.job import Turn
from typing import TYPE_CHECKING

from msgspec import Struct

from ormahd.actions.views import headline
from ormahd.text.words import overlap, words

if TYPE_CHECKING:
    from ormahd.index.rows import NodeRow


REACH = 16
"""Neighbours kept of each note: the conflict detector's 15 is the most that any job asks for (REFERENCE C)."""
AHEAD = 32
"""Notes whose neighbours are searched at once."""
PIECES = 3
"""Of a long note so many of its pieces look for neighbours: a part of it may be what another note says."""
WARM_S = 60.0
"""Seconds that a run right after the start waits for the model; then it does with the vectors that are there."""
TEXT_STAYS = frozenset({Kind.LINK, Kind.CLUSTER, Kind.CONFLICT, Kind.DECAY, Kind.PROMOTE, Kind.STRENGTH})
"""Changes that leave the texts as they are, and so who is near to whom: a night of links costs no second search."""


class NearMemories:
    """Neighbours by note, best first, as (id, cosine). Only nodes that have vectors have any."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._known: dict[str, list[tuple[str, float]]] = {}
        self._lent = index.lent()
        """Notes that no job may touch, and so nobody's neighbours."""

    def of(self, node_id: str) -> list[tuple[str, float]]:
        """Up to REACH neighbours. Some may be gone by now: whoever uses them looks."""
        if node_id not in self._known:
            self.ahead([node_id])
        return self._known[node_id]

    def ahead(self, ids: Sequence[str]) -> None:
        """Search for all of these at once, some dozens: it takes a tenth of the time that they take one by one."""
        asked = [node_id for node_id in dict.fromkeys(ids) if node_id not in self._known]
        pieces: list[tuple[str, NDArray[np.float32]]] = []
        for node_id in asked:
            vectors = self._index.vectors(node_id)
            pieces += [(node_id, vector) for vector in (() if vectors is None else vectors[:PIECES])]
        best: dict[str, dict[str, float]] = {node_id: {} for node_id in asked}
        hits = self._index.search_each(np.stack([vector for _, vector in pieces]), REACH + 1) if pieces else []
        for (node_id, _), found in zip(pieces, hits, strict=True):
            known = best[node_id]
            for other, cosine in found:
                if other != node_id and other not in self._lent and cosine > known.get(other, -1.0):
                    known[other] = cosine
        for node_id, known in best.items():
            self._known[node_id] = sorted(known.items(), key=lambda hit: (-hit[1], hit[0]))[:REACH]

    def forget(self, ids: Collection[str]) -> None:
        """These notes changed; they and whoever had them as neighbours are searched anew."""
        gone = set(ids)
        self._known = {
            node_id: hits for node_id, hits in self._known.items()
            if node_id not in gone and not any(other in gone for other, _ in hits)
        }  # fmt: skip


def wait_for_vectors(turn: Turn) -> None:
    """A run while the model is being loaded would find nobody near, and call that nothing to do."""
    ormah, end = turn.ormah, time.monotonic() + WARM_S
    while ormah.phase not in {"ready", "stopping"} and time.monotonic() < end and not ormah.index.wait_filled(0.2):
        turn.give()
        turn.progress(0, 0, "waiting for the model")


def pairs(
    ids: Sequence[str], near: NearMemories, *, floor: float, reach: int, give: Callable[[], None]
) -> Iterator[tuple[str, str, float]]:
    """Pairs (id, neighbour, cosine) of `ids` with their `reach` nearest, at least `floor` alike; each pair once."""
    met: set[tuple[str, str]] = set()
    for at, node_id in enumerate(ids):
        give()
        if not at % AHEAD:
            near.ahead(ids[at : at + AHEAD])
        for other, cosine in near.of(node_id)[:reach]:
            pair = (min(node_id, other), max(node_id, other))
            if cosine < floor:
                break
            if pair not in met:
                met.add(pair)
                yield node_id, other, cosine


COSINE, TITLE, WORDS = 0.6, 0.2, 0.2


class Likeness(Struct, frozen=True):
    """Each part 0 to 1 (a cosine below 0 counts as 0)."""

    cosine: float
    title: float
    """1 less the edit distance of the titles as a share of the longer; a memory without one has its first line."""
    words: float
    """Jaccard index of the words of title and content."""

    @property
    def composite(self) -> float:
        return COSINE * max(0.0, self.cosine) + TITLE * self.title + WORDS * self.words

    def __str__(self) -> str:
        return f"composite {self.composite:.2f} (cosine {self.cosine:.2f}, titles {self.title:.2f}, words {self.words:.2f})"


def likeness(one: NodeRow, other: NodeRow, cosine: float) -> Likeness:
    from rapidfuzz.distance import Levenshtein  # here, because all jobs are imported at the start

    names = [headline(row.title, row.content).casefold() for row in (one, other)]
    return Likeness(
        cosine,
        Levenshtein.normalized_similarity(*names),
        overlap(*(words(f"{row.title or ''}\n{row.content}") for row in (one, other))),
    )
