"""One model's vectors in memory, searched exactly or with Chroma's help.

SQLite holds the stored embeddings (`embedding_cache.py`); Chroma is a fast approximate index over them (`chroma.py`).
Nodes that Chroma does not hold yet are searched exactly, so a node can be found as soon as it is embedded, with or
without Chroma.
"""

from __future__ import annotations

import sqlite3
import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ormahd.embedding.embedder import Embedder
from ormahd.embedding.token_vectors import Float
from ormahd.index import embedding_cache
from ormahd.index.embedding_cache import Pieces
from ormahd.settings import VectorSettings
from ormahd.vectors.chroma import Chroma
from ormahd.vectors.matrix import Matrix

FEW_NOTES = 100
"""Number of notes with which a function word has half the rarity that is counted (`VectorStore.idf`)."""
_ONE = (0,)


class VectorStore:
    """Holds the vectors of one model in RAM, and searches them. Also knows the model's token frequencies, and which nodes
    are still to be embedded.

    Reading is safe from any thread; a writer must hold the index's apply lock.
    """

    def __init__(self, embedder: Embedder, directory: Path, settings: VectorSettings) -> None:
        self.embedder = embedder
        self.matrix = Matrix(embedder.dimensions, quick=settings.exact_pieces if settings.url is None else 0)
        self.chroma = Chroma(directory, settings, embedder.fingerprint, self.matrix)
        self.number = 0
        self.waiting: dict[str, None] = {}
        """Nodes without vectors, in the order in which they will be embedded."""
        self.recorded = False
        """Whether SQLite has the record that Chroma holds all vectors (see `record`)."""
        self._df = Counter[int]()  # token id -> number of nodes that have it
        self._lock = threading.Lock()

    # Loading and updating

    def load(self, connection: sqlite3.Connection) -> None:
        """Load this model's vectors, token counts and pending nodes from SQLite, in place of those in RAM. Raises
        sqlite3.DatabaseError if they are damaged."""
        self.number = embedding_cache.model_number(connection, self.embedder.fingerprint)
        embedding_cache.check(connection, self.number, self.embedder.dimensions, self.embedder.late_dimensions)
        old = set(self.matrix.ids())
        self.matrix.remove(old)
        self.matrix.put(embedding_cache.everything(connection, self.number))
        rows = connection.execute("SELECT document FROM embedded WHERE model = ?", (self.number,))
        self._df = embedding_cache.frequencies(connection, [row[0] for row in rows])
        self.waiting = dict.fromkeys(embedding_cache.waiting(connection, self.number))
        row = connection.execute("SELECT value FROM meta WHERE key = 'chroma'").fetchone()
        self.recorded = row == (str(self.number),)
        if old:
            self.chroma.changed(old.union(self.matrix.ids()))
        else:
            self.chroma.compared = self.recorded

    def take(self, delta: embedding_cache.Delta) -> None:
        """Make the changes of a committed transaction to the vectors in RAM as well."""
        self.matrix.remove(delta.removed)
        self.matrix.put(delta.vectors.items())
        self._df.update(delta.df)
        changed = delta.removed | delta.vectors.keys()
        self.recorded = self.recorded and not changed
        self.chroma.changed(changed)
        with self._lock:
            for node_id in changed:
                self.waiting.pop(node_id, None)
            self.waiting |= dict.fromkeys(sorted(delta.waiting))

    def record(self, connection: sqlite3.Connection) -> None:
        """If Chroma holds all vectors, record that in SQLite, so that the next process need not open it. The next
        change to the vectors deletes the record (`embedding_cache.follow`)."""
        if self.chroma.complete:
            connection.execute("INSERT OR REPLACE INTO meta VALUES ('chroma', ?)", (str(self.number),))
            self.recorded = True

    # Search

    @property
    def searched(self) -> str:
        """Where vectors are searched: "memory" (in RAM), "chroma" (Chroma in this process) or "server" (a Chroma
        server). It is "memory" whenever Chroma is not open."""
        return (None if self.matrix.quick else self.chroma.place) or "memory"

    def search(self, vector: Float, limit: int) -> list[tuple[str, float]]:
        """Return the nearest nodes: (id, cosine of the best piece), best first. If Chroma finds the candidates, their
        exact cosines are still computed from the vectors in RAM."""
        near = None if self.matrix.quick else self.chroma.nearest(vector, limit)
        if near is None:
            return self.matrix.nearest(vector, limit)
        scores = self.matrix.cosines(vector, near)
        return sorted(scores.items(), key=lambda item: (-item[1], item[0]))[:limit]

    def search_each(self, vectors: Float, limit: int) -> list[list[tuple[str, float]]]:
        """Search with several vectors, float32[k, dimensions], as `search` does."""
        if self.matrix.quick:
            return self.matrix.nearest_each(vectors, limit)
        return [self.search(vector, limit) for vector in vectors]

    def idf(self, token_ids: NDArray[np.uint32], function_words: NDArray[np.bool_] | bool = False) -> Float:
        """Return how rare each of these token ids is among the notes: ln((notes + 1) / (notes with the token + 1)),
        at least 0.

        Few notes do not show which words are common: "why" may be in none of them. So the value of function words
        (`function_words`: whether a token is one) is multiplied by notes / (notes + `FEW_NOTES`).
        """
        notes = len(self.matrix) + 1
        counts = np.array([self._df[int(token)] for token in token_ids], np.float32)
        scale = np.where(function_words, notes / (notes + FEW_NOTES), 1.0)
        return np.asarray(np.maximum(np.log(notes / (counts + 1)), 0.0) * scale, np.float32)

    def best_pieces(self, ids: Sequence[str], vector: Float | None, limit: int) -> dict[str, Pieces]:
        """Return node id -> the pieces whose tokens are compared with those of a query: all pieces, or of a long note
        only the `limit` nearest to `vector`. Nodes without vectors are left out."""
        chosen: dict[str, Pieces] = {}
        for node_id, count in zip(ids, self.matrix.counts(ids), strict=True):
            if count == 1:
                chosen[node_id] = _ONE
            elif count > limit and vector is not None:
                vectors = self.matrix.vectors(node_id)
                if vectors is not None:
                    chosen[node_id] = tuple(sorted(np.argsort(-(vectors @ vector), kind="stable")[:limit].tolist()))
            elif count:
                chosen[node_id] = tuple(range(min(count, limit)))
        return chosen
