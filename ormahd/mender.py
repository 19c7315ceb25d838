"""Repair files that can be rebuilt (index, state): detect that one is damaged, deleted or on a full disk, and
restore the index.

One thread repairs. All others only report, and continue with what is available.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

from ormahd.errors import BegunAnew, OrmahError
from ormahd.index.index import Index
from ormahd.process import own_files, priority
from ormahd.state.state import State
from ormahd.watch.scan import ScanAborted

LOOK_EVERY: Final = 2.0
"""Seconds between two checks of the files; each takes a few system calls."""
COMPARE_FIRST: Final = 300.0
COMPARE_EVERY: Final = 6 * 3600.0
"""Seconds between two comparisons of the whole index with the vault."""
SHARE: Final = 100
"""The least time between two full checks of the file, as a multiple of the duration of a check."""
QUIET: Final = 5.0
"""Seconds without a write after which a changed file is checked fully."""
RETRY: Final = (0.5, 5.0)
"""Seconds from a failed scan to the next: at first, and at most."""
NICE: Final = 10

log = logging.getLogger("ormah")


def pause(failures: int) -> float:
    """Return the seconds until the next try after `failures` failures in a row."""
    return min(RETRY[1], RETRY[0] * 2.0 ** min(failures, 10))


class DatabaseMender:
    """Watches the databases of one index and one state, and repairs them. `damaged`, `full` and `behind` may be
    called from any thread, with any lock held."""

    def __init__(
        self,
        index: Index,
        state: State,
        *,
        scan: Callable[[], None],
        forget: Callable[[], None],
        differs: Callable[[], bool],
        rebuild: Callable[[], None],
        warn: Callable[[str], None],
        rested: Callable[[], float],
    ) -> None:
        """`scan`: brings the index up to date with the vault. `forget`: discards what earlier scans know, after the
        index was replaced. `differs`: compares index and vault completely. `rebuild`: writes all rows again. `warn`:
        gets sentences for the person. `rested`: returns the seconds since the last write."""
        self._index = index
        self._state = state
        self._scan, self._forget, self._differs, self._rebuild = scan, forget, differs, rebuild
        self._warn = warn
        self._rested = rested
        self._turn = threading.Condition()
        self._thread: threading.Thread | None = None
        self._stopping = False
        self._damage: str | None = None
        self._full: str | None = None
        self._behind = False
        self._lags = 0
        """How often it was reported that the index lags."""
        self._suspect = index.database.doubtful
        self._started = False
        self._failures = 0
        self._seen = index.database.stamp()
        self._look_at = 0.0
        self._compare_at = time.monotonic() + COMPARE_FIRST
        self._told = 0
        index.database.found_damaged = self.damaged
        index.database.found_full = self.full

    # Reports from other threads

    def damaged(self, why: str) -> None:
        """Tell the mender that the index's file cannot be used."""
        with self._turn:
            self._damage = self._damage or why
        self._wake()

    def full(self, why: str) -> None:
        """Tell the mender that the index's disk is full."""
        with self._turn:
            self._full, self._behind = why, True
        self._wake()

    def behind(self) -> None:
        """Tell the mender that a change of the vault did not reach the index."""
        with self._turn:
            self._behind, self._lags = True, self._lags + 1
        self._wake()

    def suspect(self) -> None:
        """Tell the mender that the index may differ from the vault. It then compares them completely, and rebuilds
        the index if they differ."""
        with self._turn:
            self._suspect = True
        self._wake()

    @property
    def at_work(self) -> bool:
        """Whether the index may lack something that the vault has."""
        return self._behind or self._damage is not None

    def wait(self, seconds: float) -> bool:
        """Wait until the mender has dealt with all damage and full disks that it was told of. Return False if
        `seconds` pass before."""
        with self._turn:
            return self._turn.wait_for(lambda: self._damage is None and self._full is None, seconds)

    # The thread

    def start(self) -> None:
        """Begin the regular checks, and compare the index with the vault if that is due."""
        self._started = True
        self._wake()

    def stop(self) -> None:
        with self._turn:
            self._stopping = True
            self._turn.notify_all()
            thread = self._thread
        if thread is not None:
            thread.join()

    def _wake(self) -> None:
        with self._turn:
            if self._thread is None and not self._stopping:
                self._thread = threading.Thread(target=self._run, name="mender", daemon=True)
                self._thread.start()
            self._turn.notify_all()

    def _run(self) -> None:
        priority.step_back(NICE)
        while not self._stopping:
            try:
                self._mend()
            except ScanAborted:
                log.info("the index is not compared to its end: a later start does so")
                return
            except Exception:
                # The top of a thread: after any exception it tries again.
                log.exception("looking after the index and the state failed; it is tried again")
                self._failures, broken = self._failures + 1, True
            else:
                broken = False
            with self._turn:
                self._turn.notify_all()
                if not self._stopping and (broken or not (self._damage or self._full)):
                    soon = broken or self._behind or self._suspect
                    self._turn.wait(pause(self._failures) if soon else LOOK_EVERY)

    def _mend(self) -> None:
        """Check the database files once, and repair what is wrong."""
        if self._damage is None and self._full is None:
            self._look()
        if self._damage is not None:
            self._begin_anew(self._damage)
        if self._full is not None:
            self._make_do(self._full)
        if self._behind:
            self._bring_in()
        elif self._suspect:
            self._compare()

    def _begin_anew(self, why: str) -> None:
        self._index.begin_anew(why)
        self._forget()
        self._warn(f"the index was made anew from the vault: {self._index.dropped or why}")
        with self._turn:
            self._damage, self._behind = None, True
            self._turn.notify_all()  # the new index is empty, but usable
        self._seen = self._index.database.stamp()

    def _make_do(self, why: str) -> None:
        try:
            if self._index.into_memory(why):
                log.warning(
                    "the index is kept in memory until its disk has room: %s", own_files.room(self._index.directory)
                )
        finally:
            with self._turn:
                self._full = None

    def _bring_in(self) -> None:
        lags = self._lags
        try:
            self._scan()
        except OrmahError as error:
            self._failures += 1
            log.log(
                logging.INFO if self._failures > 1 else logging.WARNING,
                "the index still lags behind the vault: %s",
                error.message,
            )
            return
        self._failures = 0
        with self._turn:
            # A report during the scan may have come too late for it.
            self._behind = self._lags != lags or self._damage is not None or self._full is not None
            if self._behind:
                return
        log.info("the index has all of the vault again, %d memories", self._index.count())

    # Checks

    def _look(self) -> None:
        self._state.look()
        self.tell()
        database = self._index.database
        if database.in_memory:
            if self._index.back_to_file():
                log.info("the index is kept in %s again", self._index.directory)
            return
        if why := database.suspicion():
            if "wrote into" not in why:
                self.damaged(why)
                return
            log.warning("%s: it is compared with the vault", why)
            self._suspect = True
        if self._index.database.stamp() != self._seen and self._rested() > QUIET and time.monotonic() >= self._look_at:
            self.look_through()
        if time.monotonic() >= self._compare_at:
            self._compare_at = time.monotonic() + COMPARE_EVERY
            self._suspect = True

    def tell(self) -> None:
        """Pass new notices that the state gave about its file on to `warn`."""
        new = self._state.notices[self._told :]
        self._told += len(new)
        for sentence in new:
            self._warn(sentence)

    def look_through(self) -> bool:
        """Have SQLite check the whole file of the index, and call `damaged` if there is damage. Return whether there
        is."""
        self._seen, begun = self._index.database.stamp(), time.monotonic()
        try:
            found = self._index.database.check()
        except BegunAnew:
            return True  # already reported
        except OrmahError as error:
            log.info("the index could not be looked through: %s", error.message)
            return False
        self._look_at = time.monotonic() + max(QUIET, SHARE * (time.monotonic() - begun))
        if found is not None:
            self.damaged(f"a check found: {found}")
        return found is not None

    def _compare(self) -> None:
        """Compare the whole index with the vault. If they differ, rebuild the rows; if they still differ, call
        `damaged`."""
        if not self._started or self._rested() < QUIET:
            return
        self._suspect = False
        if self.look_through() or not self._differs():
            return
        self._warn("the index held something else than the vault; its rows were made again")
        self._rebuild()
        if self._differs():
            self.damaged("its rows differ from the vault, also after they were made again")
