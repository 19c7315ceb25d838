"""Who goes first: work in bulk lets a whisper pass (DESIGN section 2, promise 7).

The interpreter lets one thread on at a time and knows no priorities, so a rebuild beside a whisper takes every other turn
and makes it last twice as long. What works in bulk therefore asks here, between two of its steps, whether somebody is
waiting for an answer. And only who has somebody waiting takes a core from another process when it wakes (`patient`).
Standard library only; every room may ask.
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
"""How long one step lets others pass at most: a whisper takes less."""
SHARE_S: Final = 0.01
"""How long it then goes on whoever comes, so that it ends also where somebody always asks."""

LATELY_S: Final = 0.25
"""So long after somebody went first another one is expected: a person's agent asks more than once."""
REST_S: Final = 0.02
"""How long one step rests at most meanwhile, so that the next one who comes, and the process that he is, finds a core that is free."""

_lock = threading.Lock()
_clear = threading.Event()
_clear.set()
_mine = threading.local()
_first = 0
_left = 0.0
_searched = 0.0


def first() -> AbstractContextManager[None]:
    """Somebody has come who goes first: from now on whoever gives way waits, until the block is over that is entered, once and in
    any thread, with what is returned."""
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
    """Let those pass who go first; returns at once where there is nobody, and for those themselves. Where somebody went first a
    moment ago, rest as long as this thread has worked since the last time. Not with a lock held that they may want."""
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
    """Threads for a part of an answer that is worked out beside the rest of it. They go first where the caller does."""

    def __init__(self, name: str) -> None:
        self._pool = ThreadPoolExecutor(cores(), name)

    def begin(self, work: Callable[[], T]) -> Callable[[], T]:
        """Begin `work`; calling what is returned waits for it, and gives its result or raises its error."""
        goes = getattr(_mine, "goes", False)

        def run() -> T:
            _mine.goes = goes
            _waking(eager=goes)
            return work()

        return self._pool.submit(run).result

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)


def asked_lately() -> bool:
    """Whether somebody goes first, or did a moment ago: then work in bulk keeps a core free."""
    return bool(_first) or time.monotonic() - _left < LATELY_S


def searched() -> None:
    """Somebody has searched, who does not go first."""
    global _searched  # noqa: PLW0603 - of the process, as the interpreter's lock is
    _searched = time.monotonic()


def searched_lately() -> bool:
    """Whether somebody searched a moment ago, or goes first: what can wait for a quiet moment waits then."""
    return asked_lately() or time.monotonic() - _searched < LATELY_S


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def patient() -> None:
    """From here on this thread, and what it starts, takes no core from who is at work when it wakes: it waits for a free one or
    for its turn. Threads that hand the interpreter to each other wake thousands of times a second, and a process that starts
    meanwhile, as a hook does for each prompt, was put off its core up to eighty times for it."""
    _waking(eager=False)


def eager() -> None:
    """The opposite: for who has somebody waiting, and for who takes what comes in."""
    _waking(eager=True)


def _waking(*, eager: bool) -> None:
    if sys.platform == "linux":
        with contextlib.suppress(OSError):  # a sandbox may forbid it; then all goes on as before
            os.sched_setscheduler(0, os.SCHED_OTHER if eager else os.SCHED_BATCH, os.sched_param(0))


def step_back(nice: int) -> None:
    """From here on this thread yields to everything else on the machine: `nice` is its niceness. Linux gives each thread its
    own; it cannot be taken back without a right that not everybody has, so this is for threads that do nothing else."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), nice)


def giving(steps: Iterable[T]) -> Iterator[T]:
    """`steps`, giving way before each."""
    for step in steps:
        give()
        yield step
