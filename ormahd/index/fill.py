"""The index's background thread: embeds what waits, tells Chroma, tidies up. In small steps, behind everything else."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from datetime import datetime

from ormahd import way
from ormahd.errors import Unavailable
from ormahd.index import cache
from ormahd.index.database import Database
from ormahd.index.meaning import GENTLE_BATCH, SETTLE_BATCH, Meaning
from ormahd.index.rows import micros
from ormahd.index.vectors import ChromaTrouble

FILL_BATCH = 128
"""Nodes that are embedded and committed together; a write that comes in between waits for the commit only."""
REST_S = 1.0
"""Seconds without a change after which Chroma is told: a write to it costs 30 ms, however small."""
FULL = 500
"""Nodes that Chroma has to learn, from which it is told although somebody is still writing."""
PATIENCE = 30
"""So many times as long as a write to Chroma took nothing more is written to it, where everything is searched without it
anyway: a whisper that comes in between is not held up, and one in thirty by some 0.05 s."""
IMPATIENCE = 4
"""The same in a vault so large that a search without Chroma takes longer than one with it."""
LONGEST_REST_S = 5.0
GIVE_BACK_S = 3.0
"""After embedding or telling Chroma, until freed memory is returned: who handed the notes in is done with them as well."""
FIRST_REST_S = 10.0
"""Seconds after the start in which Chroma is not opened, where everything is searched without it anyway: importing it takes
0.4 s of the interpreter, and whoever started the daemon is about to ask it something."""
RETRY_S = 30.0
"""Seconds after a failure before it is tried again, at most; the first time after half a second, then doubled."""

IDLE_S = 60.0
"""Seconds between two looks when there is nothing to do; a change wakes the thread at once."""
TIDY_S = 3600.0

log = logging.getLogger(__name__)


class Filler:
    """One thread that works through what `Meaning` says is to be done, for the active model and the next one."""

    def __init__(self, database: Database, applying: threading.Lock, clock: Callable[[], datetime]) -> None:
        self._database = database
        self._applying = applying
        self._clock = clock
        self._turn = threading.Condition()
        self._thread: threading.Thread | None = None
        self._stopping = False
        self._hurry = 0
        self._settling = 0
        self._rest_until = 0.0
        self._worked: float | None = None
        """When the notes were embedded, or Chroma was told of the first, since memory was given back."""
        self._woken = False  # so that a call that comes during a step is not lost
        self._seen = 0
        self._failures = 0
        self._tidy_at = 0.0
        self._begun = time.monotonic()
        self.active: Meaning | None = None
        self.next: Meaning | None = None
        """A model that is being filled beside the active one, and replaces it when it is complete."""
        self.failure: str | None = None
        """Why the last step failed, None when it did not."""

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="index-fill", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """There is something to do."""
        with self._turn:
            self._woken = True
            self._turn.notify_all()

    def pending(self) -> int:
        """Nodes that wait for their vectors."""
        meanings = [one for one in (self.active, self.next) if one is not None]
        return max((len(one.waiting) for one in meanings), default=0)

    def wait(self, timeout: float, *, settled: bool) -> bool:
        """Until nothing waits for its vectors (and, with `settled`, Chroma knows them all). False: time is over."""
        return self._until(lambda: self._done(settled), timeout, settled)

    def open(self, timeout: float) -> bool:
        """Until Chroma is open, or cannot be, or there is no model that it could be open for. False: time is over."""
        return self._until(self._opened, timeout, True)

    def _opened(self) -> bool:
        active = self.active
        return active is None or active.chroma is not None or active.trouble is not None

    def _until(self, done: Callable[[], bool], timeout: float, settled: bool) -> bool:
        end = time.monotonic() + timeout
        with self._turn:
            self._hurry += 1
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
                self._hurry -= 1
                self._settling -= settled
        return True

    def _done(self, settled: bool) -> bool:
        if self.active is None:
            return False
        if self.next is not None or self.active.waiting:
            return False
        return not settled or self.active.learned

    def stop(self) -> None:
        with self._turn:
            self._stopping = True
            self._turn.notify_all()
        if self._thread is not None:
            self._thread.join()
        for meaning in (self.active, self.next):
            if meaning is not None:
                meaning.close()

    # The thread

    def _run(self) -> None:
        while not self._stopping:
            pause = self._attempt()
            with self._turn:
                self._turn.notify_all()
                if pause and not self._stopping and not self._woken:
                    self._turn.wait(pause)
                self._woken = False

    def _attempt(self) -> float:
        """One step; returns the seconds to wait before the next one."""
        try:
            pause = self._step()
        except ChromaTrouble as trouble:
            for meaning in (self.active, self.next):
                if meaning is not None:
                    meaning.fail(trouble)
        except Unavailable as error:
            self.failure = error.message
        except Exception as error:
            # The edge of a background thread: whatever it was, search goes on with what there is.
            log.exception("filling the index failed; it is tried again")
            self.failure = f"{type(error).__name__}: {error}"
        else:
            self.failure, self._failures = None, 0
            return pause
        self._failures += 1
        return min(RETRY_S, 0.25 * 2.0**self._failures)

    def _step(self) -> float:
        way.give()
        for meaning in (self.active, self.next):
            if meaning is None:
                continue
            if not meaning.wiped:
                with self._applying:
                    meaning.wipe_now()
            if meaning.waiting:
                self._embed(meaning)
                self._worked = time.monotonic()
                return 0.0
        if self.next is not None:
            self._switch()
            return 0.0
        if self.active is None:
            return IDLE_S
        pause = self._tell(self.active)
        if pause and self._worked is not None:
            left = self._worked + GIVE_BACK_S - time.monotonic()
            if left > 0:
                return min(pause, left)
            self._worked = None
            self._database.give_back()
            self.active.embedder.give_back()
        return pause

    def _embed(self, meaning: Meaning) -> None:
        ids = list(meaning.waiting)[:FILL_BATCH]
        with self._database.read() as connection:
            sources = cache.sources(connection, ids)
            known = cache.cached(connection, meaning.number, {one.sha for one in sources.values()})
        missing = {one.sha: one for one in sources.values() if one.sha not in known}
        texts = [one.content for one in missing.values()]
        vectors = meaning.embedder.embed_documents(texts, [one.heading for one in missing.values()]) if texts else []
        now = micros(self._clock())
        with self._applying:
            with self._database.write() as connection:
                cache.put(connection, meaning.number, dict(zip(missing, vectors, strict=True)), now)
                delta = cache.follow(connection, meaning.number, ids, now)
            meaning.take(delta)
            for (
                node_id
            ) in ids:  # also those that are gone, or changed while they were embedded (`take` adds them again)
                if node_id not in delta.waiting:
                    meaning.waiting.pop(node_id, None)

    def _switch(self) -> None:
        """The next model is complete: it answers from now on, and the old one's vectors go."""
        with self._applying:
            old, new = self.active, self.next
            assert new is not None
            self.active, self.next = new, None
        self._tidy_at = 0.0
        if old is not None:
            old.close()

    def _tell(self, meaning: Meaning) -> float:
        if meaning.chroma is None:
            rest = self._begun + FIRST_REST_S - time.monotonic()
            if rest > 0 and meaning.matrix.quick and not self._settling:
                return rest
            self._open(meaning)
            return 0.0
        if meaning.unsettled:
            before, self._seen = self._seen, meaning.changes
            if not self._hurry and meaning.unsettled < FULL and before != self._seen:
                return REST_S  # somebody is still writing
            begun = time.monotonic()
            if not self._settling and begun < self._rest_until:
                return self._rest_until - begun
            with self._database.read() as connection:
                done = meaning.settle(connection, SETTLE_BATCH if self._settling else GENTLE_BATCH)
            rest = (time.monotonic() - begun) * (PATIENCE if meaning.matrix.quick else IMPATIENCE)
            self._rest_until = time.monotonic() + min(rest, LONGEST_REST_S)
            with self._applying, self._database.write() as connection:
                meaning.settled(connection, done)
            self._worked = self._worked or time.monotonic()
            return 0.0
        if not meaning.complete():
            log.warning("Chroma holds another number of vectors than the index; it is filled again")
            with self._applying, self._database.write() as connection:
                meaning.refill(connection)
            return 0.0
        if time.monotonic() >= self._tidy_at and not self._tidy(meaning):
            self._tidy_at = time.monotonic() + TIDY_S
        return 0.0 if time.monotonic() >= self._tidy_at else IDLE_S

    def _open(self, meaning: Meaning) -> None:
        if not meaning.open_chroma():
            with self._applying, self._database.write() as connection:
                meaning.refill(connection)

    def _tidy(self, meaning: Meaning) -> bool:
        """Nothing else to do: drop some of what nobody needs any more. True: there may be more of it."""
        with self._applying, self._database.write() as connection:
            if self.next is not None:
                return False
            others = cache.models(connection) != [meaning.number]
            dropped = cache.purge(connection, meaning.number, micros(self._clock()))
            if others and not dropped:
                cache.forget_others(connection, meaning.number)
        if others and not dropped:
            meaning.drop_others()
        if dropped or others:
            self._database.checkpoint()
        return bool(dropped)
