"""Priorities between threads, a repeating timer, a lock per key, and release of memory after bulk work.

Bulk work gives way to urgent work such as a whisper (DESIGN section 2, promise 7). Python's GIL has no priorities, so a
rebuild would make a concurrent whisper take twice as long. Bulk work therefore calls `give` between its steps, which
waits while urgent work runs. On Linux, threads that work on a request with a waiting client (`eager`) may preempt other
processes when they wake, and all other threads (`patient`) may not. After bulk work, freed memory is returned to the
system, and long-lived objects are excluded from garbage collection.

Standard library only; every package may use it.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from typing import Final, TypeVar

T = TypeVar("T")

LONGEST_S: Final = 0.15
"""The longest time in seconds that one call of `give` waits for urgent work to end; a whisper takes less."""
SHARE_S: Final = 0.01
"""Seconds in which a thread that has waited in `give` does not wait again, so that bulk work ends even under constant
urgent work."""

LATELY_S: Final = 0.25
"""Seconds after the end of urgent work in which more is expected, because an agent usually sends several requests."""
REST_S: Final = 0.02
"""The longest time in seconds that `give` sleeps within `LATELY_S` after urgent work, so that the next request finds a
free core."""

_lock = threading.Lock()
_clear = threading.Event()
_clear.set()
_mine = threading.local()
_first = 0
_urgent_ended = 0.0
_searched = 0.0


def first() -> AbstractContextManager[None]:
    """Return a context manager for urgent work, which a client waits for. The work counts as begun at this call.

    It ends with the block, which must be entered once, in any thread. Until then `give` waits in other threads.
    """
    global _first  # noqa: PLW0603 - of the process, as the interpreter's lock is
    with _lock:
        _first += 1
        _clear.clear()
    return _urgent()


@contextmanager
def _urgent() -> Iterator[None]:
    """Context manager: mark this thread's work as urgent. At its end, let other work continue if nothing urgent runs.
    The caller has counted it in `_first`."""
    global _first, _urgent_ended  # noqa: PLW0603 - of the process, as the interpreter's lock is
    before, _mine.urgent = getattr(_mine, "urgent", False), True
    try:
        yield
    finally:
        _mine.urgent = before
        with _lock:
            _first -= 1
            _urgent_ended = time.monotonic()
            if not _first:
                _clear.set()


def give() -> None:
    """Wait while urgent work runs, at most `LONGEST_S`. Return at once if this thread itself does urgent work.

    Shortly after urgent work, sleep as long as this thread has used the processor since its last call, at most
    `REST_S`. Do not call it while holding a lock that urgent work may need.
    """
    if getattr(_mine, "urgent", False):
        return
    if _first:
        if time.monotonic() >= getattr(_mine, "until", 0.0):
            _clear.wait(LONGEST_S)
            _mine.until = time.monotonic() + SHARE_S
    elif asked_lately():
        time.sleep(min(time.thread_time() - getattr(_mine, "worked", 0.0), REST_S))
    else:
        return
    _mine.worked = time.thread_time()


class ParallelThreads:
    """Threads that compute parts of an answer in parallel. Their work is urgent if the caller's is."""

    def __init__(self, name: str) -> None:
        self._pool = ThreadPoolExecutor(cores(), name)

    def begin(self, work: Callable[[], T]) -> Callable[[], T]:
        """Start `work` in a thread. Return a function that waits for it, and returns its result or raises its error."""
        urgent = getattr(_mine, "urgent", False)

        def run() -> T:
            """Do the work with the urgency of the thread that called `begin`."""
            _mine.urgent = urgent
            _set_scheduling(eager=urgent)
            return work()

        return self._pool.submit(run).result

    def close(self) -> None:
        """End the threads. Tasks that have not started are dropped."""
        self._pool.shutdown(cancel_futures=True)


def asked_lately() -> bool:
    """Return whether urgent work runs, or ended less than `LATELY_S` ago. Bulk work then leaves a core free."""
    return bool(_first) or time.monotonic() - _urgent_ended < LATELY_S


def searched() -> None:
    """Record that a search has just run that was not urgent."""
    global _searched  # noqa: PLW0603 - of the process, as the interpreter's lock is
    _searched = time.monotonic()


def searched_lately() -> bool:
    """Return whether urgent work runs, or urgent work or a search ended less than `LATELY_S` ago. Work that can be
    deferred then waits."""
    return asked_lately() or time.monotonic() - _searched < LATELY_S


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def patient() -> None:
    """Set this thread, and the threads and processes that it starts, not to preempt others on waking (SCHED_BATCH,
    Linux).

    Threads that pass the GIL to each other wake very often, and would each time preempt a process that is just
    starting, such as the hook of a prompt.
    """
    _set_scheduling(eager=False)


def eager() -> None:
    """Undo `patient` for this thread. For threads that receive requests, or work on a request with a waiting client."""
    _set_scheduling(eager=True)


def _set_scheduling(*, eager: bool) -> None:
    """Let Linux wake this thread quickly (`eager`), or schedule it as batch work. Does nothing on other systems."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):  # a sandbox may forbid it; the priority then stays as it was
            os.sched_setscheduler(0, os.SCHED_OTHER if eager else os.SCHED_BATCH, os.sched_param(0))


def step_back(nice: int) -> None:
    """Set the niceness of this thread (on Linux; elsewhere threads have none of their own).

    It cannot be lowered again without privileges, so this is only for threads that do background work.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), nice)


def giving(steps: Iterable[T]) -> Iterator[T]:
    """Yield each of `steps`, and call `give` before each."""
    for step in steps:
        give()
        yield step


log = logging.getLogger("ormahd.process.threads")


class Timer:
    """A thread that calls `act`: `first` seconds after `start`, and then `every` seconds after the end of each call.
    `nice`: see `step_back`.

    An exception in `act` is logged, and the calls go on.
    """

    def __init__(self, name: str, act: Callable[[], None], *, first: float, every: float, nice: int = 0) -> None:
        self._act = act
        self._first = first
        self._every = every
        self._nice = nice
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self, seconds: float) -> bool:
        """Start no further call, and wait for a running one. Return False if it still runs after `seconds`."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        """Call `act` at its times, until `stop` is called. The body of the thread."""
        if self._nice:
            step_back(self._nice)
        pause = self._first
        while not self._stopping.wait(pause):
            pause = self._every
            try:
                self._act()
            except Exception:
                log.exception("%s failed", self._thread.name)


class KeyedLocks:
    """Gives threads one lock for each key. A lock exists only while threads hold it or wait for it."""

    def __init__(self) -> None:
        self._locks: dict[str, tuple[threading.Lock, int]] = {}
        self._lock = threading.Lock()

    @contextmanager
    def take(self, key: str) -> Iterator[None]:
        """Context manager: hold the lock of `key` (such as a request's id) during the block. Threads with the same key
        run the block one at a time."""
        with self._lock:
            lock, holders = self._locks.get(key, (threading.Lock(), 0))
            self._locks[key] = (lock, holders + 1)
        try:
            with lock:
                yield
        finally:
            with self._lock:
                lock, holders = self._locks.pop(key)
                if holders > 1:
                    self._locks[key] = (lock, holders - 1)


ARENA_MAX = -8
"""The parameter `M_ARENA_MAX` of mallopt(3)."""
ARENAS = 2
"""The largest number of malloc arenas. By default threads get arenas of their own, which together hold more memory."""


def few_arenas() -> None:
    """Limit the number of arenas of malloc to `ARENAS` (glibc only). Call it before threads are started."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(ARENA_MAX, ARENAS)


def give_back() -> None:
    """Return freed RAM to the system (`malloc_trim`), because glibc keeps a lot of it after much embedding."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def freeze() -> None:
    """Collect garbage once, and exclude the objects that remain from later collections (`gc.freeze`).

    Python runs a full collection whenever the heap has grown by a quarter. In a large vault each would stop all threads
    noticeably if it visited all objects.
    """
    gc.collect()
    gc.freeze()


def sweep() -> None:
    """Collect garbage among all objects, including those that `freeze` excluded, and exclude the ones that remain.

    Only this frees cycles of objects that were still in use at the earlier `freeze`, such as snapshots for `as_of`. It
    stops all threads, so callers run it at most every ten minutes.
    """
    gc.unfreeze()
    freeze()
