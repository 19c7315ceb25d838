"""Priorities between threads, threads that repeat, a lock per key, and memory after bulk work.

Bulk work gives way to urgent work such as a whisper (DESIGN section 2, promise 7). Python's GIL has no priorities, so a
rebuild would make a concurrent whisper take twice as long. Bulk work therefore calls `give` between its steps, which
waits while urgent work runs. On Linux, only threads that work on a waiting request preempt other processes when they
wake (`patient`). After bulk work, freed memory is returned to the system, and long-lived objects are excluded from
garbage collection.

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
"""Longest time in seconds that one step of bulk work waits for urgent work; a whisper takes less."""
SHARE_S: Final = 0.01
"""Seconds that a thread runs without waiting after it waited for urgent work, so that bulk work ends even under
constant urgent work."""

LATELY_S: Final = 0.25
"""Seconds after urgent work in which more of it is expected: an agent usually asks more than once."""
REST_S: Final = 0.02
"""Longest rest in seconds of one step of bulk work within `LATELY_S`, so that the next request finds a free core."""

_lock = threading.Lock()
_clear = threading.Event()
_clear.set()
_mine = threading.local()
_first = 0
_left = 0.0
_searched = 0.0


def first() -> AbstractContextManager[None]:
    """Mark urgent work as begun: from now on `give` waits, until the returned context manager, entered once in any
    thread, exits."""
    global _first  # noqa: PLW0603 - of the process, as the interpreter's lock is
    with _lock:
        _first += 1
        _clear.clear()
    return _turn()


@contextmanager
def _turn() -> Iterator[None]:
    global _first, _left  # noqa: PLW0603 - of the process, as the interpreter's lock is
    before, _mine.goes = getattr(_mine, "goes", False), True
    try:
        yield
    finally:
        _mine.goes = before
        with _lock:
            _first -= 1
            _left = time.monotonic()
            if not _first:
                _clear.set()


def give() -> None:
    """Let urgent work run first. Returns at once if there is none, or if this thread does urgent work itself.

    Shortly after urgent work, sleeps as long as this thread has worked since its last call, at most `REST_S`. Do not
    call it with a lock held that urgent work may need.
    """
    if getattr(_mine, "goes", False):
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
    """Threads that work out a part of an answer in parallel. They are urgent if the caller is."""

    def __init__(self, name: str) -> None:
        self._pool = ThreadPoolExecutor(cores(), name)

    def begin(self, work: Callable[[], T]) -> Callable[[], T]:
        """Start `work` in a thread. The returned function waits for it, and returns its result or raises its error."""
        goes = getattr(_mine, "goes", False)

        def run() -> T:
            _mine.goes = goes
            _waking(eager=goes)
            return work()

        return self._pool.submit(run).result

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)


def asked_lately() -> bool:
    """Whether urgent work runs, or ended within `LATELY_S`: bulk work then keeps a core free."""
    return bool(_first) or time.monotonic() - _left < LATELY_S


def searched() -> None:
    """Note that a search that is not urgent has just run."""
    global _searched  # noqa: PLW0603 - of the process, as the interpreter's lock is
    _searched = time.monotonic()


def searched_lately() -> bool:
    """Whether urgent work or a search ran within `LATELY_S`: deferrable work then waits."""
    return asked_lately() or time.monotonic() - _searched < LATELY_S


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def patient() -> None:
    """Make this thread, and threads and processes that it starts, not preempt others when it wakes (SCHED_BATCH;
    Linux only).

    Threads that hand over the GIL wake very often, and would each time preempt a process that is just starting, such
    as a prompt's hook.
    """
    _waking(eager=False)


def eager() -> None:
    """Undo `patient` for this thread: for threads that work on a waiting request, and those that receive requests."""
    _waking(eager=True)


def _waking(*, eager: bool) -> None:
    if sys.platform == "linux":
        with contextlib.suppress(OSError):  # a sandbox may forbid it; the priority then stays as it was
            os.sched_setscheduler(0, os.SCHED_OTHER if eager else os.SCHED_BATCH, os.sched_param(0))


def step_back(nice: int) -> None:
    """Lower the priority of this thread for good; `nice` is its niceness (Linux only, where each thread has its
    own).

    Raising it again needs a privilege, so this is for threads that do only background work.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), nice)


def giving(steps: Iterable[T]) -> Iterator[T]:
    """Yield `steps`, calling `give` before each."""
    for step in steps:
        give()
        yield step


log = logging.getLogger("ormahd.process.threads")


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


ARENA_MAX = -8
"""The parameter `M_ARENA_MAX` of mallopt(3)."""
ARENAS = 2
"""The number of malloc arenas. By default each thread fills one of its own, which holds more memory."""


def few_arenas() -> None:
    """Limit the number of malloc arenas (glibc; nothing elsewhere). Call before threads are started."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(ARENA_MAX, ARENAS)


def give_back() -> None:
    """Return freed memory to the system (`malloc_trim`): after many forward passes glibc keeps a lot of it."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def freeze() -> None:
    """Collect garbage once, and exclude the remaining objects from later collections (`gc.freeze`).

    Otherwise a full collection runs whenever the heap has grown by a quarter. In a large vault each one stops all
    threads noticeably.
    """
    gc.collect()
    gc.freeze()


def sweep() -> None:
    """Collect garbage among all objects, including those that `freeze` excluded, and exclude the remaining ones.

    Only this finds cycles of objects that were in use at the earlier `freeze`, such as snapshots for `as_of`. It
    stops all threads, so callers run it at most every ten minutes.
    """
    gc.unfreeze()
    freeze()
