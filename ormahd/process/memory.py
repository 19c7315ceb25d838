"""Limit memory after bulk work: return freed memory to the system, and exclude long-lived objects from garbage
collection."""

from __future__ import annotations

import ctypes
import gc

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
