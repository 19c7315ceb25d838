"""Relative days count from the day on which the person was, in whatever time zone that was."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from ormahd.index.history import moment
from ormahd.ingest.batches import UnreadTurns, batches
from ormahd.ingest.rules import candidates
from ormahd.model.node import Narrowing
from ormahd.sessions.archive import Archived, SessionTail
from tests.tables import rows


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
SAID = rows(__file__, "said")


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
