"""Active days: on which days something was asked of the memory, a line each in `.ormah/active_days.jsonl`.

    {"id": "2026-11-21"}

A day is one of UTC, so that machines agree. The files of two machines merge as sets of lines. What was not used while nobody asked
anything has not been passed over: such days hardly count as unused. Pure.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from typing import Final

from msgspec import Struct

FILE: Final = ".ormah/active_days.jsonl"
"""Where it is, relative to the vault's root."""
_DAY: Final = timedelta(days=1)
_HALVINGS: Final = 60
"""Steps of the search in `ActiveDays.back`: of a thousand years nothing is left."""


class ActiveDays(Struct, frozen=True):
    """Time as memories count it. `ordinals`: the days on which something was asked, ascending (`date.toordinal`). `idle_share`:
    what any other day counts, 0 to 1."""

    ordinals: tuple[int, ...]
    idle_share: float

    @classmethod
    def of(cls, days: Iterable[date], idle_share: float) -> ActiveDays:
        return cls(tuple(sorted({day.toordinal() for day in days})), idle_share)

    def between(self, since: datetime, now: datetime) -> float:
        """Days from `since` to `now`, each day with what it counts. Negative never."""
        if now <= since:
            return 0.0
        active = self._until(now) - self._until(since)
        return active + self.idle_share * ((now - since) / _DAY - active)

    def back(self, now: datetime, days: float) -> datetime:
        """The latest time from which until `now` so many days have counted; the beginning of time where it never were that many."""
        first = datetime.min.replace(tzinfo=UTC)
        if self.between(first, now) < days:
            return first
        low, high = first, now
        for _ in range(_HALVINGS):
            middle = low + (high - low) / 2
            if self.between(middle, now) >= days:
                low = middle
            else:
                high = middle
        return low

    def _until(self, time: datetime) -> float:
        """Active days before `time`; the one it lies in by the part that is over."""
        utc = time.astimezone(UTC)
        today = utc.date().toordinal()
        at = bisect_left(self.ordinals, today)
        if at == len(self.ordinals) or self.ordinals[at] != today:
            return float(at)
        return at + (utc - datetime.combine(utc.date(), datetime.min.time(), UTC)) / _DAY


def read(data: bytes) -> set[date]:
    """The days of a file. A line that holds none is passed over."""
    return {day for line in data.splitlines() if (day := _day(line)) is not None}


def write(data: bytes, days: Iterable[date]) -> bytes:
    """The file with these days added, in order. What cannot be read stays, at the end; a file that has them stays as it is."""
    found, new = read(data), set(days)
    if new <= found:
        return data
    foreign = [line for line in data.splitlines() if line.strip() and _day(line) is None]
    lines = [json.dumps({"id": day.isoformat()}).encode() for day in sorted(found | new)]
    return b"".join(line + b"\n" for line in [*lines, *foreign])


def _day(line: bytes) -> date | None:
    try:
        row = json.loads(line)
        return date.fromisoformat(row["id"])
    except (ValueError, RecursionError, KeyError, TypeError):
        return None
