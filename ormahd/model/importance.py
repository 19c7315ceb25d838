"""Importance: how much a memory is worth keeping close, from its use, its connections and how recently it was used.

Used to choose who leaves the core tier when it is full and who is spared from fading; ranking does not read it.
Formula and constants: the original's importance scorer with the half-life it learned later (its issue 222: with
recency tied to stability, a memory that was used much never became unimportant).
"""

from __future__ import annotations

from math import log, log1p

ACCESS_WEIGHT = 0.34
EDGE_WEIGHT = 0.33
RECENCY_WEIGHT = 0.33
ACCESS_REFERENCE = 50
"""Accesses that count as much as any number can; the scale below is logarithmic."""
EDGE_REFERENCE = 20
HALF_LIFE_DAYS = 14.0
WORTH_STORING = 0.01
"""A smaller change is not written: it would be a line in git that nobody reads."""


def importance(access_count: int, edges: int, days_since_access: float) -> float:
    """0 (never used, unconnected, long ago) to 1, rounded to 4 places.

    `edges` counts both directions; `days_since_access` counts from creation when there was no access, and a date in
    the future (a clock that was wrong) counts as now.
    """
    access = min(1.0, log1p(max(0, access_count)) / log(1 + ACCESS_REFERENCE))
    connected = min(1.0, log1p(max(0, edges)) / log(1 + EDGE_REFERENCE))
    recency: float = 2.0 ** (-max(0.0, days_since_access) / HALF_LIFE_DAYS)
    total = ACCESS_WEIGHT * access + EDGE_WEIGHT * connected + RECENCY_WEIGHT * recency
    return round(total / (ACCESS_WEIGHT + EDGE_WEIGHT + RECENCY_WEIGHT), 4)
