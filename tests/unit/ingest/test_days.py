"""Relative days count from the day on which the person was, in whatever time zone that was."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import pytest

from ormahd.index.history import moment
from ormahd.ingest.batches import UnreadTurns, batches
from ormahd.ingest.rules import candidates
from ormahd.model.node import Narrowing
from ormahd.sessions.archive import Archived, SessionTail


@pytest.fixture
def zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    def move(name: str) -> None:
        monkeypatch.setenv("TZ", name)
        time.tzset()

    yield move
    monkeypatch.undo()
    time.tzset()


def session(text: str, at: str) -> UnreadTurns:
    return UnreadTurns(
        SessionTail("s.jsonl", "s", "claude-code", None, at, 1, "k"),
        (Archived(1, "k", 1, 1, 1, "user", at, text),),
        0,
        "rules",
    )


ANGELES, TOKYO, BERLIN, AUCKLAND = "America/Los_Angeles", "Asia/Tokyo", "Europe/Berlin", "Pacific/Auckland"
EVENING = "2026-11-03T04:10:00.000Z"
"""Monday evening in Los Angeles, Tuesday in UTC."""
MORNING = "2026-11-02T22:30:00.000Z"
"""Monday in UTC, Tuesday morning in Tokyo and Auckland."""
SAID = [
    (ANGELES, EVENING, "Remember that the demo is tomorrow at ten.", "2026-11-03"),
    (ANGELES, EVENING, "Remember that the crane was inspected yesterday.", "2026-11-01"),
    (ANGELES, EVENING, "Remember that the boat is back in two days.", "2026-11-04"),
    (ANGELES, EVENING, "Remember that the audit is on Tuesday.", "2026-11-03"),
    (ANGELES, EVENING, "Remember that our lease was signed a week ago.", "2026-10-26"),
    (ANGELES, EVENING, "Merk dir, dass die Demo morgen um zehn ist.", "2026-11-03"),
    (ANGELES, EVENING, "Recuerda que la demo es mañana a las diez.", "2026-11-03"),
    (ANGELES, EVENING, "Retiens que la démo est demain à dix heures.", "2026-11-03"),
    (ANGELES, "2026-11-01T03:00:00.000Z", "Remember that the key was lost last month.", "2026-09"),
    (ANGELES, "2026-07-15T04:30:00.000Z", "Remember that the demo is tomorrow at ten.", "2026-07-15"),
    (TOKYO, MORNING, "Remember that the demo is tomorrow at ten.", "2026-11-04"),
    (TOKYO, MORNING, "Remember that the crane was inspected yesterday.", "2026-11-02"),
    (AUCKLAND, MORNING, "Remember that the boat is back in two days.", "2026-11-05"),
    (AUCKLAND, MORNING, "Merk dir, dass die Demo morgen um zehn ist.", "2026-11-04"),
    (BERLIN, "2026-11-02T23:30:00.000Z", "Remember that the demo is tomorrow at ten.", "2026-11-04"),
    ("UTC", EVENING, "Remember that the demo is tomorrow at ten.", "2026-11-04"),
]


@pytest.mark.parametrize(("where", "at", "text", "day"), SAID)
def test_a_learned_day_is_the_persons(zone: Callable[[str], None], where: str, at: str, text: str, day: str) -> None:
    zone(where)
    found = candidates(session(text, at).with_context, today=datetime(2027, 1, 1, tzinfo=UTC))
    assert [day in one.content for one in found] == [True], found


@pytest.mark.parametrize(
    ("where", "at", "time_"),
    [
        (ANGELES, EVENING, "2026-11-02T20:10:00-08:00"),
        (ANGELES, "2026-07-15T04:30:00.000Z", "2026-07-14T21:30:00-07:00"),
        (TOKYO, MORNING, "2026-11-03T07:30:00+09:00"),
    ],
)
def test_a_model_is_told_the_persons_time(zone: Callable[[str], None], where: str, at: str, time_: str) -> None:
    zone(where)
    ((batch),) = batches(session("The demo is tomorrow.", at))
    assert batch.turns[0].time == time_


@pytest.mark.parametrize(
    ("where", "first"), [(ANGELES, "2026-11-02T08:00"), (TOKYO, "2026-11-01T15:00"), ("UTC", "2026-11-02T00:00")]
)
def test_a_date_that_a_program_sends_is_the_persons_day(zone: Callable[[str], None], where: str, first: str) -> None:
    zone(where)
    begins = datetime.fromisoformat(first).replace(tzinfo=UTC)
    asked = Narrowing.model_validate({"created_after": "2026-11-02", "created_before": "2026-11-02"})
    assert asked.created_after == begins == moment("2026-11-02")
    assert asked.created_before is not None
    assert (asked.created_before - begins).total_seconds() == pytest.approx(86_400)
    assert (moment("2026-11-02", end=True) - begins).total_seconds() == 86_400
