"""Replaces relative dates in a sentence by absolute ones: "tomorrow" becomes "on 2026-11-28". Pure functions.

The words of a language stand in the table `dates` of its file. Its entries are lists of phrases separated by spaces;
`_` stands for a space, `|` separates names for the same thing. `days`: `phrase=n`, n days from today. `spans`:
`phrase=w+1`, a week (`w`), month (`m`) or year (`y`) counted from the present one. `weekday`: phrases with `{day}`;
`=+`: the next such day, `=-`: the last, `=~`: the next, or every such day in a rule. `counted`: phrases with `{n}` and
`{unit}`, `=+` after today, `=-` before. `lead`: words before a date that are kept; without one the form `on`, `week` or
`within` is used. `vague`: phrases that depend on the day but have no date; the text `said` is then added.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import date, timedelta

Words = Mapping[str, str]


def absolute(text: str, words: Words, day: date, *, recurring: bool) -> str:
    """Return `text` with relative dates made absolute. `words`: the table `dates` of its language. `day`: the day on
    which the text was said. `recurring`: leave phrases such as "on Friday" as they are, because they mean every
    Friday."""
    vague = False
    for pattern, sign in _patterns(words):
        for match in reversed(list(pattern.finditer(text)) if not (recurring and sign == "~") else []):
            meant = _meaning({key: part.lower() for key, part in match.groupdict("").items()}, sign, words, day)
            vague = vague or meant is None
            if meant is not None:
                form = "{}" if match["lead"] and meant[1] != "week" else words[meant[1]]
                text = f"{text[: match.start()]}{match['lead'] or ''}{form.format(meant[0])}{text[match.end() :]}"
    phrases = _any_of(phrase.replace("_", " ") for phrase in words["vague"].split())
    phrases = phrases.replace(r"\{month\}", f"(?:{_any_of(words['months'].split())})")
    phrases = phrases.replace(r"\{date\}", r"\d{1,2}(?:st|nd|rd|th|er|\.)?")
    dateless = rf"(?<![\w'-])(?:{phrases})(?![\w'-])(?!,?\s(?:de\s)?\d{{4}})"
    if vague or re.search(dateless, text, re.IGNORECASE):
        text = f"{text.removesuffix('.')} {words['said'].format(day.isoformat())}{'.' if text.endswith('.') else ''}"
    return text


def _meaning(named: Words, sign: str, words: Words, day: date) -> tuple[str, str] | None:
    """Return (ISO date, name of its form in `words`) of a relative date; None if the date is unclear. `named`: the
    groups of a match of `_patterns`; `sign`: that pattern's; `day`: the day on which it was said."""
    if "word" in named:
        return _shifted(day, "d", int(dict(_pairs(words["days"]))[named["word"]]))
    if "span" in named:
        # Such as `w+1`: the unit, then the number of units from the present one.
        unit, count = (meant := dict(_pairs(words["spans"]))[named["span"]])[0], int(meant[1:])
        return _shifted(day - timedelta(day.weekday()) if unit == "w" else day, unit, count)
    if "n" in named:
        # A number in words, whose position in the list is one less, or in digits.
        number = _positions(words["numbers"]).get(named["n"], -1) + 1 or int(named["n"])
        iso, form = _shifted(day, dict(_pairs(words["units"]))[named["unit"]], int(f"{sign}{number}"))
        return iso, "on" if form == "week" else form
    days = (_positions(words["weekdays"])[named["day"]] - day.weekday()) % 7
    if sign == "+" and 0 < days < 7 - day.weekday():
        return None  # "next Friday", said on a Tuesday, may mean that of this week or that of the next
    return _shifted(day, "d", days - 7 if sign == "-" else days or 7)


def _shifted(day: date, unit: str, count: int) -> tuple[str, str]:
    """Return (the ISO date `count` units after `day`, name of its form). `unit`: a day (`d`), week (`w`), month (`m`)
    or year (`y`). A month is given without a day, and a year alone."""
    if unit in "dw":
        return (day + timedelta(count * (7 if unit == "w" else 1))).isoformat(), "week" if unit == "w" else "on"
    months = day.year * 12 + day.month - 1 + count * (12 if unit == "y" else 1)
    return date(months // 12, months % 12 + 1, 1).isoformat()[: 4 if unit == "y" else 7], "within"


def _patterns(words: Words) -> Iterator[tuple[re.Pattern[str], str]]:
    """Yield (pattern, sign) of all forms of relative dates. The sign is what follows `=` in the entry, such as `+`; ""
    for `days` and `spans`."""
    leads = words["lead"].replace("_", " ").split()
    groups = {
        "{n}": rf"(?P<n>\d{{1,3}}|{_any_of(_positions(words['numbers']))})",
        "{unit}": f"(?P<unit>{_any_of(dict(_pairs(words['units'])))})",
        "{day}": f"(?P<day>{_any_of(_positions(words['weekdays']))})",
    }
    spans, days = (f"{_any_of(dict(_pairs(words[key])))})" for key in ("spans", "days"))
    for form, sign in (
        *_pairs(words["counted"]),
        (f"(?P<span>{spans}", ""),
        (f"(?P<word>{days}", ""),
        *_pairs(words["weekday"]),
    ):
        first, _, rest = form.partition(" ")
        lead = f"(?P<lead>{first} ){rest}" if first in leads else rf"(?P<lead>(?:{_any_of(leads)}) )?{form}"
        for name, group in groups.items():
            lead = lead.replace(name, group)
        yield re.compile(rf"(?<![\w'-]){lead}(?![\w'-])", re.IGNORECASE), sign


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    """Yield (phrase, value) of the entries `phrase=value` of a list."""
    return ((key.replace("_", " "), value) for key, _, value in (part.rpartition("=") for part in text.split()))


def _positions(text: str) -> dict[str, int]:
    """Return {name: position in the list}, from 0. Names for the same thing have the same position."""
    return {name.replace("_", " "): at for at, names in enumerate(text.split()) for name in names.split("|")}


def _any_of(listed: Iterable[str]) -> str:
    """Return a regular expression that matches each of these phrases, the longest first."""
    return "|".join(map(re.escape, sorted(listed, key=len, reverse=True))).replace(r"\ ", " ")
