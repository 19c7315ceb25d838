"""A thread that calls a function at an interval, and a lock per key."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

log = logging.getLogger("ormahd.process.periodic")


class Timer:
    """Calls `act` `first` seconds after `start`, and then `every` seconds after each call has ended.

    An exception in `act` is logged, and the next call follows all the same.
    """

    def __init__(self, name: str, act: Callable[[], None], *, first: float, every: float) -> None:
        self._act = act
        self._first = first
        self._every = every
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, seconds: float) -> bool:
        """Make no further call. False if a call still runs after `seconds`."""
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
    """A lock for each key that a thread holds or waits for."""

    def __init__(self) -> None:
        self._locks: dict[str, tuple[threading.Lock, int]] = {}
        self._lock = threading.Lock()

    @contextmanager
    def take(self, key: str) -> Iterator[None]:
        """Hold the lock of `key` (such as a request's id) during the block: callers with the same key run one at a
        time."""
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
