"""A thread that does something at an interval, and a lock per key: callers with the same key run one at a time."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

log = logging.getLogger("ormahd.process.periodic")


class Timer:
    """Calls `act` `first` seconds after `start`, and then `every` seconds after it has ended. A fault in it is logged, and
    the next turn comes all the same."""

    def __init__(self, name: str, act: Callable[[], None], *, first: float, every: float) -> None:
        self._act = act
        self._first = first
        self._every = every
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, seconds: float) -> bool:
        """No further turn; False when one is still under way after `seconds`."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        pause = self._first
        while not self._stopping.wait(pause):
            pause = self._every
            try:
                self._act()
            except Exception:
                log.exception("%s failed", self._thread.name)


class Turns:
    """A lock for each key that somebody holds or waits for."""

    def __init__(self) -> None:
        self._locks: dict[str, tuple[threading.Lock, int]] = {}
        self._lock = threading.Lock()

    @contextmanager
    def take(self, key: str) -> Iterator[None]:
        """One at a time for the same key (a request's id): whoever comes again waits until the first is done."""
        with self._lock:
            lock, there = self._locks.get(key, (threading.Lock(), 0))
            self._locks[key] = (lock, there + 1)
        try:
            with lock:
                yield
        finally:
            with self._lock:
                lock, there = self._locks.pop(key)
                if there > 1:
                    self._locks[key] = (lock, there - 1)
