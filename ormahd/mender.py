"""Brings the index up to date with the vault in the background, after it was damaged or missed a change."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final

from ormahd.errors import OrmahError
from ormahd.index.index import Index
from ormahd.process import priority

RETRY_S: Final = 2.0
"""Seconds from a failed try to the next."""
NICE: Final = 10

log = logging.getLogger("ormah")


class IndexMender:
    """Makes a damaged index anew, and scans the vault again until the index has all of it. `damaged` and `behind` may be
    called from any thread, with any lock held."""

    def __init__(self, index: Index, *, scan: Callable[[], None], renewed: Callable[[str], None]) -> None:
        """`scan`: brings the index up to date with the vault. `renewed`: called with a sentence for the person, after the
        index was replaced by an empty one."""
        self._index = index
        self._scan = scan
        self._renewed = renewed
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()
        self._damage: str | None = None
        self._reports = 0

    def damaged(self, why: str) -> None:
        """Have the index made anew, because its file cannot be used."""
        with self._lock:
            self._damage = self._damage or why
        self.behind()

    def behind(self) -> None:
        """Have the vault scanned, because a change of it did not reach the index."""
        with self._lock:
            self._reports += 1
            if self._thread is None and not self._stopping.is_set():
                self._index.lags.add("mender")
                self._thread = threading.Thread(target=self._run, name="mender", daemon=True)
                self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if (thread := self._thread) is not None:
            thread.join()

    def _run(self) -> None:
        priority.step_back(NICE)
        logged = ""
        while not self._stopping.is_set():
            reports = self._reports
            try:
                if self._damage is not None:
                    self._begin_anew(self._damage)
                self._scan()
            except OrmahError as error:
                log.log(
                    logging.DEBUG if error.message == logged else logging.WARNING, "the index lags: %s", error.message
                )
                logged = error.message
                self._stopping.wait(RETRY_S)
                continue
            except Exception:
                # The top of a thread: after any exception it tries again.
                log.exception("the index could not be brought up to date; it is tried again")
                self._stopping.wait(RETRY_S)
                continue
            with self._lock:
                if reports == self._reports:  # else something was reported during the scan, and may have come too late
                    self._thread = None
                    self._index.lags.discard("mender")
                    log.info("the index has all of the vault again, %d memories", self._index.count())
                    return

    def _begin_anew(self, why: str) -> None:
        self._index.begin_anew(why)
        self._damage = None
        self._renewed(f"the index was made anew from the vault: {self._index.dropped or why}")
