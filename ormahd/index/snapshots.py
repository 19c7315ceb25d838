"""Keeps the index of an earlier state for the next question, until nobody has asked for a while.

One at a time: it takes as much disk as the index itself.
"""

from __future__ import annotations

import contextlib
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime

from ormahd.embedding.embedder import Embedder
from ormahd.index.index import Index
from ormahd.index.snapshot import Past, Progress
from ormahd.index.snapshot_build import Build, Files
from ormahd.model.node import Strength

FOLDER = "as-of"
"""Below the index's directory."""
KEPT_S = 600.0
"""Seconds without a question after which a state is dropped."""


class Pasts:
    """Makes states and keeps the last one. Safe for many threads: one builds at a time, the others wait for it."""

    def __init__(
        self,
        index: Index,
        clock: Callable[[], datetime],
        *,
        stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        """`stopping` is asked during a build, which ends when the daemon does."""
        self._index = index
        self._clock = clock
        self._stopping = stopping
        folder = index.directory / FOLDER
        shutil.rmtree(folder, ignore_errors=True)  # of a life before this one
        self._build = Build(index, folder, clock, self.stopped)
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

    @contextlib.contextmanager
    def trial(self, changed: Mapping[str, bytes], when: datetime) -> Iterator[Past]:
        """The index as it would be with these files (bytes by path): what would a change find? One at a time, and gone
        after the block. Texts that were embedded ahead are found by meaning.

        Raises Unavailable: the disk is too full, or the daemon stops.
        """
        with self._building:
            database, meaning = self._build.trial(changed, when)
            past = Past(database, meaning, self._index.strength, keep=self._index.keep_vectors, clock=self._clock)
            try:
                yield past
            finally:
                past.remove()

    def _make(
        self, commit: str, when: datetime, load: Callable[[], tuple[Files, Mapping[str, Strength]]], progress: Progress
    ) -> Past:
        self._let_go()  # first: one copy at a time
        drops = self._drops
        files, strength = load()
        database, meaning = self._build.make(files, when, progress)
        past = Past(database, meaning, strength, keep=self._index.keep_vectors, clock=self._clock)
        past.key = _key(commit, past.embedder)
        past.users = 1
        with self._lock:
            # dropped meanwhile: what it was made of is perhaps not in the history any more
            past.dropped = self._closed or drops != self._drops
            self._kept = None if past.dropped else past
        return past

    def stopped(self) -> bool:
        """True when long work is to end."""
        return self._closed or self._stopping()

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


def _key(commit: str, embedder: Embedder | None) -> str:
    """A state that was made without the model is not the one that is made with it."""
    return f"{commit} {embedder.fingerprint if embedder else '-'}"
