"""Turns: of those who ask for the same thing one goes at a time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


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
