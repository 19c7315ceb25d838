"""When Chroma is told what it has to learn, and when it is open at all: behind everything else, because a write to it holds up
whoever is at work, and open it holds every vector again."""

from __future__ import annotations

import logging
import math
import threading
import time

from ormahd.index.database import Database
from ormahd.index.vector_store import GENTLE_BATCH, SETTLE_BATCH, Meaning
from ormahd.process import memory, priority

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
        self._put_off: float | None = None  # since when it is put off
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
            if self._later(meaning, self._written(meaning, QUIET_S), LONGEST_SHUT_S, settling):
                return REST_S
            self._open(meaning)
            return 0.0
        if meaning.unsettled:
            written = self._written(meaning, REST_S)
            if not hurry and meaning.unsettled < FULL and written:
                return REST_S  # somebody is still writing
            left = self._rest_until - time.monotonic()
            if not settling and left > 0:
                return left
            if self._later(meaning, written, LONGEST_OFF_S, settling):
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
        memory.give_back()
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

    def _written(self, meaning: Meaning, seconds: float) -> bool:
        """Whether something was written in the last `seconds`. Of a change it is known when it was seen: each wakes this thread."""
        now = time.monotonic()
        if meaning.changes != self._seen:
            self._seen, self._seen_at = meaning.changes, now
        return now - self._seen_at < seconds

    def _later(self, meaning: Meaning, written: bool, longest: float, settling: bool) -> bool:
        """Whether Chroma is to wait, `longest` seconds at most: nobody asks it, and to open it or write to it holds up whoever is at
        work."""
        if settling or not meaning.matrix.quick or not (written or priority.searched_lately()):
            self._put_off = None
            return False
        if self._put_off is None:
            self._put_off = time.monotonic()
        return time.monotonic() - self._put_off < longest
