"""The thread that keeps promises: it tries again, with growing pauses, until nothing waits any more."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from ormahd.errors import OrmahError

BACKOFF = (0.005, 1.0)
"""Seconds between two looks at a busy repository: the first (a `git status` is over in milliseconds) and the longest."""

log = logging.getLogger(__name__)


class Drainer:
    """Started by the first `kick`; sleeps while nothing waits."""

    def __init__(self, drain: Callable[[], str | None], waiting: Callable[[], int]) -> None:
        """`drain` writes what can be written and says why the rest waits; `waiting` counts it."""
        self._drain = drain
        self._waiting = waiting
        self._wake = threading.Condition()
        self._closed = False
        self._thread: threading.Thread | None = None

    def kick(self) -> None:
        """Something waits."""
        with self._wake:
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(target=self._run, name="vault-drainer", daemon=True)
                self._thread.start()
            self._wake.notify_all()

    def close(self) -> None:
        with self._wake:
            self._closed = True
            self._wake.notify_all()
            thread = self._thread
        if thread is not None:
            thread.join()

    def _run(self) -> None:
        pause = BACKOFF[0]
        while True:
            with self._wake:
                if self._closed:
                    return
                if not self._waiting():
                    pause = BACKOFF[0]
                    self._wake.wait()
                    continue
            why = self._try()
            with self._wake:
                if why is None:
                    pause = BACKOFF[0]
                elif not self._closed:
                    self._wake.wait(pause)
                    pause = min(pause * 2, BACKOFF[1])

    def _try(self) -> str | None:
        try:
            return self._drain()
        except (OrmahError, OSError) as exc:
            log.warning("%d writes still wait: %s", self._waiting(), exc)
            return str(exc)
        except Exception as exc:  # a fault of ours must not end the thread that keeps our promises
            log.exception("%d writes still wait", self._waiting())
            return repr(exc)
