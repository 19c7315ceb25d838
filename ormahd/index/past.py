"""The index of an earlier state of the vault: a copy of today's, with what differs put back.

Most notes are what they were, so copying (a few milliseconds a megabyte) and changing the rest is far quicker than
indexing everything, and embeddings are found by the content that they were made of. One state is kept for the next
question, until it has not been used for a while: it takes as much disk as the index itself.
"""

from __future__ import annotations

import contextlib
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime

from ormahd.core.node import Strength
from ormahd.index.database import Database
from ormahd.index.embed import Embedder, QueryVectors
from ormahd.index.fill import Filler
from ormahd.index.index import Index
from ormahd.index.meaning import Meaning
from ormahd.index.past_build import EMBEDDED, Build, Files, Progress
from ormahd.index.reader import Reader

FOLDER = "as-of"
"""Below the index's directory."""
KEPT_S = 600.0
"""Seconds without a question after which a state is dropped."""


class Past(Reader):
    """One state, complete: it answers like the index and never changes."""

    def __init__(self, database: Database, meaning: Meaning | None, strength: Mapping[str, Strength]) -> None:
        filler = Filler(database, threading.Lock(), _never)  # never started: nothing is left to be filled
        filler.active = meaning
        super().__init__(database, filler)
        self._strength = strength
        self.key = ""
        self.users = 0
        self.dropped = False

    @property
    def embedder(self) -> Embedder | None:
        return self._filler.active.embedder if self._filler.active else None

    def embed_query(self, text: str) -> QueryVectors | None:
        """A question's vectors; None without a model."""
        return None if self.embedder is None else self.embedder.embed_query(text)

    @property
    def degraded(self) -> list[str]:
        """ "vectors" where some notes are found by their words only."""
        active = self._filler.active
        return ["vectors"] if active is None or active.waiting else []

    def remove(self) -> None:
        """Close it and give its disk back."""
        self._filler.stop()
        self._database.close()
        shutil.rmtree(self._database.directory, ignore_errors=True)


class Pasts:
    """Makes states and keeps the last one. Safe for many threads: one builds at a time, the others wait for it."""

    def __init__(
        self,
        index: Index,
        clock: Callable[[], datetime],
        *,
        embedded: int = EMBEDDED,
        stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        """`stopping` is asked during a build, which ends when the daemon does."""
        self._index = index
        folder = index.directory / FOLDER
        shutil.rmtree(folder, ignore_errors=True)  # of a life before this one
        self._build = Build(index, folder, clock, lambda: self._closed or stopping(), embedded)
        self._building = threading.Lock()
        self._lock = threading.Lock()
        self._kept: Past | None = None
        self._timer: threading.Timer | None = None
        self._used = 0.0
        self._drops = 0
        self._closed = False

    @contextlib.contextmanager
    def at(
        self, commit: str, when: datetime, load: Callable[[], tuple[Files, Mapping[str, Strength]]], progress: Progress
    ) -> Iterator[tuple[Past, bool]]:
        """The index as of a commit that was made at `when`, and whether it was there already. `load` is asked for the
        files and the strength of that state when it is not.

        Raises Unavailable: the disk is too full, or the daemon stops.
        """
        past = self._use(commit)
        cached = past is not None
        if past is None:
            with self._building:
                past = self._use(commit)  # somebody else may have been faster
                if past is None:
                    past = self._make(commit, when, load, progress)
        try:
            yield past, cached
        finally:
            self._leave(past)

    def _make(
        self, commit: str, when: datetime, load: Callable[[], tuple[Files, Mapping[str, Strength]]], progress: Progress
    ) -> Past:
        self._let_go()  # first: one copy at a time
        drops = self._drops
        files, strength = load()
        past = Past(*self._build.make(files, when, progress), strength)
        past.key = _key(commit, past.embedder)
        past.users = 1
        with self._lock:
            # dropped meanwhile: what it was made of is perhaps not in the history any more
            past.dropped = self._closed or drops != self._drops
            self._kept = None if past.dropped else past
        return past

    def drop(self) -> None:
        """Forget the state that is kept, and do not keep one that is being made: once nobody asks it any more, nothing of
        it is left on the disk."""
        with self._lock:
            self._drops += 1
        self._let_go()

    def _let_go(self) -> None:
        with self._lock:
            past, self._kept = self._kept, None
            unused = past is not None and past.users == 0
            if past is not None:
                past.dropped = True
        if past is not None and unused:
            past.remove()

    def close(self) -> None:
        self._closed = True
        with self._building:  # a build under way sees that it is to end
            self.drop()
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()

    def _use(self, commit: str) -> Past | None:
        embedder = self._index.embedder
        with self._lock:
            past = self._kept
            if past is None or past.key != _key(commit, embedder):
                return None
            past.users += 1
            return past

    def _leave(self, past: Past) -> None:
        with self._lock:
            past.users -= 1
            remove = past.dropped and past.users == 0
            if not past.dropped:
                self._used = time.monotonic()
                self._wait()
        if remove:
            past.remove()

    def _wait(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = threading.Timer(KEPT_S, self._expire)
        self._timer.daemon = True
        self._timer.start()

    def _expire(self) -> None:
        with self._lock:
            past = self._kept
            rested = past is not None and past.users == 0 and time.monotonic() - self._used >= KEPT_S - 1.0
        if rested:
            self.drop()


def _never() -> datetime:
    raise AssertionError("a state of the past embeds nothing by itself")


def _key(commit: str, embedder: Embedder | None) -> str:
    """A state that was made without the model is not the one that is made with it."""
    return f"{commit} {embedder.fingerprint if embedder else '-'}"
