"""Dates and times as people, editors and plug-ins write them, in properties and in file names."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from functools import lru_cache
from typing import Any

_TIME = re.compile(
    r"(\d{4}-\d{2}-\d{2})(?:[Tt]|[ \t]+)(\d{1,2}:\d{2}(?::\d{2}(?:\.\d*)?)?)[ \t]*(Z|z|[-+]\d{1,2}(?::?\d{2})?)?"
)
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_DIGITS = {8: "%Y%m%d", 12: "%Y%m%d%H%M", 14: "%Y%m%d%H%M%S"}
"""What a number of so many digits is, as the unique notes of Zettelkasten plug-ins have it."""
_EPOCHS = {10: 1, 13: 1000}
"""Seconds and milliseconds since 1970, by their digits."""
_YEAR = re.compile(r"(?<!\d)(?:1[89]|20|21)\d\d")
_YEAR_FIRST = re.compile(r"\d{4}[-/. ]")
_DOTTED = re.compile(r"\b\d{1,2}\.[ ]?(?:\d{1,2}\.|[^\W\d])")
_ASIAN = re.compile(r"(\d{4})年(\d{1,2})月(\d{1,2})日")
_BRACKETED = re.compile(r"\([^()]*\)$")
_LONGEST = 60
"""Characters; a longer text is prose."""
_NAMED = re.compile(r"(\d{4})[-._](\d{2})[-._](\d{2})(?![\d])|(\d{14}|\d{12}|\d{8})(?!\d)")

_MONTHS = (
    ("jan", "january", "jänner", "januar", "janvier", "janv", "enero", "ene", "gennaio", "januari", "janeiro"),
    ("feb", "february", "februar", "feber", "février", "févr", "fev", "febrero", "febbraio", "februari", "fevereiro"),
    ("mar", "march", "märz", "mär", "mrz", "mars", "marzo", "maart", "março"),
    ("apr", "april", "avril", "avr", "abril", "abr", "aprile"),
    ("may", "mai", "mayo", "maggio", "mei", "maio"),
    ("jun", "june", "juni", "juin", "junio", "giugno", "junho"),
    ("jul", "july", "juli", "juillet", "juil", "julio", "luglio", "julho"),
    ("aug", "august", "août", "agosto", "ago", "augustus", "augusti"),
    ("sep", "sept", "september", "septembre", "septiembre", "settembre", "setembro"),
    ("oct", "october", "oktober", "okt", "octobre", "octubre", "ottobre", "outubro"),
    ("nov", "november", "novembre", "noviembre", "novembro"),
    ("dec", "december", "dezember", "dez", "décembre", "déc", "diciembre", "dic", "dicembre", "dezembro"),
)
_WEEKDAYS = (
    ("mon", "monday", "montag", "mo", "lundi", "lun", "lunes", "lunedì", "maandag", "måndag"),
    ("tue", "tuesday", "tues", "dienstag", "di", "mardi", "martes", "martedì", "dinsdag", "tisdag"),
    ("wed", "wednesday", "mittwoch", "mi", "mercredi", "mer", "miércoles", "mercoledì", "woensdag", "onsdag"),
    ("thu", "thursday", "thurs", "donnerstag", "jeudi", "jeu", "jueves", "giovedì", "donderdag", "torsdag"),
    ("fri", "friday", "freitag", "fr", "vendredi", "ven", "viernes", "venerdì", "vrijdag", "fredag"),
    ("sat", "saturday", "samstag", "sa", "sonnabend", "samedi", "sam", "sábado", "sabato", "zaterdag", "lördag"),
    ("sun", "sunday", "sonntag", "so", "dimanche", "dim", "domingo", "domenica", "zondag", "söndag"),
)
_HOURS = {
    "UTC": 0, "GMT": 0, "Z": 0, "WET": 0, "BST": 1, "WEST": 1, "CET": 1, "MEZ": 1, "CEST": 2, "MESZ": 2, "EET": 2, "EEST": 3, "MSK": 3,
    "EST": -5, "EDT": -4, "CST": -6, "CDT": -5, "MST": -7, "MDT": -6, "PST": -8, "PDT": -7, "JST": 9, "KST": 9, "AEST": 10, "AEDT": 11,
}  # fmt: skip
"""Zones by the abbreviations that stand for one zone only."""


def read_time(text: str) -> datetime:
    """A date or time as people and editors write it; without a zone it is UTC.

    Raises ValueError for what is none, and for what could be two days (`03/04/2024`).
    """
    text = text.strip().removeprefix("[[").removesuffix("]]")
    if _DAY.fullmatch(text):
        return datetime.fromisoformat(text).replace(tzinfo=UTC)
    found = _TIME.fullmatch(text)
    return _freely(text) if found is None else _plain(text, *found.groups())


def _plain(text: str, day: str, clock: str, zone: str | None) -> datetime:
    """The form that we write, and its neighbours."""
    if clock[1] == ":":
        clock = f"0{clock}"
    clock = clock.removesuffix(".")
    if zone is None or zone in "Zz":
        zone = "+00:00"
    elif len(zone) < 5:
        zone = f"{zone[0]}{zone[1:].zfill(2)}:00"
    try:
        return datetime.fromisoformat(f"{day}T{clock}{zone}").astimezone(UTC)
    except OverflowError as exc:
        raise ValueError(text) from exc


def _freely(text: str) -> datetime:
    """Whatever says day, month and year so that there is one way to read it."""
    if text.isascii() and text.isdigit():
        return _number(text)
    if len(text) > _LONGEST:
        raise ValueError(text)
    text = _ASIAN.sub(r"\1-\2-\3", text)
    if not _YEAR.search(text):
        raise ValueError(text)
    # JavaScript's Date: `Fri Nov 27 2026 01:05:12 GMT+0100 (CET)`; a parser of POSIX zones takes that sign the other way round.
    text = (
        _BRACKETED.sub("", text)
        .strip()
        .replace("GMT+", "+")
        .replace("GMT-", "-")
        .replace("UTC+", "+")
        .replace("UTC-", "-")
    )
    day_first = (False,) if _YEAR_FIRST.match(text) else (True,) if _DOTTED.search(text) else (False, True)
    readings = {_parsed(text, day, at) for day in day_first for at in (datetime(2001, 1, 1), datetime(2002, 2, 2))}  # noqa: DTZ001
    if len(readings) != 1:  # a part is missing, or day and month may be either
        raise ValueError(text)
    return readings.pop()


def _number(text: str) -> datetime:
    form = _DIGITS.get(len(text))
    if form is not None:
        return datetime.strptime(text, form).replace(tzinfo=UTC)
    if len(text) not in _EPOCHS:
        raise ValueError(text)
    return datetime.fromtimestamp(int(text) / _EPOCHS[len(text)], UTC)


def _parsed(text: str, day_first: bool, otherwise: datetime) -> datetime:
    """`text` with the parts of `otherwise` where it has none. Raises ValueError."""
    parser, info = _parser()
    try:
        found: datetime = parser.parse(text, parserinfo=info, default=otherwise, dayfirst=day_first, tzinfos=_zone)
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError, TypeError, IndexError, ArithmeticError) as exc:
        raise ValueError(text) from exc


@lru_cache(maxsize=1)
def _parser() -> tuple[Any, Any]:
    """dateutil with the names of months and days in several languages; loaded by the first note that needs it."""
    from dateutil import parser

    class Names(parser.parserinfo):  # type: ignore[misc]
        MONTHS = _MONTHS
        WEEKDAYS = _WEEKDAYS
        JUMP = (
            *parser.parserinfo.JUMP,
            "de",
            "del",
            "den",
            "der",
            "le",
            "el",
            "il",
            "um",
            "uhr",
            "à",
            "º",
            "°",
            "er",
            "ième",
        )

    return parser, Names()


def _zone(name: str | None, seconds: int | None) -> timezone | None:
    if seconds is None and name is not None:
        hours = _HOURS.get(name)
        return None if hours is None else timezone(timedelta(hours=hours))
    return None if seconds is None else timezone(timedelta(seconds=seconds))


def named_time(name: str) -> datetime | None:
    """The date that a file's name begins with, as daily and unique notes have it (`2024-05-01 Standup`, `202405011230`)."""
    found = _NAMED.match(name)
    if found is None:
        return None
    try:
        year, month, day, digits = found.groups()
        when = _number(digits) if digits else datetime(int(year), int(month), int(day), tzinfo=UTC)
    except ValueError:
        return None
    return when if 1900 <= when.year < 2100 else None
