"""Something that is done again and again, in a thread of its own."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

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
