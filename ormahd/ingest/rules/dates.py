"""Replaces relative dates in a sentence by absolute ones: "tomorrow" becomes "on 2026-11-28". Pure functions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import date, timedelta
from functools import cache
from typing import Final, TypeAlias

from msgspec import Struct

_DAYS: Final = {"d": 1, "w": 7}
_MONTHS: Final = {"m": 1, "y": 12}


class DateWords(Struct, frozen=True):
    """The words for dates in one language. Each field is a list of phrases separated by spaces; `_` stands for a
    space inside a phrase."""

    days: str
    """Entries `phrase=n`: the phrase means the day n days from today."""
    spans: str
    """Entries such as `phrase=w+1`: a week (`w`), month (`m`) or year (`y`), counted from the present one."""
    weekdays: str
    """The names of the days from Monday on; `|` separates several names of one day."""
    weekday: str
    """Phrases with `{day}` for the name of a day. `=+`: the next such day; `=-`: the last such day; `=~`: the next such
    day, or every such day if the sentence is about a habit."""
    counted: str
    """Phrases with `{n}` for a number and `{unit}`. `=+`: so long after today; `=-`: so long before today."""
    units: str
    """Entries `word=d`, `=w`, `=m` or `=y`: words for days, weeks, months and years."""
    numbers: str
    """The words for the numbers from one to twelve; `|` separates several words for one number."""
    lead: str
    """Words before a date that are kept, such as "by". Before a date without such a word, the form `on`, `week` or
    `within` is used, in which `{}` stands for the date."""
    on: str
    week: str
    within: str
    months: str
    """The names of the months from January on."""
    vague: str
    """Phrases whose meaning depends on the day but cannot be made absolute, such as dates without a year. `{month}`
    and `{date}` stand for the name of a month and a day of a month. The text `said`, with the date, is added to the
    sentence."""
    said: str


_DateMeaning: TypeAlias = Callable[[re.Match[str], date], tuple[str, str] | None]


class _DateForm(Struct, frozen=True):
    """A pattern for relative dates. `means` returns, for a match, (ISO date, name of the field of `DateWords` by
    which it is written: `on`, `week` or `within`), or None if the date is unclear. `recurs`: whether the phrase may
    mean every such day, as "on Friday" does."""

    pattern: re.Pattern[str]
    means: _DateMeaning
    recurs: bool = False


def absolute(text: str, words: DateWords, day: date, *, recurring: bool) -> str:
    """Return `text` with relative dates made absolute. `day`: the day on which the text was said. `recurring`: leave
    phrases such as "on Friday" as they are, because they mean every Friday."""
    vague = False
    for found in _patterns(words):
        if recurring and found.recurs:
            continue

        def told(match: re.Match[str], found: _DateForm = found) -> str:
            nonlocal vague
            meant = found.means(match, day)
            if meant is None:
                vague = True
                return match[0]
            iso, form = meant
            before = match["lead"] or ""
            return before + ({"week": words.week}.get(form, "{}") if before else getattr(words, form)).format(iso)

        text = found.pattern.sub(told, text)
    if vague or _vague(words).search(text):
        end = "." if text.endswith(".") else ""
        text = f"{text.removesuffix('.')} {words.said.format(day.isoformat())}{end}"
    return text


@cache
def _patterns(words: DateWords) -> tuple[_DateForm, ...]:
    return tuple(_compiled(words))


def _compiled(words: DateWords) -> Iterator[_DateForm]:
    days = {key: int(value) for key, value in _pairs(words.days)}
    spans = dict(_pairs(words.spans))
    weekdays = {name: at for at, names in enumerate(words.weekdays.split()) for name in names.split("|")}
    units = dict(_pairs(words.units))
    numbers = {name: at + 1 for at, names in enumerate(words.numbers.split()) for name in names.split("|")}

    def by_count(sign: int) -> _DateMeaning:
        def meant(match: re.Match[str], day: date) -> tuple[str, str] | None:
            said = match["n"].lower()
            return _shifted(day, units[match["unit"].lower()], sign * (numbers[said] if said in numbers else int(said)))

        return meant

    def by_weekday(sign: str) -> _DateMeaning:
        return lambda match, day: _weekday(day, weekdays[match["day"].lower()], sign)

    for key, sign in _pairs(words.counted):
        form = key.replace("{n}", rf"(?P<n>\d{{1,3}}|{_any(numbers)})").replace("{unit}", rf"(?P<unit>{_any(units)})")
        yield _DateForm(_pattern(form, words), by_count(int(f"{sign}1")))
    yield _DateForm(
        _pattern(rf"(?P<span>{_any(spans)})", words), lambda match, day: _span(day, spans[_said(match["span"])])
    )
    yield _DateForm(
        _pattern(rf"(?P<word>{_any(days)})", words),
        lambda match, day: ((day + timedelta(days[_said(match["word"])])).isoformat(), "on"),
    )
    for key, sign in _pairs(words.weekday):
        form = key.replace("{day}", rf"(?P<day>{_any(weekdays)})")
        yield _DateForm(_pattern(form, words), by_weekday(sign), recurs=sign == "~")


def _weekday(day: date, weekday: int, sign: str) -> tuple[str, str] | None:
    ahead = (weekday - day.weekday()) % 7
    if sign == "+" and 0 < ahead < 7 - day.weekday():
        return None  # "next Friday", said on a Tuesday, may mean that of this week or that of the next
    if sign == "-":
        return (day - timedelta((day.weekday() - weekday) % 7 or 7)).isoformat(), "on"
    return (day + timedelta(ahead or 7)).isoformat(), "on"


def _span(day: date, meant: str) -> tuple[str, str] | None:
    unit, count = meant[0], int(meant[1:])
    if unit == "w":
        return (day - timedelta(day.weekday()) + timedelta(7 * count)).isoformat(), "week"
    return _shifted(day, unit, count)


def _shifted(day: date, unit: str, count: int) -> tuple[str, str] | None:
    """Return (ISO text, `on` or `within`) of the date that is `count` units after `day`. The unit is `d`, `w`, `m` or
    `y`; for months and years, the text has no day. None if the date is outside the calendar."""
    try:
        if unit in _DAYS:
            return (day + timedelta(_DAYS[unit] * count)).isoformat(), "on"
        months = day.year * 12 + day.month - 1 + _MONTHS[unit] * count
        first = date(months // 12, months % 12 + 1, 1)
    except (ValueError, OverflowError):
        return None
    return (f"{first.year:04}" if unit == "y" else f"{first.year:04}-{first.month:02}"), "within"


def _pattern(form: str, words: DateWords) -> re.Pattern[str]:
    lead = _any(word.replace("_", " ") for word in words.lead.split())
    first, _, rest = form.replace("_", " ").partition(" ")
    if first in words.lead.split():  # a form such as "by {day}" brings its own word, which is kept
        return re.compile(rf"(?<![\w'-])(?P<lead>{first}\s){rest}(?![\w'-])", re.IGNORECASE)
    return re.compile(rf"(?<![\w'-])(?P<lead>(?:{lead})\s)?{form.replace('_', ' ')}(?![\w'-])", re.IGNORECASE)


@cache
def _vague(words: DateWords) -> re.Pattern[str]:
    month, date_ = f"(?:{_any(iter(words.months.split()))})", r"\d{1,2}(?:st|nd|rd|th|er|\.)?"
    phrases = "|".join(
        re.escape(one).replace("_", r"\s").replace(r"\{month\}", month).replace(r"\{date\}", date_)
        for one in words.vague.split()
    )
    return re.compile(rf"(?<![\w'-])(?:{phrases})(?![\w'-])(?!,?\s(?:de\s)?\d{{4}})", re.IGNORECASE)


def _pairs(text: str) -> list[tuple[str, str]]:
    return [(key.replace("_", " "), value) for key, _, value in (part.rpartition("=") for part in text.split())]


def _said(text: str) -> str:
    return " ".join(text.lower().replace("’", "'").split())


def _any(listed: Mapping[str, object] | Iterator[str]) -> str:
    return "|".join(map(re.escape, sorted(listed, key=len, reverse=True)))
