"""The index's background thread: embeds waiting texts, has Chroma updated, and purges.

It works in small steps, and yields to requests.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime

from msgspec import Struct

from ormahd.embedding.embedder import DocumentVectors
from ormahd.errors import Unavailable
from ormahd.index import embedding_cache
from ormahd.index.database import Database
from ormahd.index.rows import micros
from ormahd.index.vector_store import VectorStore
from ormahd.process import priority
from ormahd.process import priority as memory
from ormahd.vectors.chroma import ChromaTrouble

FILL_BATCH = 128
"""Number of nodes that are embedded and committed together. Other writers wait only during the commit."""
AHEAD = 2
"""Number of batches embedded at the same time, so that the next one is embedded while one is written."""
GIVE_BACK_S = 3.0
"""Time from the last embedding or work on Chroma until freed memory is returned to the system, in seconds."""
GIVE_BACK_AGAIN_S = 60.0
"""Time after which freed memory is returned to the system even without bulk work, in seconds: searches fragment the
heap and fill SQLite's page caches."""
GIVE_BACK_CPU_S = 1.0
"""Minimum processor time, in seconds, that the process must have used since memory was last returned. With less, memory
is not returned again unless there was bulk work."""
SWEEP_S = 600.0
"""Seconds between two full garbage collections."""
RETRY_S = 30.0
"""Maximum pause before the next attempt after a failure, in seconds. The first pause is half a second; each further one
is twice as long."""

IDLE_S = 60.0
"""Seconds between two checks for work when there is none. A change wakes the thread at once."""
TIDY_S = 3600.0

log = logging.getLogger(__name__)


class _Begun(Struct, frozen=True):
    """A batch of nodes whose texts are being embedded."""

    store: VectorStore
    ids: Sequence[str]
    made: Future[dict[bytes, DocumentVectors]]
    """sha256 of a text -> its embedding, for the texts that were not stored already."""


class Indexer:
    """The background thread of the index: embeds the texts of nodes without vectors, updates Chroma, and purges
    unneeded embeddings. It works on the `VectorStore` of the active model, and on that of the next model if there is
    one."""

    def __init__(self, database: Database, applying: threading.Lock, clock: Callable[[], datetime]) -> None:
        self._database = database
        self._applying = applying
        self._clock = clock
        self._turn = threading.Condition()
        self._thread: threading.Thread | None = None
        self._stopping = False
        self._settling = 0
        self._worked: float | None = None
        """Time of the last embedding, or work on Chroma; None if there was none since memory was last returned to the system."""
        self._given_back = time.monotonic()
        self._swept = time.monotonic()
        self._cpu = time.process_time()
        """Processor time that the process had used when memory was last returned to the system."""
        self._woken = False  # remembers a `wake` that comes during a step
        self._failures = 0
        self._tidy_at = 0.0
        self._beside = ThreadPoolExecutor(AHEAD, "index-embed")
        self._begun: deque[_Begun] = deque()
        self.active: VectorStore | None = None
        self.next: VectorStore | None = None
        """The vector store of a model that is filled beside the active one, and replaces it when it is complete."""
        self.failure: str | None = None
        """Why the last step failed; None if it did not."""

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="index-fill", daemon=True)
        self._thread.start()

    def begin_anew(self, database: Database) -> None:
        """Load the vectors of the active model, and of the next one, again from `database`, whose file was replaced.
        The caller must hold the apply lock."""
        self._begun.clear()
        for store in (self.active, self.next):
            if store is not None:
                with database.write() as connection:
                    store.load(connection)

    def wake(self) -> None:
        """Tell the background thread that there is work."""
        with self._turn:
            self._woken = True
            self._turn.notify_all()

    def worked(self) -> None:
        """Record that texts were embedded, or Chroma was updated, just now. `GIVE_BACK_S` after the last such
        call, freed RAM is returned to the operating system."""
        self._worked = time.monotonic()

    def pending(self) -> int:
        """Return the number of nodes that wait for their vectors."""
        stores = [one for one in (self.active, self.next) if one is not None]
        return max((len(one.waiting) for one in stores), default=0)

    def wait(self, timeout: float, *, settled: bool) -> bool:
        """Wait up to `timeout` seconds until no node waits for its vectors (and, with `settled`, until Chroma has all
        vectors). Return False on timeout."""
        return self._until(lambda: self._done(settled), timeout, settled)

    def open(self, timeout: float) -> bool:
        """Wait up to `timeout` seconds until Chroma is open or could not be opened, or there is no model. Return
        False on timeout."""
        return self._until(self._opened, timeout, True)

    def _opened(self) -> bool:
        active = self.active
        return active is None or active.chroma.place is not None or active.chroma.trouble is not None

    def _until(self, done: Callable[[], bool], timeout: float, settled: bool) -> bool:
        end = time.monotonic() + timeout
        with self._turn:
            self._settling += settled
            self._woken = True
            self._turn.notify_all()
            try:
                while not done():
                    left = end - time.monotonic()
                    if left <= 0 or self._stopping:
                        return False
                    self._turn.wait(min(left, 1.0))
            finally:
                self._settling -= settled
        return True

    def _done(self, settled: bool) -> bool:
        if self.active is None:
            return False
        if self.next is not None or self.active.waiting:
            return False
        return not settled or self.active.chroma.complete

    def stop(self) -> None:
        with self._turn:
            self._stopping = True
            self._turn.notify_all()
        if self._thread is not None:
            self._thread.join()
        self._beside.shutdown(cancel_futures=True)
        for store in (self.active, self.next):
            if store is not None:
                store.chroma.close()

    # The background thread

    def _run(self) -> None:
        while not self._stopping:
            pause = self._attempt()
            with self._turn:
                self._turn.notify_all()
                if pause and not self._stopping and not self._woken:
                    self._turn.wait(pause)
                self._woken = False

    def _attempt(self) -> float:
        """Do one step of the thread's work; an error is noted in `failure` or in the vector stores, not raised.
        Return the seconds to wait before the next step."""
        try:
            pause = self._step()
        except ChromaTrouble as trouble:
            for store in (self.active, self.next):
                if store is not None:
                    store.chroma.fail(trouble)
        except Unavailable as error:
            self.failure = error.message
        except Exception as error:
            # Nothing may end the background thread: search goes on with the vectors that there are.
            log.exception("filling the index failed; it is tried again")
            self.failure = f"{type(error).__name__}: {error}"
        else:
            self.failure, self._failures = None, 0
            return pause
        self._failures += 1
        return min(RETRY_S, 0.25 * 2.0**self._failures)

    def _step(self) -> float:
        priority.give()
        for store in (self.active, self.next):
            if store is not None and store.waiting:
                self._embed(store)
                self.worked()
                return 0.0
        if self.next is not None:
            self._switch()
            return 0.0
        if self.active is None:
            return IDLE_S
        if time.monotonic() >= self._tidy_at:
            if self._tidy(self.active):
                return 0.0
            self._tidy_at = time.monotonic() + TIDY_S
        pause = self.active.chroma.step(settling=bool(self._settling))
        if not pause:
            self.worked()
        elif self.active.chroma.complete and not self.active.recorded:
            with self._applying, self._database.write() as connection:
                self.active.record(connection)
        return min(pause, IDLE_S, self._give_back()) if pause else 0.0

    def _give_back(self) -> float:
        """Return freed RAM to the operating system after bulk work, and now and then while searches continue. Return
        the seconds until this method should be called again."""
        worked, now = self._worked, time.monotonic()
        again = self._given_back + GIVE_BACK_AGAIN_S - now
        left = again if worked is None else min(worked + GIVE_BACK_S - now, again)
        if left > 0:
            return left
        self._given_back = now
        if worked is None and time.process_time() - self._cpu < GIVE_BACK_CPU_S:
            return IDLE_S
        self._worked = None
        self._database.give_back()
        if now - self._swept >= SWEEP_S:
            self._swept = now
            memory.sweep()
        else:
            memory.freeze()
        memory.give_back()
        self._cpu = time.process_time()
        return IDLE_S

    def _embed(self, store: VectorStore) -> None:
        self._begin(store)
        if not self._begun:
            return  # nothing waits
        begun = self._begun.popleft()
        made, ids = begun.made.result(), begun.ids
        now = micros(self._clock())
        with self._applying:
            with self._database.write() as connection:
                # A text that was deleted meanwhile must leave no embedding behind.
                wanted = {one.sha for one in embedding_cache.sources(connection, ids).values()}
                embedding_cache.put(
                    connection, store.number, {sha: one for sha, one in made.items() if sha in wanted}, now
                )
                delta = embedding_cache.follow(connection, store.number, ids, now)
            store.take(delta)
            for node_id in ids:  # also those removed or changed meanwhile (`take` adds the latter again)
                if node_id not in delta.waiting:
                    store.waiting.pop(node_id, None)

    def _begin(self, store: VectorStore) -> None:
        """Start embedding the nodes that wait in `store`, until `AHEAD` batches are in progress. Batches begun for
        another store are dropped."""
        while self._begun and self._begun[0].store is not store:
            self._begun.popleft()
        under_way = {node_id for one in self._begun for node_id in one.ids}
        following = [one for one in list(store.waiting)[: (AHEAD + 1) * FILL_BATCH] if one not in under_way]
        while len(self._begun) < AHEAD and (ids := following[:FILL_BATCH]):
            del following[:FILL_BATCH]
            self._begun.append(_Begun(store, ids, self._beside.submit(self._made, store, ids)))

    def _made(self, store: VectorStore, ids: Sequence[str]) -> dict[bytes, DocumentVectors]:
        with self._database.read() as connection:
            sources = embedding_cache.sources(connection, ids)
            known = embedding_cache.cached(connection, store.number, {one.sha for one in sources.values()})
        missing = {one.sha: one for one in sources.values() if one.sha not in known}
        return embedding_cache.embed(store.embedder, missing.values(), urgent=False)

    def _switch(self) -> None:
        """Make the next model, for which all nodes now have vectors, the active one, and close the old one."""
        with self._applying:
            old, new = self.active, self.next
            assert new is not None
            self.active, self.next = new, None
        self._tidy_at = 0.0
        if old is not None:
            old.chroma.close()

    def _tidy(self, store: VectorStore) -> bool:
        """Purge some embeddings that no note needs. Return whether there may be more of them."""
        with self._applying, self._database.write() as connection:
            if self.next is not None:
                return False
            others = embedding_cache.models(connection) != [store.number]
            dropped = embedding_cache.purge(connection, store.number, micros(self._clock()))
            if others and not dropped:
                embedding_cache.forget_others(connection, store.number)
        if dropped or others:
            self._database.checkpoint()
        return bool(dropped)
