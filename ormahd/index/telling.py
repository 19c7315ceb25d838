"""When Chroma is told what it has to learn, and when it is open at all: behind everything else, because a write to it holds up
whoever is at work, and open it holds every vector again."""

from __future__ import annotations

import logging
import math
import threading
import time

from ormahd import heap, way
from ormahd.index.database import Database
from ormahd.index.meaning import GENTLE_BATCH, SETTLE_BATCH, Meaning

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
LONGEST_OFF_S = 60.0
"""So long Chroma is not opened while somebody writes, and not written to while one whisper follows another."""
FIRST_REST_S = 10.0
"""Seconds after the start in which Chroma is not opened, where everything is searched without it anyway: importing it takes
0.4 s of the interpreter, and whoever started the daemon is about to ask it something."""
STAY_S = 300.0
"""Chroma stays open so long after it was needed, where everything is searched without it anyway. Opening it again takes 0.2 s at
10,000 notes; open it holds 27 MB, at 100,000 notes 0.4 s and 215 MB."""

log = logging.getLogger(__name__)


class Telling:
    """Belongs to the thread that calls `step`; `stay` may come from any."""

    def __init__(self, database: Database, applying: threading.Lock) -> None:
        self._database = database
        self._applying = applying
        self._begun = time.monotonic()
        self._seen = 0
        self._seen_at = -math.inf
        self._rest_until = 0.0
        self._open_until = 0.0
        self._put_off = -math.inf  # when it was last
        self._off_until = 0.0
        self.since: float | None = None
        """When Chroma was told of the first, since somebody set this to None."""

    def stay(self) -> None:
        """Chroma is needed: it stays open for a while."""
        self._open_until = time.monotonic() + STAY_S

    def step(self, meaning: Meaning, *, hurry: bool, settling: bool) -> float | None:
        """Tell some of it, or open it. Seconds until the next step; None: there is nothing to be told.

        `hurry`: somebody waits for the vectors; `settling`: somebody waits for Chroma.
        """
        if meaning.chroma is None:
            if meaning.rests and not settling:
                return None
            rest = self._begun + FIRST_REST_S - time.monotonic()
            if rest > 0 and meaning.matrix.quick and not settling:
                return rest
            if self._later(meaning, self._written(meaning), settling):
                return REST_S
            self._open(meaning)
            return 0.0
        if meaning.unsettled:
            written = self._written(meaning)
            if not hurry and meaning.unsettled < FULL and written:
                return REST_S  # somebody is still writing
            left = self._rest_until - time.monotonic()
            if not settling and left > 0:
                return left
            if self._later(meaning, False, settling):
                return REST_S
            self._tell(meaning, SETTLE_BATCH if settling else GENTLE_BATCH)
            return 0.0
        if not meaning.complete():
            log.warning("Chroma holds another number of vectors than the index; it is filled again")
            with self._applying, self._database.write() as connection:
                meaning.refill(connection)
            return 0.0
        return None

    def rest(self, meaning: Meaning, settling: bool) -> float:
        """There is nothing to be told: close Chroma when it was not needed for a while. Seconds until it may be, or endless."""
        if meaning.chroma is None or not meaning.matrix.quick:
            return math.inf
        left = STAY_S if settling else self._open_until - time.monotonic()
        if left > 0:
            return left
        with self._applying:  # whoever compares it with ours holds this
            meaning.rest()
        heap.give_back()
        return math.inf

    def _tell(self, meaning: Meaning, most: int) -> None:
        begun = time.monotonic()
        with self._database.read() as connection:
            done = meaning.settle(connection, most)
        rest = (time.monotonic() - begun) * (PATIENCE if meaning.matrix.quick else IMPATIENCE)
        self._rest_until = time.monotonic() + min(rest, LONGEST_REST_S)
        self.stay()
        with self._applying, self._database.write() as connection:
            meaning.settled(connection, done)
        self.since = self.since or time.monotonic()

    def _open(self, meaning: Meaning) -> None:
        self.stay()
        if not meaning.open_chroma():
            with self._applying, self._database.write() as connection:
                meaning.refill(connection)

    def _written(self, meaning: Meaning) -> bool:
        """Whether something was written lately. Of a change it is known when it was seen: each wakes this thread."""
        now = time.monotonic()
        if meaning.changes != self._seen:
            self._seen, self._seen_at = meaning.changes, now
        return now - self._seen_at < REST_S

    def _later(self, meaning: Meaning, written: bool, settling: bool) -> bool:
        """Whether Chroma is to wait, for a while: nobody asks it, and to open it or write to it holds up whoever is at work."""
        if settling or not meaning.matrix.quick or not (written or way.asked_lately()):
            return False
        now = time.monotonic()
        if now - self._put_off > LONGEST_OFF_S:
            self._off_until = now + LONGEST_OFF_S
        self._put_off = now
        return now < self._off_until
