"""Parse arguments that name a time: days, times, ages such as `3d`, words such as "last week", and git revisions."""

from __future__ import annotations

import os
import re
from datetime import datetime, time, timedelta

import click

_AGO = re.compile(r"(\d{1,5})\s*(min|h|d|w)")
_UNITS = {"min": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_DIGITS = re.compile(r"\d+")
_ID = re.compile(r"[0-9a-f]{4,64}|0[0-9a-z]{3,25}")
"""Matches a commit's hash or an op's id, or the beginning of one."""
_WORD = re.compile(r"[^\W\d_]{3,}")


class When(click.ParamType[str]):
    """Type of a parameter: a time in the local time zone, such as `2026-11-21`, `2026-11-21T20:00`, `yesterday`,
    `last week`, or `3d` (three days ago). It is converted to ISO 8601 with an offset.

    A day without a time means its first instant, or with `end` its last one.
    """

    name = "when"

    def __init__(self, *, end: bool = False) -> None:
        self.end = end

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the time that `value` means, as ISO 8601 with an offset. Fails if it means no time."""
        found = self.read(value)
        if found is None:
            self.fail(
                f"'{value}' is no time; write 2026-11-21, 2026-11-21T20:00, yesterday, last week, 3d or 12h", param, ctx
            )
        return found.isoformat()

    def read(self, value: str) -> datetime | None:
        """Return the time that `value` means, or None if it means no time."""
        text = value.strip().lower()
        now = datetime.now().astimezone()
        ago = _AGO.fullmatch(text)
        try:
            if ago:
                return now - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
            if _DAY.fullmatch(text):
                return self._day(datetime.fromisoformat(text))
            if text[:4].isdecimal():
                return datetime.fromisoformat(value.strip()).astimezone()
            return self._words(text, now)
        except (ValueError, OverflowError):
            return None

    def _words(self, text: str, now: datetime) -> datetime | None:
        """Return the time that `text` means in English or the locale's language (by dateparser), else None."""
        if not _WORD.search(text):
            return None  # dateparser would take a single letter for a month
        import dateparser
        from dateparser.data.languages_info import language_order

        now_local = now.replace(tzinfo=None)
        settings = {"RELATIVE_BASE": now_local, "PREFER_DATES_FROM": "past", "RETURN_AS_TIMEZONE_AWARE": False}
        languages = [
            name for name in dict.fromkeys(("en", locale_language("LC_TIME"))) if name == "en" or name in language_order
        ]
        found = dateparser.parse(text, languages=languages, settings=settings)
        if found is None:
            return None
        # dateparser fills a day in with midnight or the present time: then the day is meant, and not that instant
        is_day = found.time() in (time.min, now_local.time()) and not re.search(r"\d\s*(h|min|sec)|hour|now", text)
        return self._day(found) if is_day else found.astimezone()

    def _day(self, day: datetime) -> datetime:
        """Return the first instant of `day` in the local time zone; with `end`, the last one."""
        return datetime.combine(day.date(), time.max if self.end else time.min).astimezone()


class TimeOrCommit(When):
    """Type of a parameter: a time as in `When(end=True)`, or the id of an op or commit, which is passed on
    unchanged."""

    name = "when|op"

    def __init__(self) -> None:
        super().__init__(end=True)

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return `value` in lower case if it is an id, else the time that it means. An id of letters only that is
        also a word for a time counts as the time."""
        text = value.strip().lower()
        name = _ID.fullmatch(text) and not _AGO.fullmatch(text)
        if name and (re.search(r"\d", text) or self.read(text) is None):
            return text
        return super().convert(value, param, ctx)


class TimeOrRevision(When):
    """Type of a parameter: a state of the vault, as a time (`When(end=True)`) or as a revision (op, commit, branch,
    tag), which is passed on unchanged."""

    name = "when|rev"

    def __init__(self) -> None:
        super().__init__(end=True)

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the time that `value` means; if it means none, or is digits only, return it unchanged, as a
        revision."""
        if _DAY.match(value.strip()):
            return super().convert(value, param, ctx)
        found = None if _DIGITS.fullmatch(value.strip()) else self.read(value)
        return value.strip() if found is None else found.isoformat()


def locale_language(category: str) -> str:
    """Return the language of the locale as two or three letters, such as `de`. `category`: the variable that
    decides, `LC_TIME` or `LC_MESSAGES`. Return "en" if the locale names no language."""
    named = next((os.environ[name] for name in ("LC_ALL", category, "LANG") if os.environ.get(name)), "")
    language = re.split(r"[_.@]", named)[0].lower()
    return "en" if language in ("", "c", "posix") else language
