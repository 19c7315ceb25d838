"""Those who are about to write: whoever leads a batch waits for them, where most are still on their way.

A batch of a few costs nearly what one of many does, since what is dear, the flushes and git's processes, comes once in each. So when
several write at once, a leader who goes with the first who is ready makes all others wait for the end of a small batch. (The same is
PostgreSQL's `commit_delay`, with its `commit_siblings`.) One who writes alone waits for nobody.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator

COMPANY_S = 0.025
"""How long a leader waits at most: about what the dear part of a batch takes."""


class Company:
    """Safe from any thread."""

    def __init__(self, here: Callable[[], int]) -> None:
        """`here`: how many are ready."""
        self._here = here
        self._changed = threading.Condition()
        self._coming = 0
        self._waiting = 0
        self._mine = threading.local()

    @contextlib.contextmanager
    def announced(self) -> Iterator[None]:
        """This thread will write something soon, within the block; it is expected until it has `arrived`, or the block is over."""
        if getattr(self._mine, "comes", False):  # it is expected already
            yield
            return
        with self._changed:
            self._coming += 1
        self._mine.comes = True
        try:
            yield
        finally:
            self.arrived()

    def arrived(self) -> None:
        """What this thread has announced, if anything, is ready, or comes to nothing."""
        if not getattr(self._mine, "comes", False):
            return
        self._mine.comes = False
        with self._changed:
            self._coming -= 1
            if self._waiting and self._enough():
                self._changed.notify_all()

    def wait(self) -> None:
        """Return when at least as many are ready as are on their way, or after `COMPANY_S`; at once where nobody is ready."""
        with self._changed:
            self._waiting += 1
            try:
                self._changed.wait_for(self._enough, COMPANY_S)
            finally:
                self._waiting -= 1

    def _enough(self) -> bool:
        here = self._here()
        return here >= self._coming or not here
