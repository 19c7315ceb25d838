"""How long a memory stays unused, and which days count."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ormahd.model import strength
from ormahd.model.node import NodeType
from ormahd.model.strength import (
    CLASSES,
    INITIAL_STABILITY_DAYS,
    MAX_STABILITY_DAYS,
    SPREAD,
    ActiveDays,
    Leases,
    share_of,
)

RULE = Leases(event=28, fact=90, decision=180)
NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
A = "97acbe8e-6d0a-4c1e-9a55-0a52b0f4f9d1"


def test_every_type_has_a_class_and_what_was_decided_outlives_what_happened() -> None:
    assert CLASSES.keys() == set(NodeType)
    by_days = {days: {kind for kind in NodeType if RULE.unused(kind) == days} for days in (28, 90, 180)}
    assert by_days[28] == {NodeType.EVENT, NodeType.OBSERVATION}
    assert by_days[90] == {NodeType.FACT, NodeType.CONCEPT, NodeType.GOAL}
    assert {NodeType.DECISION, NodeType.PROCEDURE, NodeType.PREFERENCE, NodeType.PERSON, NodeType.PROJECT} == by_days[
        180
    ]


def test_use_lengthens_a_lease_in_proportion_and_to_an_end() -> None:
    twice = 2 * INITIAL_STABILITY_DAYS
    for kind in (NodeType.EVENT, NodeType.FACT, NodeType.DECISION):
        assert RULE.unused(kind, INITIAL_STABILITY_DAYS) == pytest.approx(RULE.unused(kind))
        assert RULE.unused(kind, 1.0) == RULE.unused(kind), "less than the first stability takes nothing away"
        assert RULE.unused(kind, twice) == pytest.approx(2 * RULE.unused(kind))
        assert math.exp(-RULE.unused(kind, MAX_STABILITY_DAYS) / MAX_STABILITY_DAYS) == pytest.approx(0.3)
    assert Leases(1, 1, 9_999).unused(NodeType.DECISION, MAX_STABILITY_DAYS) == 9_999


def test_a_batch_does_not_leave_on_one_day_and_the_spread_is_no_chance() -> None:
    ids = [f"{number:08x}-0000-4000-8000-{number:012x}" for number in range(300)]
    leases = sorted(RULE.days(NodeType.FACT, 0, node_id) for node_id in ids)
    assert leases == sorted(RULE.days(NodeType.FACT, 0, node_id) for node_id in ids)
    assert (leases[0] >= 90, leases[-1] < 90 * (1 + SPREAD)) == (True, True)
    weeks = [sum(start <= lease < start + 7 for lease in leases) for start in range(90, 135, 7)]
    assert max(weeks) < len(ids) / 4, weeks


@given(st.text(max_size=50))
def test_a_share_is_a_share_of_whatever_id(node_id: str) -> None:
    assert 0 <= share_of(node_id) < 1


def test_idle_days_hardly_count() -> None:
    asked = ActiveDays.of([date(2026, 11, 1), date(2026, 11, 21)], 0.1)
    assert asked.between(NOW - timedelta(days=30), NOW) == pytest.approx(1.5 + 0.1 * 28.5)
    assert asked.between(NOW - timedelta(hours=6), NOW) == pytest.approx(0.25)
    assert asked.between(NOW, NOW) == asked.between(NOW + timedelta(days=1), NOW) == 0
    assert ActiveDays.of([], 0.0).between(NOW - timedelta(days=9_999), NOW) == 0
    assert ActiveDays.of([], 1.0).between(NOW - timedelta(days=30), NOW) == pytest.approx(30)


def test_a_zone_changes_nothing() -> None:
    asked = ActiveDays.of([date(2026, 11, 21)], 0.1)
    there = NOW.astimezone(datetime.fromisoformat("2026-11-21T20:00:00+09:00").tzinfo)
    assert asked.between(NOW - timedelta(days=3), there) == asked.between(NOW - timedelta(days=3), NOW)


@given(st.sets(st.integers(0, 60), max_size=30), st.floats(0, 1), st.floats(0, 90))
def test_back_is_where_so_much_time_counts_from(active: set[int], idle: float, days: float) -> None:
    asked = ActiveDays.of([NOW.date() - timedelta(days=one) for one in active], idle)
    since = asked.back(NOW, days)
    if since == datetime.min.replace(tzinfo=UTC):
        assert asked.between(since, NOW) < days
    else:
        assert asked.between(since, NOW) == pytest.approx(days, abs=1e-4)


def test_the_file_is_a_set_of_days() -> None:
    one = strength.with_active_days(b"", [date(2026, 11, 21), date(2026, 11, 3)])
    assert one == b'{"id": "2026-11-03"}\n{"id": "2026-11-21"}\n'
    assert strength.with_active_days(one, [date(2026, 11, 3)]) is one
    assert strength.read_active_days(one) == {date(2026, 11, 3), date(2026, 11, 21)}


@pytest.mark.parametrize("bad", [b"{", b"[]", b'{"id": 7}', b'{"id": "yesterday"}', b"\xff", b"[" * 50_000])
def test_a_line_that_holds_no_day_is_kept_and_hurts_nothing(bad: bytes) -> None:
    file = strength.with_active_days(bad + b"\n", [date(2026, 11, 21)])
    assert file == b'{"id": "2026-11-21"}\n' + bad + b"\n"
    assert strength.read_active_days(file) == {date(2026, 11, 21)}
