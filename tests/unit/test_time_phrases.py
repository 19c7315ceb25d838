"""Which period a question names, in five languages, as the calendar on the person's wall has it."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from ormahd.model.node import SearchQuery
from ormahd.search.gather import parse_query
from ormahd.text.times import MAX_SEARCHED, find_period
from tests.tables import rows

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 11, 26, 9, 30, tzinfo=BERLIN)
"""A Thursday."""
NEVER = "01-02 1970"


def wall(moment: datetime, zone: ZoneInfo = BERLIN) -> str:
    """Month, day and hour, rounded up: what ends at midnight ends with the next day's first instant."""
    moment = (moment + timedelta(microseconds=1)).astimezone(zone)
    hour = f" {moment:%H:%M}" if (moment.hour, moment.minute) != (0, 0) else ""
    year = "" if moment.year == 2026 else f" {moment.year}"
    return f"{moment:%m-%d}{year}{hour}"


PERIODS = rows(__file__, "periods")


@pytest.mark.parametrize("line", PERIODS)
def test_a_named_period(line: str) -> None:
    _, text, after, before, rest = (part.strip() for part in line.split("|"))
    period = find_period(text, NOW, BERLIN)
    assert period is not None
    first = period.after - timedelta(microseconds=1)
    assert (wall(first), wall(period.before)) == (after, before)
    assert period.rest == rest


NONE = rows(__file__, "none")


@pytest.mark.parametrize("text", ["", "\0", "🙂", *(one.strip() for line in NONE for one in line.split("|"))])
def test_what_is_not_understood_is_no_period(text: str) -> None:
    assert find_period(text, NOW, BERLIN) is None


@pytest.mark.parametrize(
    ("zone", "now", "text", "after", "hours"), rows(__file__, "days_are_those_of_the_persons_time_zone")
)
def test_days_are_those_of_the_persons_time_zone(zone: str, now: datetime, text: str, after: str, hours: float) -> None:
    period = find_period(text, now, ZoneInfo(zone))
    assert period is not None
    assert period.after == datetime.fromisoformat(after)
    assert period.before - period.after == timedelta(hours=hours) - timedelta(microseconds=1)


def test_without_a_zone_it_is_this_machines(zone: Callable[[str], None]) -> None:
    zone("Asia/Tokyo")
    period = find_period("yesterday", datetime(2026, 11, 25, 16, tzinfo=UTC))
    assert period is not None
    assert period.after == datetime(2026, 11, 24, 15, tzinfo=UTC)


def test_the_first_of_two_counts_and_absurd_numbers_do_not_overflow() -> None:
    assert find_period("yesterday or last week", NOW).phrase == "yesterday"  # type: ignore[union-attr]
    for text in ("the last 9999 months", "9999 years ago", "9999 hours ago", "in the last 9999 years"):
        find_period(text, NOW, BERLIN)
    leap = find_period("on February 29", NOW, BERLIN)
    assert leap is not None
    assert wall(leap.before) == "03-01 2024"


def test_a_long_text_is_read_at_both_ends() -> None:
    filler = "lorem ipsum " * MAX_SEARCHED
    assert find_period(filler + "what did we do yesterday?", NOW) is not None
    assert find_period(f"yesterday {filler}", NOW) is not None
    assert find_period(f"{filler} yesterday {filler}", NOW) is None


@pytest.mark.parametrize(
    "text",
    [
        *("what did we do yesterday?", "what happened in March?", "was haben wir gestern gemacht?", "was ist letzte Woche passiert?"),
        *("¿qué hicimos ayer?", "¿qué pasó la semana pasada?", "qu'avons-nous fait hier ?", "que s'est-il passé la semaine dernière ?"),
        *("我们昨天做了什么？", "上周发生了什么", "what did we decide last week", "was haben wir gestern entschieden?"),
    ],
)  # fmt: skip
def test_a_question_for_nothing_but_a_time_is_answered_by_that_time_alone(text: str) -> None:
    heard = parse_query(SearchQuery(query=text), space=None, now=NOW.astimezone(UTC))
    assert heard.only_time
    assert heard.chosen.created_after is not None
    assert heard.chosen.created_before is not None


@pytest.mark.parametrize(
    "text", ["why did the importer fail yesterday?", "warum ist der Import gestern gescheitert?", "昨天的部署怎么了"]
)
def test_a_question_with_a_topic_only_favours_the_time(text: str) -> None:
    heard = parse_query(SearchQuery(query=text), space=None, now=NOW.astimezone(UTC))
    assert not heard.only_time
    assert heard.period is not None
    assert heard.chosen.created_after is None
