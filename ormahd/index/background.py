"""A background thread that repeats one step of work, rests when there is none, and returns freed memory to the system."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from ormahd.errors import OrmahError
from ormahd.index.database import Database
from ormahd.process import priority

GIVE_BACK_S = 3.0
"""Seconds from the last work until freed memory is returned to the system."""
GIVE_BACK_AGAIN_S = 60.0
"""Seconds after which freed memory is returned also without work: searches fragment the heap and fill SQLite's page
caches."""
GIVE_BACK_CPU_S = 1.0
"""Minimum processor time, in seconds, that the process must have used since memory was last returned. With less, memory
is not returned again unless there was work."""
SWEEP_S = 600.0
"""Seconds between two full garbage collections."""
RETRY_S = 30.0
"""Maximum pause before the next attempt after a failure, in seconds. The first pause is half a second; each further one
is twice as long."""
IDLE_S = 60.0
"""Maximum seconds between two steps. `wake` starts the next one at once."""

log = logging.getLogger(__name__)


class Background:
    """The thread of an index that calls `step` again and again. A step returns the seconds until the next one is due; 0 if
    it has worked and there may be more to do. A step that raises is tried again after a pause."""

    def __init__(self, step: Callable[[], float], database: Database) -> None:
        self._step = step
        self._database = database
        self._condition = threading.Condition()
        self._thread: threading.Thread | None = None
        self._stopping = False
        self._woken = False  # remembers a `wake` that comes during a step
        self._failures = 0
        self.hurried = 0
        """Number of callers that wait for all work to be done, also for what would be put off."""
        self._worked: float | None = None
        """Time of the last work; None if there was none since memory was last returned to the system."""
        self._given_back = self._swept = time.monotonic()
        self._cpu = time.process_time()
        """Processor time that the process had used when memory was last returned to the system."""

    def start(self) -> None:
        """Start the thread."""
        self._thread = threading.Thread(target=self._run, name="index-fill", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Start the next step at once, or right after the one that runs."""
        with self._condition:
            self._woken = True
            self._condition.notify_all()

    def worked(self) -> None:
        """Record that there was work just now: `GIVE_BACK_S` after the last such call, freed memory is returned."""
        self._worked = time.monotonic()

    def wait(self, done: Callable[[], bool], timeout: float, *, hurry: bool) -> bool:
        """Wait up to `timeout` seconds until `done` returns True; it is called after each step. Return False on timeout.
        `hurry`: see `hurried`."""
        end = time.monotonic() + timeout
        self.wake()
        with self._condition:
            self.hurried += hurry
            try:
                while not done():
                    remaining = end - time.monotonic()
                    if remaining <= 0 or self._stopping:
                        return False
                    self._condition.wait(min(remaining, 1.0))
            finally:
                self.hurried -= hurry
        return True

    def stop(self) -> None:
        """Wait for the end of the step that runs, and end the thread."""
        with self._condition:
            self._stopping = True
            self._condition.notify_all()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        """Run steps until `stop` is called: the body of the thread. After each step it rests for the pause that the
        step returned."""
        while not self._stopping:
            try:
                pause = self._step()
                self._failures = 0
            except Exception as error:
                # Nothing may end the thread: search goes on with what there is.
                if not isinstance(error, OrmahError):
                    log.exception("filling the index failed; it is tried again")
                self._failures += 1
                pause = min(RETRY_S, 0.25 * 2.0**self._failures)
            else:
                if pause:
                    pause = min(pause, IDLE_S, self._return_memory())
                else:
                    self.worked()
            with self._condition:
                self._condition.notify_all()
                if pause and not self._stopping and not self._woken:
                    self._condition.wait(pause)
                self._woken = False

    def _return_memory(self) -> float:
        """Return freed memory to the system if this is due: after work, and at times while searches continue. Return
        the seconds until it is due again."""
        now = time.monotonic()
        again = self._given_back + GIVE_BACK_AGAIN_S - now
        remaining = again if self._worked is None else min(self._worked + GIVE_BACK_S - now, again)
        if remaining > 0:
            return remaining
        self._given_back = now
        if self._worked is None and time.process_time() - self._cpu < GIVE_BACK_CPU_S:
            return IDLE_S
        self._worked = None
        self._database.free_memory()
        if now - self._swept >= SWEEP_S:
            self._swept = now
            priority.sweep()
        else:
            priority.freeze()
        priority.give_back()
        self._cpu = time.process_time()
        return IDLE_S
