"""Many want the same kind of thing at once: whoever comes first leads and does it for all that wait, then the next one does.

Each of those who wait is woken once, when his thing is done or when it is his turn to lead. With a lock or a condition
around the work all of them wake after every turn, one behind the other, and whoever is to go on waits for each of them to
have had the interpreter. Standard library only; every room may stand in line.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable


class Place:
    """One who wants something done."""

    __slots__ = ("_gate", "_leads", "_taken", "_waits", "done")

    def __init__(self) -> None:
        self.done = False
        self._taken = False
        self._leads = False
        self._waits = False
        self._gate = threading.Lock()
        self._gate.acquire()


class Line:
    """Safe from any thread. A place stands in one line only, and leads it once at most."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._led = False
        self._waiting: deque[Place] = deque()

    def lead(self, place: Place) -> bool:
        """Wait. True: it is ours to lead, until `pass_on`, even if it is `done` by then; False: somebody did what it stands for."""
        with self._lock:
            if place.done:
                return False
            if not self._led and not place._taken:
                self._led = True
                return True
            place._waits = True
            self._waiting.append(place)
        place._gate.acquire()
        return place._leads

    def take(self, places: Iterable[Place]) -> None:
        """What these stand for is seen to by us, also after we have passed on: they wait until it is `done`, and lead no more."""
        with self._lock:
            for place in places:
                place._taken = True

    def done(self, places: Iterable[Place]) -> None:
        """What these stand for is done: whoever waits for it goes on."""
        with self._lock:
            for place in places:
                place.done = True
                self._wake(place)

    def pass_on(self) -> None:
        """The one who led goes: the next that waits leads."""
        with self._lock:
            while self._waiting:
                place = self._waiting.popleft()
                if place._waits and not place._taken:
                    place._leads = True
                    self._wake(place)
                    return
            self._led = False

    @staticmethod
    def _wake(place: Place) -> None:
        if place._waits:
            place._waits = False
            place._gate.release()
