"""Find the nearest neighbours of memories by their embeddings, and score how similar two memories are.

A run has one `NearMemories`, a cache, so that several jobs that need the same neighbours search once. The similarity
score is 0.6 * cosine + 0.2 * similarity of the titles + 0.2 * share of common words.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from ormahd.actions.views import headline
from ormahd.index.index import Index
from ormahd.index.rows import NodeRow
from ormahd.model.change import Kind
from ormahd.text.words import overlap, words

REACH = 16
"""Number of neighbours kept per memory. No job asks for more: the conflict detector needs 15 (REFERENCE C)."""
AHEAD = 32
"""Number of memories whose neighbours are searched in one batch."""
PIECES = 3
"""Number of pieces of a long note whose neighbours are searched, because another note may resemble only a part of it.
"""
TEXT_STAYS = frozenset({Kind.LINK, Kind.CLUSTER, Kind.CONFLICT, Kind.DECAY, Kind.PROMOTE, Kind.STRENGTH})
"""Kinds of changes that change no text, so the cached neighbours stay valid."""


class NearMemories:
    """A cache: node id -> its nearest neighbours as (id, cosine), nearest first. A memory without vectors has no
    neighbours."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._known: dict[str, list[tuple[str, float]]] = {}
        self._unwritten = index.unwritten()
        """Ids of notes that Ormah never writes to. They are not returned as neighbours."""

    def of(self, node_id: str) -> list[tuple[str, float]]:
        """Return up to REACH neighbours as (id, cosine), nearest first. Some may have been deleted since the search:
        the caller must check."""
        if node_id not in self._known:
            self.prefetch([node_id])
        return self._known[node_id]

    def prefetch(self, ids: Sequence[str]) -> None:
        """Search the neighbours of several memories in one batch, which is much faster than one by one."""
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
                if other != node_id and other not in self._unwritten and cosine > known.get(other, -1.0):
                    known[other] = cosine
        for node_id, known in best.items():
            self._known[node_id] = sorted(known.items(), key=lambda hit: (-hit[1], hit[0]))[:REACH]

    def forget(self, ids: Collection[str]) -> None:
        """Drop from the cache the memories in `ids`, whose texts changed, and all memories that have one of them
        as a neighbour."""
        changed = set(ids)
        known = self._known.items()
        self._known = {one: hits for one, hits in known if changed.isdisjoint((one, *(other for other, _ in hits)))}


COSINE, TITLE, WORDS = 0.6, 0.2, 0.2


class PairSimilarity(Struct, frozen=True):
    """The similarity of two memories, with its three parts. Each part is 0 to 1; a cosine below 0 counts as 0."""

    cosine: float
    title: float
    """1 - (edit distance of the titles / length of the longer one). The first line stands in for a missing title."""
    words: float
    """Jaccard index of the words of title and content."""

    @property
    def composite(self) -> float:
        """Return the weighted sum of the three parts, 0 to 1."""
        return COSINE * max(0.0, self.cosine) + TITLE * self.title + WORDS * self.words

    def __str__(self) -> str:
        return f"composite {self.composite:.2f} (cosine {self.cosine:.2f}, titles {self.title:.2f}, words {self.words:.2f})"


def likeness(one: NodeRow, other: NodeRow, cosine: float) -> PairSimilarity:
    """Return the similarity of two memories. `cosine`: that of their vectors, -1 to 1."""
    from rapidfuzz.distance import Levenshtein  # imported here to keep the start of the daemon quick

    names = [headline(row.title, row.content).casefold() for row in (one, other)]
    return PairSimilarity(
        cosine,
        Levenshtein.normalized_similarity(*names),
        overlap(*(words(f"{row.title or ''}\n{row.content}") for row in (one, other))),
    )
