"""One model's side of the index, in memory: its vectors, how frequent its tokens are, and what is still to be done.

SQLite holds the truth of it (`embedding_cache.py`), Chroma is a quick way in (`chroma.py`). Whatever Chroma has not learned yet
is searched exactly, so a memory can be found from the moment it is embedded, and without Chroma everything can.
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
from ormahd.process import memory, priority, sql
from ormahd.settings import VectorSettings
from ormahd.vectors.chroma import Chroma, ChromaTrouble
from ormahd.vectors.matrix import Matrix

EXACT = 5_000
"""Nodes that Chroma has to learn, from which it is not asked: scoring them exactly takes longer than all of it."""
WIDENINGS = 2
"""Times that Chroma is asked again for three times as much, because long notes fill the answer with their pieces."""
FETCH = 100
"""Pieces that Chroma is asked for at least: its graph looks at `vectors.SEARCH_EF` of them anyway, and near ties are decided
by the exact cosines."""
REFILLS = 5
"""Times that Chroma is filled again for holding the wrong number of vectors, until it is done without."""
SETTLE_BATCH = 1000
"""Nodes in one write to Chroma, where somebody waits for it."""
GENTLE_BATCH = 100
"""And where nobody does: while Chroma writes it lets no other thread of the process go on (the interpreter's lock is held
throughout). Measured: 1,000 vectors stop everything for 0.2 s, 100 for 0.05 s, one for 0.04 s."""

_ONE = (0,)

log = logging.getLogger(__name__)


class VectorStore:
    """Vectors of one model. Reading is safe from any thread; whoever changes it holds the index's apply lock."""

    def __init__(self, embedder: Embedder, directory: Path, settings: VectorSettings) -> None:
        self.embedder = embedder
        self.matrix = Matrix(embedder.dimensions, quick=settings.exact_pieces)
        self.chroma: Chroma | None = None
        """None: not open (yet, or any more)."""
        self.trouble: str | None = None
        """Why Chroma is not used, when it failed."""
        self.number = 0
        self.alarm: Callable[[], None] = lambda: None
        """Called when Chroma fails in a search, so that somebody opens it again."""
        self.waiting: dict[str, None] = {}
        """Nodes without vectors, in the order in which they are embedded."""
        self._df: dict[int, int] = {}
        self._unsettled: dict[str, int] = {}  # node -> what changed it last, counted
        self._changes = 0
        self._lock = threading.Lock()
        self._store = Chroma(directory, settings, embedder.fingerprint)
        self._marks: tuple[str, int] = ("", 0)
        self._checked = False
        self._distrusted = False
        self._resting = False
        self._wipe = False
        self._refills = 0

    # Following the notes

    def load(self, connection: sqlite3.Connection) -> None:
        """Everything that SQLite knows of this model."""
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
        """`load` from a file that took the place of the one that was read before; Chroma follows it, or is filled again."""
        self.matrix.remove(set(self.matrix.ids()))
        self._marks = ("", 0)
        self._changes += 1
        self._checked = False
        self.load(connection)
        self.distrust()

    def take(self, delta: embedding_cache.Delta) -> None:
        """Repeat in memory what was committed."""
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
        """Where the nearest are looked for: `memory`, `chroma` (the embedded one) or `server`. While Chroma cannot be asked it is memory."""
        if self.matrix.quick or self.chroma is None:
            return "memory"
        return "chroma" if self._store.embedded else "server"

    @property
    def unsettled(self) -> int:
        """Nodes that Chroma has yet to learn."""
        return len(self._unsettled)

    @property
    def learned(self) -> bool:
        """Chroma is open, knows everything, and was compared."""
        return self.chroma is not None and not self._unsettled and self._checked

    @property
    def changes(self) -> int:
        """Counts up with everything that Chroma has to learn."""
        return self._changes

    @property
    def told(self) -> tuple[str, int]:
        """Another one each time that something was written to Chroma."""
        return self._marks

    def recount(self, connection: sqlite3.Connection) -> None:
        self._df = embedding_cache.recount(connection, self.number)

    def unsettled_ids(self) -> set[str]:
        with self._lock:
            return set(self._unsettled)

    # Search

    def search(self, vector: Float, limit: int) -> list[tuple[str, float]]:
        """The nearest nodes: (id, cosine of the best piece), best first. Chroma proposes, the matrix scores."""
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
            if generation == self._marks[0]:  # else it was made anew while it was asked
                self.fail(trouble)
                self.alarm()
            return self.matrix.nearest(vector, limit)
        if len(near) < limit:
            return self.matrix.nearest(vector, limit)
        scores = self.matrix.cosines(vector, [*near, *fresh])
        return sorted(scores.items(), key=lambda item: (-item[1], item[0]))[:limit]

    def search_each(self, vectors: Float, limit: int) -> list[list[tuple[str, float]]]:
        """`search` of several vectors, float32[k, dimensions]."""
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
        """How rare each token is among the notes: ln((notes + 1) / (notes with it + 1)), never below 0."""
        notes = len(self.matrix) + 1
        counts = np.array([self._df.get(int(token), 0) for token in token_ids], np.float32)
        return np.asarray(np.maximum(np.log(notes / (counts + 1)), 0.0), np.float32)

    def best_pieces(self, ids: Sequence[str], vector: Float | None, most: int) -> dict[str, Pieces]:
        """The pieces of each node whose tokens count: all, or of a long note the `most` nearest to `vector`."""
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
        """Do without Chroma until it is opened again."""
        if self.chroma is not None:
            log.warning("%s; search goes on exactly", trouble)
        self.chroma = None
        self.trouble = str(trouble)

    @property
    def rests(self) -> bool:
        """Chroma is closed, and need not be open: it has nothing to learn, and nobody asks it while all vectors are compared."""
        return self._resting and not self._unsettled and self.matrix.quick

    def rest(self) -> None:
        """Close Chroma where it has learned everything and nobody asks it: open it holds every vector in memory once more."""
        if self.learned and self.matrix.quick:
            self.chroma = None
            self._store.close()
            self._resting = True

    def open_chroma(self) -> bool:
        """Open the collection; False when it is not what was written last, and has to be filled (`refill`)."""
        self._resting = False
        found = self._store.open()
        generation, position = self._marks
        fits = found is not None and found[0] == generation and found[1] in {position, position + 1}
        if not fits or self._distrusted or self._store.bloated(self.matrix.pieces):
            return False
        self.chroma, self.trouble = self._store, None
        return True

    def distrust(self) -> None:
        """Have Chroma filled again by the background thread."""
        self._distrusted = True
        self._resting = False
        self.chroma = None

    def wipe(self) -> None:
        """Have the background thread drop Chroma's files, and fill it again."""
        self._wipe = True
        self.distrust()

    @property
    def wiped(self) -> bool:
        return not self._wipe

    def wipe_now(self) -> None:
        """From the background thread, with the apply lock held: drop the files."""
        self.distrust()
        self._store.wipe()
        self._wipe = False

    def refill(self, connection: sqlite3.Connection) -> None:
        """Begin Chroma anew, inside the writer's transaction: everything embedded is noted as still to be learned."""
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
        """Write `most` nodes to Chroma, reading what it holds of them. Returns what `settled` takes."""
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
        """Note in SQLite what Chroma has learned; a node that changed meanwhile stays to be learned."""
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
        """Once nothing is left to learn: True unless Chroma holds another number of pieces than the matrix."""
        before = self._changes
        if self._unsettled or self._checked:
            return True
        same = self._store.count() == self.matrix.pieces
        if before != self._changes:
            return True  # somebody wrote meanwhile; it is looked at again
        if not same and self._refills >= REFILLS:
            raise ChromaTrouble("Chroma holds another number of vectors than it was given")
        if same:
            self._store.settled()
            self._checked = True
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
"""Seconds without a change after which Chroma is told: a write to it costs 30 ms, however small."""
QUIET_S = 20.0
"""The same where everything is searched without it anyway and it is not open: nobody misses it, and importing and opening it takes half a
second to two of the interpreter, which whoever only drew breath between two writes would have to wait for."""
FULL = 500
"""Nodes that Chroma has to learn, from which it is told although somebody is still writing."""
PATIENCE = 30
"""So many times as long as a write to Chroma took nothing more is written to it, where everything is searched without it
anyway: a whisper that comes in between is not held up, and one in thirty by some 0.05 s."""
IMPATIENCE = 4
"""The same in a vault so large that a search without Chroma takes longer than one with it."""
LONGEST_REST_S = 5.0
LONGEST_OFF_S = 60.0
"""So long Chroma is not written to while one question or write follows another, where everything is searched without it anyway."""
LONGEST_SHUT_S = 900.0
"""So long it is not opened while somebody writes or asks."""
FIRST_REST_S = 10.0
"""Seconds after the start in which Chroma is not opened, where everything is searched without it anyway: importing it takes
0.4 s of the interpreter, and whoever started the daemon is about to ask it something."""
STAY_S = 300.0
"""Chroma stays open so long after it was needed, where everything is searched without it anyway. Opening it again takes 0.2 s at
10,000 notes; open it holds 27 MB, at 100,000 notes 0.4 s and 215 MB."""


class ChromaSync:
    """Belongs to the thread that calls `step`; `stay` may come from any."""

    def __init__(self, database: Database, applying: threading.Lock) -> None:
        self._database = database
        self._applying = applying
        self._begun = time.monotonic()
        self._seen = 0
        self._seen_at = -math.inf
        self._rest_until = 0.0
        self._open_until = 0.0
        self._put_off: float | None = None  # since when it is put off
        self.since: float | None = None
        """When Chroma was told of the first, since somebody set this to None."""

    def stay(self) -> None:
        """Chroma is needed: it stays open for a while."""
        self._open_until = time.monotonic() + STAY_S

    def step(self, store: VectorStore, *, hurry: bool, settling: bool) -> float | None:
        """Tell some of it, or open it. Seconds until the next step; None: there is nothing to be told.

        `hurry`: somebody waits for the vectors; `settling`: somebody waits for Chroma.
        """
        if store.chroma is None:
            if store.rests and not settling:
                return None
            rest = self._begun + FIRST_REST_S - time.monotonic()
            if rest > 0 and store.matrix.quick and not settling:
                return rest
            if self._later(store, self._written(store, QUIET_S), LONGEST_SHUT_S, settling):
                return REST_S
            self._open(store)
            return 0.0
        if store.unsettled:
            written = self._written(store, REST_S)
            if not hurry and store.unsettled < FULL and written:
                return REST_S  # somebody is still writing
            left = self._rest_until - time.monotonic()
            if not settling and left > 0:
                return left
            if self._later(store, written, LONGEST_OFF_S, settling):
                return REST_S
            self._tell(store, SETTLE_BATCH if settling else GENTLE_BATCH)
            return 0.0
        if not store.complete():
            log.warning("Chroma holds another number of vectors than the index; it is filled again")
            with self._applying, self._database.write() as connection:
                store.refill(connection)
            return 0.0
        return None

    def rest(self, store: VectorStore, settling: bool) -> float:
        """There is nothing to be told: close Chroma when it was not needed for a while. Seconds until it may be, or endless."""
        if store.chroma is None or not store.matrix.quick:
            return math.inf
        left = STAY_S if settling else self._open_until - time.monotonic()
        if left > 0:
            return left
        with self._applying:  # whoever compares it with ours holds this
            store.rest()
        memory.give_back()
        return math.inf

    def _tell(self, store: VectorStore, most: int) -> None:
        begun = time.monotonic()
        with self._database.read() as connection:
            done = store.settle(connection, most)
        rest = (time.monotonic() - begun) * (PATIENCE if store.matrix.quick else IMPATIENCE)
        self._rest_until = time.monotonic() + min(rest, LONGEST_REST_S)
        self.stay()
        with self._applying, self._database.write() as connection:
            store.settled(connection, done)
        self.since = self.since or time.monotonic()

    def _open(self, store: VectorStore) -> None:
        self.stay()
        if not store.open_chroma():
            with self._applying, self._database.write() as connection:
                store.refill(connection)

    def _written(self, store: VectorStore, seconds: float) -> bool:
        """Whether something was written in the last `seconds`. Of a change it is known when it was seen: each wakes this thread."""
        now = time.monotonic()
        if store.changes != self._seen:
            self._seen, self._seen_at = store.changes, now
        return now - self._seen_at < seconds

    def _later(self, store: VectorStore, written: bool, longest: float, settling: bool) -> bool:
        """Whether Chroma is to wait, `longest` seconds at most: nobody asks it, and to open it or write to it holds up whoever is at
        work."""
        if settling or not store.matrix.quick or not (written or priority.searched_lately()):
            self._put_off = None
            return False
        if self._put_off is None:
            self._put_off = time.monotonic()
        return time.monotonic() - self._put_off < longest
