"""Memory once bulk work is done: what was freed goes back to the system, and what stays is no longer searched for garbage."""

from __future__ import annotations

import ctypes
import gc

ARENA_MAX = -8
"""`M_ARENA_MAX` of mallopt(3)."""
ARENAS = 2
"""By default each of a dozen threads fills one of its own: after an import of 10,000 notes they held 40 MB more."""


def few_arenas() -> None:
    """To be called before there are threads (glibc; nothing elsewhere)."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(ARENA_MAX, ARENAS)


def give_back() -> None:
    """Return freed memory to the system: after thousands of forward passes glibc holds on to a quarter of a gigabyte."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def freeze() -> None:
    """Look for garbage once, in what came since the last time, and leave alone what is left. Else everything is looked at again
    whenever a quarter has come: with 10,000 notes nine times in half a minute of bulk work, 40 to 90 ms each in which no other
    thread goes on, and with 100,000 ten times as long."""
    gc.collect()
    gc.freeze()


def sweep() -> None:
    """Look for garbage everywhere, also among what was left alone, and leave alone what is left. What was in use when it was first left
    alone and became garbage in a ring since is found by nothing else: so a dozen states of `as_of` stayed, some megabytes each. Takes some
    30 ms with 2,000 notes, in which no other thread goes on: for every ten minutes at most."""
    gc.unfreeze()
    freeze()
