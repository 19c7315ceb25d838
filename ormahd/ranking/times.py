"""Time in a question: "what did we decide last week" names a period (English phrases; REFERENCE 4.3)."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta

from msgspec import Struct

DAY = timedelta(days=1)
_UNITS = {"hour": timedelta(hours=1), "day": DAY, "week": 7 * DAY, "month": 30 * DAY}


class Period(Struct, frozen=True):
    """A stretch of time that a question names; `rest` is the question without the phrase."""

    after: datetime
    before: datetime
    phrase: str
    rest: str


Bounds = Callable[[re.Match[str]], tuple[timedelta, timedelta]]
"""How long ago the period that a match names began and ended."""


def _span(start: timedelta, end: timedelta = timedelta()) -> Bounds:
    return lambda _: (start, end)


def _counted(match: re.Match[str]) -> tuple[timedelta, timedelta]:
    """ "last 3 days" ends now; "last 2 weeks" is the same here (the original took the two weeks before those)."""
    number = min(int(match["n"]), 1000)
    return number * _UNITS[match["unit"].lower()], timedelta()


_PHRASES: tuple[tuple[re.Pattern[str], Bounds], ...] = tuple(
    (re.compile(rf"\b(?:(?:from|since|in|of|over|during|within)\s+)?(?:the\s+)?{pattern}\b", re.IGNORECASE), bounds)
    for pattern, bounds in (
        (r"(?:last|past|previous)\s+(?P<n>\d{1,4})\s+(?P<unit>hour|day|week|month)s?", _counted),
        (r"day\s+before\s+yesterday", _span(3 * DAY, 2 * DAY)),
        (r"yesterday", _span(2 * DAY, DAY)),
        (r"today", _span(DAY)),
        (r"this\s+week", _span(7 * DAY)),
        (r"(?:last|past|previous)\s+week", _span(14 * DAY, 7 * DAY)),
        (r"this\s+month", _span(30 * DAY)),
        (r"(?:last|past|previous)\s+month", _span(60 * DAY, 30 * DAY)),
        (r"(?:recently|lately)", _span(3 * DAY)),
    )
)


def find_period(text: str, now: datetime) -> Period | None:
    """The first period that `text` names, as of `now`; None when it names none."""
    found = [(match.start(), match, bounds) for pattern, bounds in _PHRASES if (match := pattern.search(text))]
    if not found:
        return None
    _, match, bounds = min(found, key=lambda one: one[0])
    start, end = bounds(match)
    rest = " ".join((text[: match.start()] + " " + text[match.end() :]).split())
    return Period(now - start, now - end, " ".join(match.group().split()), rest)
