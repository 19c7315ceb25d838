"""Which period a question names, in five languages, as the calendar on the person's wall has it."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from ormahd.model.node import SearchQuery
from ormahd.search.gather import parse_query
from ormahd.text.times import MAX_SEARCHED, find_period

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


PERIODS = """
en | what did we decide yesterday | 11-25 | 11-26 | what did we decide
en | what did we do today? | 11-26 | 11-27 | what did we do ?
en | notes from yesterday about uv | 11-25 | 11-26 | notes about uv
en | the day before yesterday | 11-24 | 11-25 |
en | decisions of this week | 11-23 | 11-30 | decisions
en | Last week's outage | 11-16 | 11-23 | outage
en | what happened last month? | 10-01 | 11-01 | what happened ?
en | what did we ship last year | 01-01 2025 | 01-01 | what did we ship
en | last quarter | 07-01 | 10-01 |
en | what did we do last Monday? | 11-23 | 11-24 | what did we do ?
en | what did we agree on Thursday? | 11-19 | 11-20 | what did we agree ?
en | tuesday of last week | 11-17 | 11-18 |
en | what changed in March | 03-01 | 04-01 | what changed
en | what changed in December | 12-01 2025 | 01-01 | what changed
en | in November | 11-01 | 12-01 |
en | the incident on November 5th | 11-05 | 11-06 | the incident
en | the incident of 5 nov 2025 | 11-05 2025 | 11-06 2025 | the incident
en | on December 24 | 12-24 2025 | 12-25 2025 |
en | March last year | 03-01 2025 | 04-01 2025 |
en | in 2024 | 01-01 2024 | 01-01 2025 |
en | the review on the 5th | 11-05 | 11-06 | the review
en | the outage on 2026-11-05 | 11-05 | 11-06 | the outage
en | what did we do two weeks ago | 11-09 | 11-16 | what did we do
en | a fortnight ago | 11-09 | 11-16 |
en | what did we do 3 days ago? | 11-23 | 11-24 | what did we do ?
en | two months ago | 09-01 | 10-01 |
en | 2 hours ago | 11-26 07:00 | 11-26 08:00 |
en | the deploy last night | 11-25 18:00 | 11-26 06:00 | the deploy
en | this morning | 11-26 04:00 | 11-26 12:00 |
en | yesterday afternoon | 11-25 12:00 | 11-25 18:00 |
en | in the last 3 days | 11-23 | 11-26 09:30 |
en | over the past 2 weeks | 11-12 | 11-26 09:30 |
en | the past 24 hours | 11-25 09:30 | 11-26 09:30 |
en | what did I do recently | 11-23 | 11-26 09:30 | what did I do
en | over the weekend | 11-21 | 11-23 |
en | what's new since Monday? | 11-23 | 11-26 09:30 | what's new ?
en | what was known before March | 01-02 1970 | 03-01 | what was known
en | after November 5 | 11-06 | 11-26 09:30 |
en | from Monday to Wednesday | 11-23 | 11-26 |
en | between March and May | 03-01 | 06-01 |
en | in the last week | 11-19 | 11-26 09:30 |
en | the night before last | 11-24 18:00 | 11-25 06:00 |
en | earlier this week | 11-23 | 11-30 |
en | the outage on 2026/11/05 | 11-05 | 11-06 | the outage
en | tuesday night | 11-24 18:00 | 11-25 06:00 |
de | was haben wir gestern entschieden? | 11-25 | 11-26 | was haben wir entschieden?
de | vorgestern | 11-24 | 11-25 |
de | was war letzten Montag? | 11-23 | 11-24 | was war ?
de | was geschah im März | 03-01 | 04-01 | was geschah
de | der Ausfall am 5. November | 11-05 | 11-06 | der Ausfall
de | am 5.11. | 11-05 | 11-06 |
de | seit 24.12. | 12-24 2025 | 11-26 09:30 |
de | im Oktober letzten Jahres | 10-01 2025 | 11-01 2025 |
de | am 05.11.2025 | 11-05 2025 | 11-06 2025 |
de | vor zwei Wochen | 11-09 | 11-16 |
de | letzte Nacht | 11-25 18:00 | 11-26 06:00 |
de | am Montagabend | 11-23 17:00 | 11-24 |
de | diese Woche | 11-23 | 11-30 |
de | in den letzten drei Tagen | 11-23 | 11-26 09:30 |
de | seit März | 03-01 | 11-26 09:30 |
es | ¿qué decidimos ayer? | 11-25 | 11-26 | ¿qué decidimos ?
es | anteayer | 11-24 | 11-25 |
es | el lunes pasado | 11-23 | 11-24 |
es | en marzo | 03-01 | 04-01 |
es | el 5 de noviembre | 11-05 | 11-06 |
es | hace dos semanas | 11-09 | 11-16 |
es | anoche | 11-25 18:00 | 11-26 06:00 |
es | esta semana | 11-23 | 11-30 |
es | la semana pasada | 11-16 | 11-23 |
es | en los últimos tres días | 11-23 | 11-26 09:30 |
es | desde el lunes | 11-23 | 11-26 09:30 |
fr | qu'avons-nous décidé hier ? | 11-25 | 11-26 | qu'avons-nous décidé ?
fr | aujourd’hui | 11-26 | 11-27 |
fr | avant-hier | 11-24 | 11-25 |
fr | lundi dernier | 11-23 | 11-24 |
fr | en mars | 03-01 | 04-01 |
fr | le 5 novembre | 11-05 | 11-06 |
fr | il y a deux semaines | 11-09 | 11-16 |
fr | hier soir | 11-25 17:00 | 11-26 |
fr | la nuit dernière | 11-25 18:00 | 11-26 06:00 |
fr | la dernière semaine | 11-16 | 11-23 |
fr | en novembre dernier | 11-01 2025 | 12-01 2025 |
fr | cette semaine | 11-23 | 11-30 |
fr | les 3 derniers jours | 11-23 | 11-26 09:30 |
zh | 我们昨天决定了什么 | 11-25 | 11-26 | 我们 决定了什么
zh | 前天 | 11-24 | 11-25 |
zh | 上周一我们做了什么 | 11-16 | 11-17 | 我们做了什么
zh | 周一的会议 | 11-23 | 11-24 | 的会议
zh | 三月 | 03-01 | 04-01 |
zh | 11月5日发生了什么 | 11-05 | 11-06 | 发生了什么
zh | 十一月五日 | 11-05 | 11-06 |
zh | 去年三月 | 03-01 2025 | 04-01 2025 |
zh | 两周前 | 11-09 | 11-16 |
zh | 昨晚 | 11-25 18:00 | 11-26 06:00 |
zh | 本周 | 11-23 | 11-30 |
zh | 上個月 | 10-01 | 11-01 |
zh | 过去三天 | 11-23 | 11-26 09:30 |
zh | 三月以来 | 03-01 | 11-26 09:30 |
"""


@pytest.mark.parametrize("line", PERIODS.strip().splitlines())
def test_a_named_period(line: str) -> None:
    _, text, after, before, rest = (part.strip() for part in line.split("|"))
    period = find_period(text, NOW, BERLIN)
    assert period is not None
    first = period.after - timedelta(microseconds=1)
    assert (wall(first), wall(period.before)) == (after, before)
    assert period.rest == rest


NONE = """
may | you may ask | march on | march on the capitol | second | just a second | sat | we sat down | mars rover | august company
what is planned for next week | next Monday | tomorrow | every Monday | on mondays | until Friday | in two weeks | a few days ago
the song "Yesterday" | what does `last week` mean | parse last_week.csv | log/2026-11-05.txt | 2026-11-05T10:00:00Z | on 5/11/2026
kernel 5.11.2024-rc1 | version 5.11.2 | monday.com integration | the todays list | lastly | the weekly report | at last | the last two commits
the last 0x hours | on 31 november | the most recent decision | expire tokens after two weeks | half an hour ago | kernel 5.11. | see 4.2. and 4.3. | set a timer for 30 minutes
morgen | jeden Montag | nächste Woche | wie geht das hier | was ist hier passiert | wat doet dit hier | der Mai ist gekommen | vor allem
mañana | cada lunes | el próximo lunes | la semana que viene | hace calor | demain | lundi prochain | mardi gras | planète mars
明天 | 下周一 | 每周一 | 下个月 | 当前天气怎么样 | 三个月的计划 | 本周期 | 两周后
"""


@pytest.mark.parametrize(
    "text", ["", "\0", "🙂", *(one.strip() for line in NONE.strip().splitlines() for one in line.split("|"))]
)
def test_what_is_not_understood_is_no_period(text: str) -> None:
    assert find_period(text, NOW, BERLIN) is None


@pytest.mark.parametrize(
    ("zone", "now", "text", "after", "hours"),
    [
        # one moment, two days: it is the person's calendar that counts
        ("Asia/Tokyo", datetime(2026, 11, 25, 16, tzinfo=UTC), "yesterday", "2026-11-25T00:00+09:00", 24),
        ("America/Los_Angeles", datetime(2026, 11, 26, 3, tzinfo=UTC), "yesterday", "2026-11-24T00:00-08:00", 24),
        ("Pacific/Kiritimati", datetime(2026, 11, 26, 11, tzinfo=UTC), "昨天", "2026-11-26T00:00+14:00", 24),
        # the days on which clocks change have 23 and 25 hours
        ("Europe/Berlin", datetime(2026, 3, 30, 7, tzinfo=UTC), "gestern", "2026-03-29T00:00+01:00", 23),
        ("Europe/Berlin", datetime(2026, 10, 26, 7, tzinfo=UTC), "hier soir", "2026-10-25T17:00+01:00", 7),
        ("Europe/Berlin", datetime(2026, 10, 26, 7, tzinfo=UTC), "gestern", "2026-10-25T00:00+02:00", 25),
        ("America/New_York", datetime(2026, 11, 2, 15, tzinfo=UTC), "yesterday", "2026-11-01T00:00-04:00", 25),
        ("America/New_York", datetime(2026, 3, 9, 15, tzinfo=UTC), "last week", "2026-03-02T00:00-05:00", 167),
        ("Australia/Lord_Howe", datetime(2026, 4, 5, 15, tzinfo=UTC), "yesterday", "2026-04-05T00:00+11:00", 24.5),
        # where midnight itself is left out, the day begins an hour later
        ("Africa/Cairo", datetime(2026, 4, 25, 7, tzinfo=UTC), "yesterday", "2026-04-24T01:00+03:00", 23),
    ],
)
def test_days_are_those_of_the_persons_time_zone(zone: str, now: datetime, text: str, after: str, hours: float) -> None:
    period = find_period(text, now, ZoneInfo(zone))
    assert period is not None
    assert period.after == datetime.fromisoformat(after)
    assert period.before - period.after == timedelta(hours=hours) - timedelta(microseconds=1)


def test_without_a_zone_it_is_this_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        period = find_period("yesterday", datetime(2026, 11, 25, 16, tzinfo=UTC))
    finally:
        monkeypatch.undo()
        time.tzset()
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
