"""One model's vectors in memory (`VectorStore`), and the schedule for updating Chroma (`ChromaSync`).

SQLite holds the stored embeddings (`embedding_cache.py`); Chroma is a fast approximate index over them (`chroma.py`).
Nodes that Chroma does not hold yet are searched exactly, so a node can be found as soon as it is embedded, with or
without Chroma.
"""

from __future__ import annotations

import itertools
import json
import logging
import math
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ormahd.embedding.embedder import Embedder
from ormahd.embedding.token_vectors import Float
from ormahd.index import embedding_cache
from ormahd.index.database import Database
from ormahd.index.embedding_cache import Pieces
from ormahd.process import priority, sql
from ormahd.process import priority as memory
from ormahd.settings import VectorSettings
from ormahd.vectors.chroma import Chroma, ChromaTrouble
from ormahd.vectors.matrix import Matrix

EXACT = 5_000
"""If more nodes than this are missing in Chroma, searches do not use it: scoring the missing nodes exactly would take
longer than searching all vectors in memory."""
WIDENINGS = 2
"""How often Chroma is asked again, each time for three times as many pieces, if those found belong to too few nodes."""
FETCH = 100
"""Minimum number of pieces that Chroma is asked for. A search in its graph visits `SEARCH_EF` pieces anyway, and the
exact cosines decide afterwards."""
REFILLS = 5
"""How often Chroma is filled again because it holds a wrong number of vectors. After that it is no longer used."""
SETTLE_BATCH = 1000
"""Number of nodes in one write to Chroma while a caller waits for it."""
GENTLE_BATCH = 100
"""Number of nodes in any other write to Chroma. It is small because Chroma holds the interpreter's lock during a write,
which stops all other threads."""

_ONE = (0,)

log = logging.getLogger(__name__)


class VectorStore:
    """Holds the vectors of one model in RAM, searches them, and writes them to Chroma. Also knows the model's token
    frequencies, and which nodes are still to be embedded or written to Chroma.

    Reading is safe from any thread; a writer must hold the index's apply lock.
    """

    def __init__(self, embedder: Embedder, directory: Path, settings: VectorSettings) -> None:
        self.embedder = embedder
        self.matrix = Matrix(embedder.dimensions, quick=settings.exact_pieces if settings.url is None else 0)
        self.chroma: Chroma | None = None
        """The open collection; None while Chroma is closed or has failed."""
        self.trouble: str | None = None
        """Why Chroma is not used, if it failed."""
        self.number = 0
        self.alarm: Callable[[], None] = lambda: None
        """Called when Chroma fails in a search, so that the indexer opens it again."""
        self.waiting: dict[str, None] = {}
        """Nodes without vectors, in the order in which they will be embedded."""
        self._df: dict[int, int] = {}
        self._unsettled: dict[str, int] = {}  # node -> value of `_changes` at its last change
        self._changes = 0
        self._lock = threading.Lock()
        self._store = Chroma(directory, settings, embedder.fingerprint)
        self._marks: tuple[str, int] = ("", 0)
        self._checked = False
        self._distrusted = False
        self._resting = False
        self._wipe = False
        self._refills = 0

    # Loading and updating

    def load(self, connection: sqlite3.Connection) -> None:
        """Load this model's vectors, token counts and pending nodes from SQLite. Damaged embeddings are deleted."""
        self.number = embedding_cache.model_number(connection, self.embedder.fingerprint)
        bad = embedding_cache.drop_bad(connection, self.number, self.embedder.dimensions, self.embedder.late_dimensions)
        if bad:
            log.warning("%d embeddings were damaged; their texts are embedded again", bad)
            embedding_cache.recount(connection, self.number)
        self.matrix.put(embedding_cache.everything(connection, self.number))
        self._df = embedding_cache.df(connection, self.number)
        self.waiting = dict.fromkeys(embedding_cache.waiting(connection, self.number))
        rows = connection.execute("SELECT id FROM chroma_pending WHERE model = ?", (self.number,))
        self._unsettled = {row[0]: 0 for row in rows}
        row = connection.execute("SELECT value FROM meta WHERE key = ?", (self._key,)).fetchone()
        if row is not None:
            generation, position = json.loads(row[0])
            self._marks = (generation, position)
        self._resting = bool(self._marks[0]) and embedding_cache.models(connection) == [self.number]

    def reload(self, connection: sqlite3.Connection) -> None:
        """Discard what is in RAM and load it again from `connection`, a new database file that replaced the old one.
        The background thread then fills Chroma again."""
        self.matrix.remove(set(self.matrix.ids()))
        self._marks = ("", 0)
        self._changes += 1
        self._checked = False
        self.load(connection)
        self.distrust()

    def take(self, delta: embedding_cache.Delta) -> None:
        """Make the changes of a committed transaction to the vectors in RAM as well."""
        self.matrix.remove(delta.gone)
        self.matrix.put(delta.vectors.items())
        for token, n in delta.df.items():
            self._df[token] = self._df.get(token, 0) + n
        with self._lock:
            for node_id in delta.learn:
                self._changes += 1
                self._unsettled[node_id] = self._changes
            for node_id in delta.gone | delta.vectors.keys():
                self.waiting.pop(node_id, None)
            self.waiting |= dict.fromkeys(sorted(delta.waiting))

    @property
    def searched(self) -> str:
        """Where vectors are searched: "memory" (in RAM), "chroma" (Chroma in this process) or "server" (a Chroma
        server). It is "memory" whenever Chroma is not open."""
        if self.matrix.quick or self.chroma is None:
            return "memory"
        return "chroma" if self._store.embedded else "server"

    @property
    def unsettled(self) -> int:
        """Number of nodes whose current vectors Chroma does not hold yet."""
        return len(self._unsettled)

    @property
    def learned(self) -> bool:
        """Whether Chroma is open, holds all nodes, and was found to have as many pieces as there are in RAM."""
        return self.chroma is not None and not self._unsettled and self._checked

    @property
    def changes(self) -> int:
        """A counter that is incremented whenever a node has to be written to Chroma."""
        return self._changes

    @property
    def told(self) -> tuple[str, int]:
        """(random id of Chroma's collection, number of writes to it), as of the last write; it differs after each
        write."""
        return self._marks

    def recount(self, connection: sqlite3.Connection) -> None:
        self._df = embedding_cache.recount(connection, self.number)

    def unsettled_ids(self) -> set[str]:
        with self._lock:
            return set(self._unsettled)

    # Search

    def search(self, vector: Float, limit: int) -> list[tuple[str, float]]:
        """Return the nearest nodes: (id, cosine of the best piece), best first. If Chroma finds the candidates, their
        exact cosines are still computed from the vectors in RAM."""
        if not len(self.matrix) or limit < 1:
            return []
        if self.matrix.quick:
            return self.matrix.nearest(vector, limit)
        with self._lock:
            fresh = list(self._unsettled) if len(self._unsettled) <= EXACT else None
        chroma, (generation, _) = self.chroma, self._marks
        if chroma is None or fresh is None or limit >= len(self.matrix):
            return self.matrix.nearest(vector, limit)
        try:
            near = self._ask(chroma, vector, limit)
        except ChromaTrouble as trouble:
            if generation == self._marks[0]:  # else it was refilled meanwhile
                self.fail(trouble)
                self.alarm()
            return self.matrix.nearest(vector, limit)
        if len(near) < limit:
            return self.matrix.nearest(vector, limit)
        scores = self.matrix.cosines(vector, [*near, *fresh])
        return sorted(scores.items(), key=lambda item: (-item[1], item[0]))[:limit]

    def search_each(self, vectors: Float, limit: int) -> list[list[tuple[str, float]]]:
        """Search with several vectors, float32[k, dimensions], as `search` does."""
        if self.matrix.quick:
            return self.matrix.nearest_each(vectors, limit)
        return [self.search(vector, limit) for vector in vectors]

    @staticmethod
    def _ask(chroma: Chroma, vector: Float, limit: int) -> list[str]:
        wanted = max(limit + limit // 5, FETCH)
        for _ in range(WIDENINGS + 1):
            pieces = chroma.search(vector, wanted)
            nodes = list(dict.fromkeys(piece.rpartition(":")[0] for piece in pieces))
            if len(nodes) >= limit or len(pieces) < wanted:
                break
            wanted *= 3
        return nodes

    def idf(self, token_ids: NDArray[np.uint32]) -> Float:
        """Return how rare each of these token ids is among the notes: ln((notes + 1) / (notes with the token + 1)),
        at least 0."""
        notes = len(self.matrix) + 1
        counts = np.array([self._df.get(int(token), 0) for token in token_ids], np.float32)
        return np.asarray(np.maximum(np.log(notes / (counts + 1)), 0.0), np.float32)

    def best_pieces(self, ids: Sequence[str], vector: Float | None, most: int) -> dict[str, Pieces]:
        """Return node id -> the pieces whose tokens are compared with those of a query: all pieces, or of a long note
        only the `most` nearest to `vector`. Nodes without vectors are left out."""
        chosen: dict[str, Pieces] = {}
        for node_id, count in zip(ids, self.matrix.counts(ids), strict=True):
            if count == 1:
                chosen[node_id] = _ONE
            elif count > most and vector is not None:
                vectors = self.matrix.vectors(node_id)
                if vectors is not None:
                    chosen[node_id] = tuple(sorted(np.argsort(-(vectors @ vector), kind="stable")[:most].tolist()))
            elif count:
                chosen[node_id] = tuple(range(min(count, most)))
        return chosen

    # Chroma, from the background thread only

    @property
    def _key(self) -> str:
        return f"chroma:{self.number}"

    def fail(self, trouble: ChromaTrouble) -> None:
        """Note `trouble`, and stop using Chroma until it is opened again."""
        if self.chroma is not None:
            log.warning("%s; search goes on exactly", trouble)
        self.chroma = None
        self.trouble = str(trouble)

    @property
    def rests(self) -> bool:
        """Whether Chroma is closed and need not be opened: it holds all nodes, and searches compare all vectors in
        RAM."""
        return self._resting and not self._unsettled and self.matrix.quick

    def rest(self) -> None:
        """Close Chroma if it holds all nodes and no search uses it, because an open Chroma keeps a second copy of all
        vectors in RAM."""
        if self.learned and self.matrix.quick:
            self.chroma = None
            self._store.close()
            self._resting = True

    def open_chroma(self) -> bool:
        """Open this model's collection in Chroma. Return False if the collection does not hold what was last written
        to it; it must then be filled again (`refill`)."""
        self._resting = False
        found = self._store.open()
        generation, position = self._marks
        fits = found is not None and found[0] == generation and found[1] in {position, position + 1}
        if not fits or self._distrusted or self._store.bloated(self.matrix.pieces):
            return False
        self.chroma, self.trouble = self._store, None
        return True

    def distrust(self) -> None:
        """Stop using Chroma, and have the background thread fill it again."""
        self._distrusted = True
        self._resting = False
        self.chroma = None

    def wipe(self) -> None:
        """Have the background thread delete Chroma's files and then fill Chroma again."""
        self._wipe = True
        self.distrust()

    @property
    def wiped(self) -> bool:
        return not self._wipe

    def wipe_now(self) -> None:
        """Delete Chroma's files. Only the background thread may call this, and it must hold the apply lock."""
        self.distrust()
        self._store.wipe()
        self._wipe = False

    def refill(self, connection: sqlite3.Connection) -> None:
        """Create an empty collection in Chroma, and record that all embedded nodes are missing in it, so that they
        are written to it. `connection`: the connection for writing, in a transaction."""
        self._refills += 1
        self.chroma = None
        self._marks = ("", 0)
        self._marks = (self._store.make(), 0)
        connection.execute("DELETE FROM chroma_pending WHERE model = ?", (self.number,))
        connection.execute("INSERT INTO chroma_pending SELECT model, id, 0 FROM embedded WHERE model = ?", (self.number,))  # fmt: skip
        self._save_marks(connection)
        with self._lock:
            self._changes += 1
            self._unsettled = dict.fromkeys(self.matrix.ids(), self._changes)
        self._distrusted = self._checked = False
        self.chroma, self.trouble = self._store, None

    def settle(self, connection: sqlite3.Connection, most: int) -> dict[str, tuple[int, int]]:
        """Write up to `most` nodes to Chroma. Return, for `settled`, node id -> (value of `changes` at the node's
        last change, number of the node's pieces).

        `connection`: for reading how many pieces of each node Chroma has.
        """
        with self._lock:
            batch = dict(itertools.islice(self._unsettled.items(), most))
        held: dict[str, int] = {}
        for some in sql.sets(list(batch)):
            rest = f"FROM chroma_pending WHERE model = ? AND id IN ({sql.marks(some)})"
            held |= sql.lookup(connection, "id", "pieces", rest, (self.number, *some))
        ids: list[str] = []
        gone: list[str] = []
        vectors: list[Float] = []
        done: dict[str, tuple[int, int]] = {}
        for node_id, change in batch.items():
            here = self.matrix.vectors(node_id)
            count = 0 if here is None else len(here)
            if here is not None:
                vectors.append(here)
            ids += [f"{node_id}:{number}" for number in range(count)]
            gone += [f"{node_id}:{number}" for number in range(count, held.get(node_id, 0))]
            done[node_id] = (change, count)
        generation, position = self._marks
        stacked = np.concatenate(vectors) if vectors else np.empty((0, self.matrix.dimensions), np.float32)
        self._store.write(ids, stacked, gone, generation, position + 1)
        self._marks = (generation, position + 1)
        return done

    def settled(self, connection: sqlite3.Connection, done: Mapping[str, tuple[int, int]]) -> None:
        """Record in SQLite that Chroma now holds these nodes; `done` is the result of `settle`. A node that changed
        since that call is still recorded as missing in Chroma."""
        with self._lock:
            same = [node_id for node_id, (change, _) in done.items() if self._unsettled.get(node_id) == change]
            for node_id in same:
                del self._unsettled[node_id]
        other = done.keys() - set(same)
        sql.among(connection, "DELETE FROM chroma_pending WHERE model = ? AND id IN", same, first=(self.number,))
        connection.executemany(
            "UPDATE chroma_pending SET pieces = max(pieces, ?) WHERE model = ? AND id = ?",
            [(done[one][1], self.number, one) for one in other],
        )
        self._save_marks(connection)

    def complete(self) -> bool:
        """Once Chroma holds all nodes, check that it has as many pieces as there are in RAM. Return False if Chroma
        must be filled again. Raises ChromaTrouble if it was filled again several times already."""
        before = self._changes
        if self._unsettled or self._checked:
            return True
        same = self._store.count() == self.matrix.pieces
        if before != self._changes:
            return True  # there was a write meanwhile; compare again later
        if not same and self._refills >= REFILLS:
            raise ChromaTrouble("Chroma holds another number of vectors than it was given")
        self._checked = same
        return same

    def drop_others(self) -> None:
        if self.chroma is not None:
            self.chroma.drop_others()

    def _save_marks(self, connection: sqlite3.Connection) -> None:
        connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (self._key, json.dumps(self._marks)))

    def close(self) -> None:
        self.chroma = None
        self._store.close()


REST_S = 1.0
"""Seconds from the last change until Chroma is updated in a vault whose searches need it, because any write to it is
slow, however small."""
QUIET_S = 20.0
"""The same, and from a start, while searches use memory anyway. Opening Chroma, and writing to it, holds the GIL for
long, which would delay a client that only paused between two writes."""
PATIENCE = 4
"""Pause after a write to Chroma, as a multiple of the write's duration."""
LONGEST_S = 300.0
"""Maximum time for which work on Chroma is put off while requests keep coming, in seconds."""
STAY_S = 300.0
"""How long Chroma stays open after it was last needed, in seconds, while searches use memory anyway."""


class ChromaSync:
    """Decides when to open, update and close Chroma, at low priority, and does so. Only one thread may use it, the
    one that calls `step`; `stay` may be called by any thread."""

    def __init__(self, database: Database, applying: threading.Lock) -> None:
        self._database = database
        self._applying = applying
        self._seen = 0
        self._seen_at = self._free_at = time.monotonic()
        """`_seen_at`: time of the last change that this thread has seen, or of the start; `_free_at`: last time at which
        no work on Chroma was put off."""
        self._rest_until = 0.0
        self._open_until = 0.0
        self.since: float | None = None
        """Time of the first write to Chroma since memory was last returned to the system; None if there was none."""

    def stay(self) -> None:
        """Keep Chroma open for a while, because it is needed."""
        self._open_until = time.monotonic() + STAY_S

    def step(self, store: VectorStore, *, settling: bool) -> float | None:
        """Open Chroma, or write one batch to it. Return the seconds until the next step; None if there is nothing to
        write. `settling`: whether a caller waits for Chroma."""
        if (store.chroma is None and not (store.rests and not settling)) or (store.chroma and store.unsettled):
            if not settling and (left := self._wait(store)) > 0:
                return left
            self._free_at = time.monotonic()
            if store.chroma is None:
                self._open(store)
            else:
                self._tell(store, SETTLE_BATCH if settling else GENTLE_BATCH)
            return 0.0
        self._free_at = time.monotonic()
        if store.chroma is not None and not store.complete():
            log.warning("Chroma holds another number of vectors than the index; it is filled again")
            with self._applying, self._database.write() as connection:
                store.refill(connection)
            return 0.0
        return None

    def rest(self, store: VectorStore, settling: bool) -> float:
        """Close Chroma if it was not needed for a while. Return the seconds until Chroma may be closed; infinity if
        it is closed, or must stay open for searches."""
        if store.chroma is None or not store.matrix.quick:
            return math.inf
        left = STAY_S if settling else self._open_until - time.monotonic()
        if left > 0:
            return left
        with self._applying:  # `Index.verify` holds this lock while it compares
            store.rest()
        memory.give_back()
        return math.inf

    def _tell(self, store: VectorStore, most: int) -> None:
        begun = time.monotonic()
        with self._database.read() as connection:
            done = store.settle(connection, most)
        self._rest_until = time.monotonic() + (time.monotonic() - begun) * PATIENCE
        self.stay()
        with self._applying, self._database.write() as connection:
            store.settled(connection, done)
        self.since = self.since or time.monotonic()

    def _open(self, store: VectorStore) -> None:
        self.stay()
        if not store.open_chroma():
            with self._applying, self._database.write() as connection:
                store.refill(connection)

    def _wait(self, store: VectorStore) -> float:
        """Return for how many seconds to put off work on Chroma: while notes are being written and, if no search needs
        Chroma, while anybody searches."""
        now = time.monotonic()
        if store.changes != self._seen:  # each change wakes this thread, so it is seen at once
            self._seen, self._seen_at = store.changes, now
        quick = store.matrix.quick
        busy = now - self._seen_at < (QUIET_S if quick else REST_S) or (quick and priority.searched_lately())
        if busy and now - self._free_at < LONGEST_S:
            return REST_S
        return self._rest_until - now
