"""What the C library keeps of memory that was freed: little, and nothing once bulk work is done (glibc; nothing elsewhere)."""

from __future__ import annotations

import ctypes

ARENA_MAX = -8
"""`M_ARENA_MAX` of mallopt(3)."""
ARENAS = 2
"""By default each of a dozen threads fills one of its own: after an import of 10,000 notes they held 40 MB more."""


def few_arenas() -> None:
    """To be called before there are threads."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(ARENA_MAX, ARENAS)


def give_back() -> None:
    """Return freed memory to the system: after thousands of forward passes glibc holds on to a quarter of a gigabyte."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
