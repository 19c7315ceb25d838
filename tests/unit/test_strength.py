"""Strength: the file of lines, folding events into it, and the forgetting curve."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from math import exp

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ormahd.model.node import Strength
from ormahd.model.strength import (
    INITIAL_STABILITY_DAYS,
    MAX_STABILITY_DAYS,
    Access,
    LastUses,
    Score,
    fold,
    last_uses,
    merged_row,
    read_strength,
    reinforce,
)

NOW = datetime(2026, 11, 21, 20, tzinfo=UTC)
A, B = "97acbe8e-6d0a-4c1e-9a55-0a52b0f4f9d1", "1a2b3c4d-0000-4000-8000-000000000000"


def days(count: float) -> timedelta:
    return timedelta(days=count)


def test_reinforcing() -> None:
    assert reinforce(0, 0) == INITIAL_STABILITY_DAYS
    assert reinforce(9, 0.99) == 9
    assert reinforce(9, 1) == pytest.approx(9 * (1 + 0.5 / 3 * exp(0.2 / 9)))
    assert reinforce(9, 1e9) == pytest.approx(9 * (1 + 0.5 / 3 * 2))
    assert reinforce(364, 30) == MAX_STABILITY_DAYS
    assert reinforce(1e-300, 1e6) <= MAX_STABILITY_DAYS


@given(st.floats(0, 365), st.floats(-10, 1e6))
def test_a_use_never_weakens(stability: float, since: float) -> None:
    assert stability <= reinforce(stability, since) <= MAX_STABILITY_DAYS


def test_two_machines_are_read_as_one() -> None:
    data = b"\n".join(
        json.dumps(row).encode()
        for row in (
            {"id": "x", "node": A, "machine": "m1", "access_count": 2, "use_count": 1, "last_access": "2026-11-20T00:00:00Z",
             "stability": 12.5, "last_review": "2026-11-19T00:00:00Z", "importance": 0.9,
             "scored": "2026-11-01T00:00:00Z"},
            {"id": "y", "node": A, "machine": "m2", "access_count": 3, "use_count": 2, "last_access": "2026-11-18T00:00:00+02:00",
             "stability": 11.5, "importance": 0.2, "scored": "2026-11-02T00:00:00Z"},
            {"id": "z", "node": B, "machine": "m2"},
        )
    )  # fmt: skip
    assert read_strength(data) == {
        A: Strength(
            importance=0.2, access_count=5, use_count=3, last_accessed=datetime(2026, 11, 20, tzinfo=UTC),
            last_review=datetime(2026, 11, 19, tzinfo=UTC), stability=12.5,
        ),
        B: Strength(),
    }  # fmt: skip


BAD = [b"{", b"[]", b"nul\x00", b"\xff\xfe", b'{"id": "x"}', b'{"id": "x", "node": 1, "machine": "m"}',
       b'{"id":"x","node":"n","machine":"m","access_count":-1}', b'{"id":"x","node":"n","machine":"m","stability":1e999}',
       b'{"id":"x","node":"n","machine":"m","importance":NaN}', b'{"id":"x","node":"n","machine":"m","importance":true}',
       b'{"id":"x","node":"n","machine":"m","last_access":"soon"}', b'{"id":"x","node":"n","machine":"m","extra":NaN}',
       b'{"id":"x","node":"n","machine":"m","last_access":"0001-01-01T00:00:00+14:00"}', b"<<<<<<< ours", b"[" * 50_000]  # fmt: skip


@pytest.mark.parametrize("bad", BAD, ids=range(len(BAD)))
def test_a_bad_line_is_reported_kept_and_hurts_nothing(bad: bytes) -> None:
    good = fold(b"", "m1", [Access(A, NOW)])
    problems: list[str] = []
    assert read_strength(bad + b"\n" + good, problems)[A].access_count == 1
    assert len(problems) == 1
    assert problems[0].startswith("line 1 ")
    assert fold(bad + b"\n" + good, "m1", []) == good + bad + b"\n"


@given(st.binary(max_size=200))
def test_no_bytes_raise(data: bytes) -> None:
    read_strength(data, [])
    fold(data, "m", [Access(A, NOW)])


def test_folding_writes_one_line_a_node_and_machine_in_order() -> None:
    once = fold(
        b"", "m1", [Access(A, NOW), Access(B, NOW, how="recall"), Access(A, NOW + days(2)), Score(A, NOW, 0.75)]
    )
    assert (
        once
        == (
            f'{{"id": "{B}@m1", "node": "{B}", "machine": "m1", "access_count": 1, "last_access": "2026-11-21T20:00:00Z", '
            '"last_recall": "2026-11-21T20:00:00Z"}\n'
            f'{{"id": "{A}@m1", "node": "{A}", "machine": "m1", "access_count": 2, "use_count": 2, '
            '"last_access": "2026-11-23T20:00:00Z", '
            '"last_use": "2026-11-23T20:00:00Z", "stability": 13.393, "last_review": "2026-11-23T20:00:00Z", "importance": 0.75, '
            '"scored": "2026-11-21T20:00:00Z"}\n'
        ).encode()
    )
    assert fold(once, "m1", []) == once
    assert fold(once, "m1", [Score(A, NOW + days(3), 0.755)]) == once
    assert len(fold(once, "m2", [Access(A, NOW)]).splitlines()) == 3


def test_rapid_uses_are_one_review() -> None:
    file = fold(b"", "m1", [Access(A, NOW + timedelta(minutes=n)) for n in range(15)], created={A: NOW - days(3)})
    strength = read_strength(file)[A]
    assert (strength.access_count, strength.use_count) == (15, 15)
    assert strength.stability == pytest.approx(reinforce(0, 3), abs=0.001)
    assert strength.last_review == NOW


def test_every_confirmed_use_is_known_though_few_strengthen() -> None:
    uses = [
        Access(A, NOW),
        Access(A, NOW + days(0.5)),
        Access(A, NOW + days(0.7), how="recall"),
        Access(B, NOW, how="recall"),
    ]
    file = fold(b"", "m1", uses)
    assert last_uses(file) == {A: LastUses(use=NOW + days(0.5), recall=NOW + days(0.7)), B: LastUses(recall=NOW)}
    assert read_strength(file)[A].last_review == NOW
    both = fold(file, "m2", [Access(A, NOW + days(0.6)), Access(B, NOW)])
    assert {node: one.use for node, one in last_uses(both).items()} == {A: NOW + days(0.6), B: NOW}
    before_there_was_the_key = b'{"id": "x", "node": "n", "machine": "m", "last_review": "2026-11-21T20:00:00Z"}\n'
    assert last_uses(before_there_was_the_key) == {"n": LastUses(use=NOW)}
    assert last_uses(b"{") == {}


def test_a_whisper_renews_and_makes_nothing_more_used() -> None:
    """Ranking reads the counts and `last_access`: what one prompt was answered with does not rise for others."""
    file = fold(b"", "m1", [Access(A, NOW, how="whisper"), Access(A, NOW + days(3), how="whisper")])
    assert fold(file, "m1", [Access(A, NOW + days(3.9), how="whisper")]) == file, "once a day is often enough"
    assert last_uses(file) == {A: LastUses(whisper=NOW + days(3))}
    assert last_uses(file)[A].last == NOW + days(3)
    assert read_strength(file) == {A: Strength()}


def test_a_review_on_one_machine_counts_on_the_other() -> None:
    file = fold(b"", "m1", [Access(A, NOW)])
    assert read_strength(fold(file, "m2", [Access(A, NOW + days(0.5))]))[A].stability == pytest.approx(11.628)
    later = read_strength(fold(file, "m2", [Access(A, NOW + days(5))]))[A]
    assert later.stability == pytest.approx(reinforce(11.628, 5), abs=0.001)


def test_an_event_from_the_past_counts_and_takes_nothing_back() -> None:
    file = fold(b"", "m1", [Access(A, NOW), Score(A, NOW, 0.9)])
    strength = read_strength(fold(file, "m1", [Access(A, NOW - days(9)), Score(A, NOW - days(9), 0.1)]))[A]
    assert (strength.access_count, strength.last_accessed, strength.importance) == (2, NOW, 0.9)


def test_unknown_keys_stay() -> None:
    line = b'{"id": "%b@m1", "node": "%b", "machine": "m1", "later": {"a": [1]}}\n' % (A.encode(), A.encode())
    assert b'"later": {"a": [1]}' in fold(line, "m1", [Access(A, NOW)])


dates = st.datetimes(datetime(2020, 1, 1), datetime(2030, 1, 1)).map(lambda date: date.replace(tzinfo=UTC))
events = st.lists(
    st.builds(Access, st.sampled_from([A, B]), dates, st.booleans(), st.integers(1, 5))
    | st.builds(Score, st.sampled_from([A, B]), dates, st.floats(0, 1)),
    max_size=8,
)


@given(events, st.data())
def test_the_order_of_events_does_not_matter(made: list[Access | Score], data: st.DataObject) -> None:
    file = fold(b"", "m1", made)
    assert fold(b"", "m1", data.draw(st.permutations(made))) == file
    assert fold(file, "m1", []) == file
    assert sum(strength.access_count for strength in read_strength(file).values()) == sum(
        event.times for event in made if isinstance(event, Access)
    )


@given(events, events)
def test_merging_two_versions_of_a_line_is_symmetric_and_idempotent(one: list[Access], other: list[Access]) -> None:
    rows = [{row["id"]: row for row in map(json.loads, fold(b"", "m1", made).splitlines())} for made in (one, other)]
    for line in rows[0].keys() & rows[1].keys():
        left, right = rows[0][line], rows[1][line]
        merged = merged_row(left, right)
        assert merged == merged_row(right, left) == merged_row(merged, right)
        assert merged.get("access_count", 0) == max(left.get("access_count", 0), right.get("access_count", 0))


def test_long_work_goes_at_its_callers_pace() -> None:
    data = fold(
        b"", "here", [Score(f"{number:08x}-0000-4000-8000-000000000000", NOW, number / 50) for number in range(50)]
    )
    steps: list[object] = []

    def pace(some):
        for one in some:
            steps.append(one)
            yield one

    assert read_strength(data, pace=pace) == read_strength(data)
    assert len(steps) >= 50
    steps.clear()
    events = [Access(A, NOW), Access(B, NOW)]
    assert fold(data, "here", events, pace=pace) == fold(data, "here", events)
    assert len(steps) >= 50
