"""Find the period that a question names, such as "last week", in five languages. The words stand in `times.toml`.

Periods follow the calendar in local time. "yesterday" is the day before from midnight to midnight, "last week" the
week before from Monday to Sunday, "in March" the latest March, "two weeks ago" the week of that day. "the last three
days" are three whole days and today so far. "on Monday" and "November 5th" are the latest that began. Phrases that
are not understood, lie in the future or recur ("every Monday") name no period.

Names of months, weekdays, units and days ("yesterday", "前天") come from dateparser, which takes them from CLDR.
dateparser's own search is not used: it takes "may", "sat" and "second" for times, and is slow.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta, tzinfo
from functools import cache
from importlib import import_module
from typing import Any, Final

from msgspec import Struct

from ormahd.text.tables import tables
from ormahd.text.words import words

DAY: Final = timedelta(days=1)
RECENT: Final = timedelta(days=3)
"""The word "recently" means the period from this long before the start of today until now."""
MAX_SEARCHED: Final = 2_000
"""Number of characters of a text that are searched: half from its beginning, and half from its end, because a
long prompt often ends with its question."""
MAX_UNITS: Final = 1_000
"""Maximum number of units, as in "1000 days ago"; larger numbers are reduced to it."""
_HOURS: Final[Mapping[str, tuple[int, int]]] = tables("times.toml")["hours"]
"""Part of the day -> its first and last hour; "night" ends on the next day."""
_NUMBERED: Final = re.compile(r"(?<!\d)(?:19|20)\d\d(?!\d)|\d(?:st|nd|rd|th|ten)\b|\d\.\d{1,2}\.(?!\d)")
_WORD: Final = re.compile(r"[^\W_]+")
_HAN_TIMES: Final = re.compile("[昨今前去上本这周星礼月年近]")
"""Every Chinese phrase contains one of these characters."""
_CODE: Final = re.compile(r"```.*?(?:```|$)|`[^`\n]*`", re.DOTALL)
_QUOTES: Final = "\"'“”‘’«»„「」『』《》*_"
_FRENCH: Final = frozenset(tables("times.toml")["french"].split())
"""Common French words. "hier" means "yesterday" only in a text with one of them; otherwise it is the German or Dutch
word for "here"."""
_EPOCH: Final = datetime(1970, 1, 2)  # noqa: DTZ001 - on the person's wall


_HAN: Final = str.maketrans("週這個兩禮後號過來時間鐘從", "周这个两礼后号过来时间钟从")
"""Traditional characters used in times, mapped to the simplified ones that the patterns contain."""
_MARKS: Final = str.maketrans(
    {"’": "'", "‘": "'", "ʼ": "'", "\u00a0": " ", "\u3000": " ", "‑": "-", "‐": "-", "\n": " ", "\t": " "}
)
_OTHERS: Final = frozenset([*map(chr, _HAN), *"\u3000０１２３４５６７８９"])
"""Characters from U+2E80 on, such as Chinese ones, that `flat` changes. It keeps all others from there on."""
_LANGUAGES: Final = ("en", "de", "es", "fr", "zh")
_UNITS: Final = ("year", "month", "week", "day", "hour", "minute")
_MONTHS: Final = (
    *("january", "february", "march", "april", "may", "june", "july", "august"),
    *("september", "october", "november", "december"),
)
_WEEKDAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_DIGITS: Final = {character: number for number, character in enumerate("零一二三四五六七八九")} | {"两": 2, "〇": 0}


class Period(Struct, frozen=True):
    """A period that a question names, from `after` to `before` (UTC, both included).

    `phrase`: the words that name it. `rest`: the question without these words.
    """

    after: datetime
    before: datetime
    phrase: str
    rest: str


class Pattern(Struct, frozen=True):
    """One way to name a time.

    `kind`: says how `_meant_period` interprets the groups of the pattern `source`. `shift`: a number for
    that, such as how many units before the current one the period lies.
    """

    kind: str
    source: str
    shift: int
    needs: frozenset[str] | None
    """The pattern can only match a text with one of these words. None: not known, because the pattern contains a
    number, or is Chinese, which is not split into words."""

    @property
    def regex(self) -> re.Pattern[str]:
        """The pattern, compiled at first use: most prompts need none."""
        return _regex(self.source)


class TimeLanguage(Struct, frozen=True):
    """The words and patterns for times in one language. Each mapping is word -> number or name, and words are in
    the form that `flat` returns."""

    language: str
    patterns: tuple[Pattern, ...]
    numbers: Mapping[str, int]
    units: Mapping[str, str]
    months: Mapping[str, int]
    weekdays: Mapping[str, int]
    days: Mapping[str, int]
    """Word for a day -> how many days ago it is."""
    parts: Mapping[str, str]
    years: Mapping[str, int]
    """Phrase such as "last year" after a month or a date -> how many years ago."""
    directions: Mapping[str, re.Pattern[str]]
    """`since`, `after`, `before`, `until` -> pattern of the words before a time that give it this meaning."""
    lead: re.Pattern[str]
    """Words before a time that belong to the phrase, such as "in the"."""
    never_before: re.Pattern[str]
    """Words before a match that exclude it, because it then is no time of the past, such as "next" or "every"."""
    never_after: re.Pattern[str]
    """Words after a match that exclude it for the same reason."""
    tail: re.Pattern[str]
    """Words after a time that make it the beginning or the end of a period (groups `since`, `after`, `before`,
    `until`)."""
    ranges: re.Pattern[str]
    """Words between the two ends of a range."""
    opens: re.Pattern[str]
    """Words before the first end of a range."""


def flat(text: str) -> str:
    """Return `text` in lower case and without accents; each character keeps its position."""
    if text.isascii():
        return text.lower().translate(_MARKS)
    return "".join(
        _flat_character(character) if character < "\u2e80" or character in _OTHERS else character for character in text
    )


@cache
def _flat_character(character: str) -> str:
    """Return a character in the form that `flat` gives it: in lower case, without accent, Chinese signs simplified."""
    plain = unicodedata.normalize("NFKD", character.translate(_MARKS).translate(_HAN))
    plain = plain[:1] if len(plain) > 1 and all(unicodedata.combining(mark) for mark in plain[1:]) else plain
    lowered = plain.lower()
    return lowered if len(lowered) == 1 else character


def han_number(text: str) -> int | None:
    """Return the number that Chinese numerals (up to 99) spell, or None."""
    if len(text) == 1 and text in _DIGITS:
        return _DIGITS[text]
    tens, ten, ones = text.partition("十")
    if not ten or len(tens) > 1 or len(ones) > 1 or (tens + ones).strip("一二三四五六七八九两"):
        return None
    return 10 * _DIGITS.get(tens, 1) + _DIGITS.get(ones, 0)


Span = tuple[datetime, datetime]
"""Beginning and end in local time, the end excluded."""


class _Found(Struct, frozen=True):
    """A phrase that names a time. `start`, `end`: its position. `span`: the period that it means.

    `lead`: position of the words before it that belong to it, such as "in the"; `start` if there are none.
    """

    speech: TimeLanguage
    kind: str
    lead: int
    start: int
    end: int
    span: Span


def find_period(text: str, now: datetime, zone: tzinfo | None = None) -> Period | None:
    """Return the first period that `text` names; None if it names none, or one in the future.

    `now`: the present; `zone`: the person's time zone (None: this machine's).
    """
    # all phrases; code is replaced by characters that no pattern matches, so that positions are kept
    if len(text) > MAX_SEARCHED:
        text = f"{text[: MAX_SEARCHED // 2]}\n{text[-MAX_SEARCHED // 2 :]}"
    seen = _CODE.sub(lambda code: "\0" * len(code.group()), flat(text))
    local = now.astimezone(zone).replace(tzinfo=None)
    found = sorted(_matches(seen, local), key=lambda phrase: (phrase.lead, -phrase.end, phrase.start))
    if not found:
        return None

    # the first phrase: alone, or with a second one that is the end of its range
    first = found[0]
    start, end, (after, before) = first.start, first.end, first.span
    speech = first.speech
    later = (phrase for phrase in found if phrase.start >= end)
    second = next((phrase for phrase in later if speech.ranges.fullmatch(seen[end : phrase.start])), None)
    opened = _at_end(speech.opens, seen, start)
    if second is not None and second.span[0] >= after and (opened is not None or first.kind == second.kind):
        start, end, before = start if opened is None else opened, second.end, second.span[1]
    else:
        start, end, after, before = _with_direction(seen, first, local)
    if after >= before or after > local:
        return None

    # the period in UTC, and the text without its words
    rest = " ".join((text[:start] + " " + text[end:]).split())
    last = _to_utc(before, zone) - timedelta(microseconds=1)
    phrase = " ".join(text[start:end].split())
    return Period(after=_to_utc(after, zone), before=last, phrase=phrase, rest=rest)


def _to_utc(wall: datetime, zone: tzinfo | None) -> datetime:
    """Return a local time in UTC. An ambiguous local time means its first occurrence; a skipped one the time after the
    gap."""
    return (wall if zone is None else wall.replace(tzinfo=zone)).astimezone(UTC)


def _matches(seen: str, now: datetime) -> Iterator[_Found]:
    """Yield the phrases in `seen` that name a time of the past. `seen`: a text as `flat` returns it; `now`: in local
    time."""
    text_words = frozenset(_WORD.findall(seen))
    numbered, han = bool(_NUMBERED.search(seen)), bool(_HAN_TIMES.search(seen))
    for speech in load_languages():
        for pattern in speech.patterns:
            if speech.language == "zh":
                may_hold = han
            else:
                may_hold = numbered if pattern.needs is None else not text_words.isdisjoint(pattern.needs)
            if not may_hold:
                continue
            for match in pattern.regex.finditer(seen):
                span = _span(pattern, match, speech, now) if _is_past_time(seen, *match.span(), speech, match) else None
                if span is not None:
                    lead = _at_end(speech.lead, seen, match.start())
                    yield _Found(speech, pattern.kind, match.start() if lead is None else lead, *match.span(), span)


def _is_past_time(seen: str, start: int, end: int, speech: TimeLanguage, match: re.Match[str]) -> bool:
    """Return whether a match names a time of the past.

    It does not if it is quoted, if words around it exclude it ("next", "every"), or if it is "hier" in a text that is
    not French. `start`, `end`: the position of `match` in `seen`.
    """
    if seen[start - 1 : start] in _QUOTES and start and seen[end : end + 1] in _QUOTES and end < len(seen):
        return False
    if _at_end(speech.never_before, seen, start) is not None or speech.never_after.match(seen, end):
        return False
    if match.group() == "hier":
        text_words = words(seen)
        return len(text_words) < 3 or not _FRENCH.isdisjoint(text_words)
    return True


def _at_end(pattern: re.Pattern[str], seen: str, end: int) -> int | None:
    """Return the start of a match of `pattern` in `seen` that ends at `end`; None if there is none, or only an empty
    one."""
    begin = max(0, end - 40)
    match = pattern.search(seen[begin:end])
    return begin + match.start() if match is not None and match.group() else None


def _with_direction(seen: str, found: _Found, now: datetime) -> tuple[int, int, datetime, datetime]:
    """Return (start, end, after, before): a phrase with words such as "since" or "before" next to it, and the period it
    means.

    `start` and `end` are the position of the phrase with these words. If the period lies in the future, `after` equals
    `before`.
    """
    speech, start, end = found.speech, found.start, found.end
    after, before = found.span
    direction, direction_start = None, start
    head = seen[start:end].split(maxsplit=1)[0]
    for name, pattern in speech.directions.items():
        at = _at_end(pattern, seen, start)
        if at is not None:
            direction, direction_start = name, at
            break
        # the word may be part of the match, as in "since monday"; but "vor drei Tagen" means "three days ago", not "before"
        if found.kind not in {"ago", "span"} and pattern.match(head):
            direction = name
            break
    tail = speech.tail.match(seen, end)
    if tail is not None and found.kind != "ago":
        direction, end = tail.lastgroup, tail.end()
    if direction is not None and found.kind not in {"span", "recent"}:
        start = min(start, direction_start)
        if direction == "since":
            before = max(now, after)
        elif direction == "after":
            after, before = before, now
        elif direction == "before":
            after, before = _EPOCH, after
        elif found.kind == "weekday":
            return start, end, now, now  # "until Friday" lies in the future
        else:
            after = _EPOCH
    return min(start, found.lead), end, after, before


# ---------------------------------------------------------------- the meaning of a phrase in local time


def _span(pattern: Pattern, match: re.Match[str], speech: TimeLanguage, now: datetime) -> Span | None:
    """Return the period that a match of `pattern` means; None if it means none, or a date that does not exist."""
    named = {name: value for name, value in match.groupdict().items() if value is not None}
    for name in [name for name in named if name.endswith("2") and name.rstrip("2") not in named]:
        named[name.rstrip("2")] = named[name]  # the group of another alternative
    try:
        return _meant_period(pattern.kind, named, pattern.shift, speech, now)
    except (OverflowError, ValueError):
        return None  # "February 31st"


def _midnight(now: datetime) -> datetime:
    """Return the beginning of the day of `now`."""
    return now.replace(hour=0, minute=0, second=0, microsecond=0)


def _month(year: int, month: int) -> Span:
    """Return the period of a calendar month. `month`: from 1; numbers below 1 or above 12 count into other years."""
    month += 12 * year - 1
    first = datetime(month // 12, month % 12 + 1, 1)  # noqa: DTZ001 - on the person's wall
    return first, datetime((month + 1) // 12, (month + 1) % 12 + 1, 1)  # noqa: DTZ001


def _year(year: int) -> Span:
    """Return the period of a calendar year."""
    return datetime(year, 1, 1), datetime(year + 1, 1, 1)  # noqa: DTZ001


def _calendar_unit(unit: str, back: int, now: datetime) -> Span | None:
    """Return the period of a calendar unit that lies `back` units before the current one (0: the current one).

    An hour or minute is the time around the moment so long ago.
    """
    day = _midnight(now)
    monday = day - day.weekday() * DAY
    back = min(back, MAX_UNITS)
    if unit == "day":
        return day - back * DAY, day - (back - 1) * DAY
    if unit == "week":
        return monday - 7 * back * DAY, monday - 7 * (back - 1) * DAY
    if unit == "fortnight":
        return monday - 14 * back * DAY, monday - (14 * back - 7) * DAY
    if unit == "weekend":
        saturday = monday + 5 * DAY if day.weekday() >= 5 else monday - 2 * DAY
        back = back if day.weekday() >= 5 else max(back - 1, 0)
        return saturday - 7 * back * DAY, saturday - (7 * back - 2) * DAY
    if unit == "month":
        return _month(now.year, now.month - back)
    if unit == "quarter":
        first = 3 * ((now.month - 1) // 3) + 1 - 3 * back
        return _month(now.year, first)[0], _month(now.year, first + 2)[1]
    if unit == "year":
        return _year(now.year - back)
    width = timedelta(hours=1) if unit == "hour" else timedelta(minutes=10)
    moment = now - back * (timedelta(hours=1) if unit == "hour" else timedelta(minutes=1))
    return moment - width / 2, min(moment + width / 2, now)


def _unit_count(named: Mapping[str, str], speech: TimeLanguage) -> int:
    """Return the number of units that a phrase names; 3 if it names none ("the last days"), at most `MAX_UNITS`."""
    text = named.get("n")
    if text is None:
        return 3
    if text.isdecimal():
        return min(int(text), MAX_UNITS)
    known = speech.numbers.get(_single_spaced(text))
    return known if known is not None else han_number(text) or 1


def _last_units(number: int, unit: str, now: datetime) -> Span:
    """Return the period of the last `number` units until now. It begins at midnight if the unit is a day or longer."""
    if unit in {"hour", "minute"}:
        return now - number * timedelta(**{f"{unit}s": 1}), now + timedelta(microseconds=1)
    day = _midnight(now)
    if unit in {"month", "quarter", "year"}:
        months = number * {"month": 1, "quarter": 3, "year": 12}[unit]
        first, next_first = _month(now.year, now.month - months)
        begin = min(first + (day.day - 1) * DAY, next_first - DAY)
    else:
        begin = day - number * {"day": 1, "week": 7, "weekend": 7, "fortnight": 14}[unit] * DAY
    return begin, now + timedelta(microseconds=1)


def _day_part(day: datetime, part: str) -> Span:
    """Return the period of a part of the day that begins at `day`, such as "evening"."""
    first, last = _HOURS[part]
    return day + timedelta(hours=first), day + timedelta(hours=last)


def _latest_weekday(weekday: int, now: datetime) -> datetime:
    """Return the midnight at which the latest `weekday` (0: Monday) before today began."""
    day = _midnight(now)
    return day - ((day.weekday() - weekday - 1) % 7 + 1) * DAY


def _named_year(named: Mapping[str, str], speech: TimeLanguage, now: datetime) -> int | None:
    """Return the year that a phrase names, as a number or as "last year"; None if it names none."""
    if "year" in named:
        return int(named["year"])
    if "yearword" in named:
        return now.year - speech.years[_single_spaced(named["yearword"])]
    return None


def _day_of_month(named: Mapping[str, str]) -> int:
    """Return the day of the month that a phrase names, in digits or in Chinese; 0 if it cannot be read."""
    text = named["day"]
    return int(text) if text.isdecimal() else han_number(text) or 0


def _meant_period(kind: str, named: Mapping[str, str], shift: int, speech: TimeLanguage, now: datetime) -> Span | None:
    """Return the period that a match means; None if it names none. Raises ValueError or OverflowError for a date that
    does not exist.

    `kind`, `shift`: of its `Pattern`; `named`: its groups; `now`: the present in local time.
    """
    day = _midnight(now)
    unit = _single_spaced(named.get("unit", ""))
    month = speech.months.get(named.get("month", ""), 0)
    match kind:
        case "day":
            return _calendar_unit("day", speech.days[_single_spaced(named["word"])], now)
        case "part" if "weekday" in named:
            return _day_part(_latest_weekday(speech.weekdays[named["weekday"]], now), speech.parts[named["part"]])
        case "part":
            short = {"今": 0, "昨": 1, "前": 2}
            ago = short[named["short"]] if "short" in named else speech.days[_single_spaced(named["word"])]
            if not ago:
                return _today_part(named, shift, speech, now)
            return _day_part(day - ago * DAY, speech.parts[named["part"]])
        case "today":
            return _today_part(named, shift, speech, now)
        case "night":
            return _day_part(day - shift * DAY, "night")
        case "recent":
            return day - RECENT, now + timedelta(microseconds=1)
        case "unit":
            return _calendar_unit(speech.units[unit], shift, now)
        case "ago":
            return _calendar_unit(speech.units[unit], _unit_count(named, speech), now)
        case "span1":
            return _last_units(1, speech.units[unit], now)
        case "span":
            plural = "n" in named or speech.units[unit] in {"hour", "minute"} or unit not in _SINGULAR
            return _last_units(_unit_count(named, speech), speech.units[unit], now) if plural else None
        case "weekday":
            first = _latest_weekday(speech.weekdays[named["weekday"]], now)
            return first, first + DAY
        case "day_of_week":
            first = day + (speech.weekdays[named["weekday"]] - day.weekday() - 7 * shift) * DAY
            return first, first + DAY
        case "month":
            year = _named_year(named, speech, now)
            return _month(now.year - (month > now.month) if year is None else year, month)
        case "months":
            last = speech.months[named["month2"]]
            year = int(named["year"]) if "year" in named else now.year - (last > now.month)
            return _month(year - (month > last), month)[0], _month(year, last)[1]
        case "last_month":
            return _month(now.year - (month >= now.month), month)
        case "date":
            number, year = _day_of_month(named), _named_year(named, speech, now)
            if year is None:
                year = now.year - ((month, number) > (now.month, now.day))
                while (month, number) == (2, 29) and (year % 4 or (not year % 100 and year % 400)):
                    year -= 1
            return _one_day(year, month, number)
        case "monthday":
            number = _day_of_month(named)
            first = _month(now.year, now.month - (number > now.day))[0]
            return _one_day(first.year, first.month, number)
        case "iso":
            year, month = int(named["year"]), int(named["m"])
            return _one_day(year, month, int(named["day"])) if "day" in named else _month(year, month)
        case "numbers":
            # 5.11.2026 is a day in November. With slashes, 25/11/2026 is unambiguous; 5/11/2026 is not, so it is ignored.
            number, second = int(named["d"]), int(named["m"])
            if "year" not in named:  # "am 5.11."
                return _one_day(now.year - ((second, number) > (now.month, now.day)), second, number)
            if named["sep"] == "." or number > 12 or number == second:
                return _one_day(int(named["year"]), second, number)
            return _one_day(int(named["year"]), number, second) if second > 12 else None
        case _:  # year, years
            year = _named_year(named, speech, now)
            return None if year is None else _year(year)


def _today_part(named: Mapping[str, str], shift: int, speech: TimeLanguage, now: datetime) -> Span | None:
    """Return the period of a part of today, such as "this evening"; None if an evening or night has not begun yet.

    If `shift` is not 0, a night that has not begun means the past night ("cette nuit", "heute Nacht").
    """
    part = speech.parts[named["part"]] if "part" in named else "night"
    day = _midnight(now)
    if part in {"evening", "night"} and now.hour < _HOURS[part][0]:
        return _day_part(day - DAY, part) if part == "night" and shift else None
    return _day_part(day, part)


_SINGULAR: Final = frozenset(tables("times.toml")["singular"].split(","))
"""Words that mean one unit when used without a number. The other words, which are plural, then mean "the last few"."""


def _one_day(year: int, month: int, day: int) -> Span:
    """Return the period of one day. Raises ValueError if there is no such date."""
    first = datetime(year, month, day)  # noqa: DTZ001 - on the person's wall
    return first, first + DAY


def _single_spaced(text: str) -> str:
    """Return `text` with single spaces between its words, as in the keys of `TimeLanguage`."""
    return re.sub(r"\s+", " ", text)


# ---------------------------------------------------------------- words and patterns


@cache
def load_languages() -> tuple[TimeLanguage, ...]:
    """Return the words and patterns of all five languages. The first call loads dateparser's data. Thread-safe."""
    file = tables("times.toml")
    return tuple(_language(name, file[name], file["numeric"]) for name in _LANGUAGES)


def _language(language: str, own: Mapping[str, Any], numeric: list[list[Any]]) -> TimeLanguage:
    """Return the words and patterns of a language. `own`: its table in `times.toml`; `numeric`: forms of languages with
    digits."""
    info: Mapping[str, Any] = import_module(f"dateparser.data.date_translation_data.{language}").info
    han = language == "zh"

    def named(key: str, least: int) -> list[str]:
        return [word for word in map(flat, info[key]) if han or len(word.rstrip(".")) >= least]

    # words for months, weekdays, units and days: from dateparser, and from `own`
    months = {word: at + 1 for at, key in enumerate(_MONTHS) for word in named(key, 3)} | own["months"]
    if han:
        months |= {f"{number:02}月": number for number in range(1, 10)}
    full = [word for word in months if len(word) > 3 or word in {"may", "mai"}]
    weekdays = {word: at for at, key in enumerate(_WEEKDAYS) for word in named(key, 5 if language != "en" else 6)}
    if han:
        weekdays |= {"周天": 6}
    units = {word: key for key in _UNITS for word in named(key, 3)} | own["units"]
    days = {
        flat(word): ago
        for ago, key in enumerate(("0 day ago", "1 day ago", "2 day ago", "3 day ago"))
        for word in info["relative-type"].get(key, [])
        if " day" not in word and word != "till date"
    } | own["days"]

    # the pattern for each placeholder of a form
    around, parts, numbers, years = own["around"], own["parts"], own["numbers"], own["years"]
    listed: dict[str, Iterable[str]] = {"units": units, "months": months, "weekdays": weekdays, "parts": parts}
    groups = {f"<{name}>": f"(?P<{name[:-1]}>{_any_of(words)})" for name, words in listed.items()}
    groups |= {"<month_names>": f"(?P<month>{_any_of(full)})", "<days>": f"(?P<word>{_any_of(days)})"}
    groups |= {"<year>": r"(?P<year>(?:19|20)\d\d)", "<years>": f"(?P<yearword>{_any_of(years)})"}
    groups["<day>"] = r"(?P<day>0?[1-9]|[12]\d|3[01])"
    groups["<numbers>"] = _any_of(numbers) if numbers else ""
    groups["<n>"] = rf"(?P<n>\d{{1,4}}|{_any_of(numbers)})" if numbers else ""

    # for each kind of pattern the words of which a text has one, if the pattern can match
    listed = {"day": days, "part": parts, "unit": units, "ago": units, "weekday": weekdays, "month": months}
    listed |= {"recent": own["recent"].split(), "night": [*parts, *own["nights"].split()]}
    needs = {
        kind: frozenset(
            word for phrase in phrases for word in re.findall(r"[^\W_]+", phrase) if word == phrase or len(word) > 3
        )
        for kind, phrases in listed.items()
    }
    if language == "de":
        needs["part"] |= {weekday + part for weekday in weekdays for part in parts}

    # the patterns
    forms = [*own["forms"], *([] if han else numeric)]
    patterns = []
    for kind, shift, form in forms:
        # whole words, not within a file name, an address or a version
        source = _filled(form, groups).replace(" ?", r"\s*").replace(" ", r"\s+")
        source = source if han else rf"(?<![\w/\\@#.-])(?:{source})(?:'s)?(?![\w/\\@-]|\.\w)"
        known = None if han or kind in _BY_NUMBER else needs[_NEEDS.get(kind, kind)]
        patterns.append(Pattern(kind=kind, source=source, shift=shift, needs=known))
    return TimeLanguage(
        language=language,
        patterns=tuple(patterns),
        numbers=numbers | {"few": 3, "paar": 3, "pocos": 3, "几": 3},
        units=units,
        months=months,
        weekdays=weekdays,
        days=days,
        parts=parts,
        years=years,
        directions={name: _at_end_pattern(around[name], han=han) for name in ("since", "after", "before", "until")},
        lead=_at_end_pattern(around["lead"], han=han),
        never_before=_at_end_pattern(around["never_before"], han=han),
        never_after=re.compile(around["never_after"]),
        tail=re.compile(around["tail"]),
        ranges=re.compile(around["ranges"].replace(" ", r"\s+")),
        opens=_at_end_pattern(around["opens"], han=han),
    )


_BY_NUMBER: Final = frozenset({"year", "monthday", "iso", "numbers"})
_NEEDS: Final[Mapping[str, str]] = tables("times.toml")["needs"]


def _any_of(words: Iterable[str]) -> str:
    """Return the source of a pattern that matches any of `words`, the longest possible."""
    longest_first = sorted(words, key=lambda word: (-len(word), word))
    return f"(?:{'|'.join(map(re.escape, longest_first))})".replace(r"\ ", " ")


def _filled(form: str, groups: Mapping[str, str]) -> str:
    """Return `form` with each placeholder, such as `<days>`, replaced by its pattern in `groups`.

    If a pattern is used twice, its second use gets group names with the suffix 2, because names of groups must be
    unique.
    """
    used: set[str] = set()

    def fill(match: re.Match[str]) -> str:
        pattern = groups[match.group()]
        if pattern in used:
            return re.sub(r"\?P<(\w+?)>", r"?P<\g<1>2>", pattern)
        used.add(pattern)
        return pattern

    return re.sub(r"(?<!\?P)<\w+>", fill, form)


_regex = cache(re.compile)


def _at_end_pattern(form: str, *, han: bool) -> re.Pattern[str]:
    """Return a pattern that matches `form` at the end of a text. `han`: whether `form` is Chinese, without spaces."""
    form = form.replace(" ", r"\s+")
    return re.compile(rf"(?:{form})$" if han else rf"(?<![\w-])(?:{form})\s*$")


def warm() -> None:
    """Load all languages and compile their patterns, so that the first question does not wait for it."""
    for speech in load_languages():
        for pattern in speech.patterns:
            _regex(pattern.source)
