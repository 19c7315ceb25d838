"""How closely scans follow each other, so that whatever happens in the vault, following it takes a fifth of a core at most (more only while a
scan now and then takes longer than those before and after it)."""

from __future__ import annotations

import math

GAP_S = (0.2, 2.0)
"""Seconds from the beginning of a scan to that of the next: at least, and at most. In between it is `TIMES` what it is likely to
take."""
TIMES = 4


class Gaps:
    """A scan is likely to take what the shorter of the last two of its kind took: a few paths take milliseconds and everything in a
    large vault half a second, and an edit must not wait for two seconds because everything was just looked at, nor for one because the
    scan before it found nothing ready: the first after a start reads the folder that HEAD has, .3 s at 100,000 notes."""

    def __init__(self) -> None:
        self._began = -math.inf
        self._took = {False: (0.0, 0.0), True: (0.0, 0.0)}

    def may(self, everything: bool) -> float:
        """When the next scan of some paths, or of everything, may begin."""
        return self._began + max(GAP_S[0], min(GAP_S[1], TIMES * min(self._took[everything])))

    def begin(self, now: float) -> None:
        self._began = now

    def end(self, now: float, everything: bool) -> None:
        self._took[everything] = self._took[everything][1], now - self._began
