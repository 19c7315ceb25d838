"""Which period a question names."""

from datetime import UTC, datetime, timedelta

import pytest

from ormahd.ranking.times import find_period

NOW = datetime(2026, 11, 21, 20, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "days", "until", "rest"),
    [
        ("what did we decide today", 1, 0, "what did we decide"),
        ("notes from yesterday about uv", 2, 1, "notes about uv"),
        ("the day before yesterday", 3, 2, ""),
        ("decisions of this week", 7, 0, "decisions"),
        ("Last week's outage", 14, 7, "'s outage"),
        ("what happened last month?", 60, 30, "what happened ?"),
        ("in the last 3 days", 3, 0, ""),
        ("over the past 2 weeks", 14, 0, ""),
        ("what did I do recently", 3, 0, "what did I do"),
    ],
)
def test_a_named_period(text: str, days: int, until: int, rest: str) -> None:
    period = find_period(text, NOW)
    assert period is not None
    assert (NOW - period.after, NOW - period.before) == (timedelta(days=days), timedelta(days=until))
    assert period.rest == rest


@pytest.mark.parametrize(
    "text", ["", "the todays list", "lastly", "what does the weekly report say", "at last", "the last 0x hours"]
)
def test_no_period(text: str) -> None:
    assert find_period(text, NOW) is None


def test_the_first_of_two_counts_and_absurd_numbers_do_not_overflow() -> None:
    assert find_period("yesterday or last week", NOW).phrase == "yesterday"  # type: ignore[union-attr]
    assert find_period("the last 9999 months", NOW) is not None
