"""Token vectors that were read from the index: a hundred notes' for each question, and each row that SQLite gives is a turn of
the interpreter, which beside many writers takes longer than all the rest."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping

from ormahd.index.embedding_cache import Pieces

MOST = 56_000_000
"""Bytes: the tokens of 10,000 notes of 30 words. Of a larger vault those that were read last."""
LEARNED = 16_000_000
"""Bytes up to which they are read before somebody asks: of the notes that were used or made last, and only where a note is one piece. With
36 MB the daemon held 253 and 268 MB after an import of 10,000 notes, with these 240 and 246."""
ROOM = 0.1
"""Share of `MOST` that is let go at once: to find the first of a dictionary is to walk past all that went before."""

Read = Callable[[Mapping[str, Pieces]], dict[str, bytes]]
"""The tokens of these pieces of nodes, from the index (`cache.tokens`)."""


class KeptTokens:
    """Of a node the pieces that were asked for last. Part of a `Kept`, and as that one: taken before what is read for it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, tuple[int, Pieces, bytes]] = {}
        self._bytes = 0

    @property
    def size(self) -> int:
        """Bytes of all tokens that are remembered."""
        return self._bytes

    def without(self, ids: Collection[str]) -> KeptTokens:
        """What of this holds after these nodes came, changed or went."""
        other = KeptTokens()
        with self._lock:
            other._known, other._bytes = self._known.copy(), self._bytes
        for node_id in ids:
            other._forget(node_id)
        return other

    def of(self, model: int, pieces: Mapping[str, Pieces], read: Read) -> dict[str, bytes]:
        """The tokens of these pieces, in their order, read where they are not known; nodes without any are left out, and asked
        for again: they are embedded in a moment."""
        known = self._known
        there = {
            node_id: one[2]
            for node_id, some in pieces.items()
            if (one := known.get(node_id)) is not None and one[0] == model and one[1] == some
        }
        if len(there) == len(pieces):
            return there
        missing = {node_id: some for node_id, some in pieces.items() if node_id not in there}
        found = read(missing)
        with self._lock:
            for node_id, packed in found.items():
                self._forget(node_id)
                self._known[node_id] = (model, missing[node_id], packed)
                self._bytes += len(packed)
            if self._bytes > MOST:
                self._let_go()
        there |= found
        return {node_id: there[node_id] for node_id in pieces if node_id in there}

    def _let_go(self) -> None:
        """Forget what was read first, until there is room again."""
        kept = list(self._known.items())
        first = 0
        while self._bytes > (1 - ROOM) * MOST:
            self._bytes -= len(kept[first][1][2])
            first += 1
        self._known = dict(kept[first:])

    def _forget(self, node_id: str) -> None:
        found = self._known.pop(node_id, None)
        if found is not None:
            self._bytes -= len(found[2])
