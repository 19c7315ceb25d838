"""Priorities between threads: bulk work gives way to urgent work such as a whisper (DESIGN section 2, promise 7).

Python's GIL has no priorities, so that a rebuild would make a concurrent whisper take twice as long. Bulk work
therefore calls `give` between its steps, which waits while urgent work runs. On Linux, only threads that work on a
waiting request preempt other processes when they wake (`patient`).

Standard library only; every package may use it.
"""

from __future__ import annotations

import contextlib
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
"""Seconds that one step waits for urgent work at most; a whisper takes less."""
SHARE_S: Final = 0.01
"""Seconds that the thread then runs without waiting, so that bulk work ends even under constant urgent work."""

LATELY_S: Final = 0.25
"""Seconds after urgent work in which more is expected: an agent usually asks more than once."""
REST_S: Final = 0.02
"""Seconds that one step rests at most in that time, so that the next request, and its process, finds a free core."""

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


class Beside:
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
