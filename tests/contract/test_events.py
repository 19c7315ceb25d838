"""Events as their readers see them: once, in order, again from an id; a slow reader costs nothing and is dropped."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from typing import Any

import pytest

from ormahd import api
from ormahd.errors import BadRequest, Unavailable
from ormahd.rpc.subscriptions import AHEAD_BYTES, SUBSCRIBERS
from ormahd.rpc.wire import ClientConnection, connect
from ormahd.state.events import EventStream
from tests.contract.serving import Raw, serving, until

SECONDS = 120.0


def stream(keep: int = 100) -> EventStream:
    return EventStream(lambda: datetime(2026, 11, 27, 20, tzinfo=UTC), keep)


def subscribe(connection: ClientConnection, **params: Any) -> api.SubscribeResult:
    found: api.SubscribeResult = connection.call("events.subscribe", params)
    return found


def read(connection: ClientConnection, count: int) -> list[api.MemoryEvent]:
    events = [connection.next_event(SECONDS) for _ in range(count)]
    return [one for one in events if one is not None]


def test_events_come_once_and_in_order_to_every_reader():
    events = stream(20_000)
    with serving(events=events) as server, connect(server.path) as one, connect(server.path) as two:
        subscribe(one)
        subscribe(two)
        writers = [
            threading.Thread(target=lambda: [events.publish("write", op=str(n)) for n in range(200)]) for _ in range(4)
        ]
        for thread in writers:
            thread.start()
        heard = [read(one, 800), read(two, 800)]
        for thread in writers:
            thread.join()
    assert heard[0] == heard[1]
    assert [one.id for one in heard[0]] == [events.id_of(number) for number in range(1, 801)]


def test_a_reader_goes_on_where_it_stopped():
    events = stream()
    for number in range(5):
        events.publish("write", op=str(number))
    with serving(events=events) as server:
        with connect(server.path) as connection:
            assert subscribe(connection, after=events.id_of(2)).refetch is False
            assert [one.op for one in read(connection, 3)] == ["2", "3", "4"]
        with connect(server.path) as connection:
            assert subscribe(connection, after=events.id_of(5)).refetch is False
            events.publish("write", op="5")
            assert [one.op for one in read(connection, 1)] == ["5"]


@pytest.mark.parametrize("after", ["0123abcd.3", "{epoch}.3", "{epoch}.999"], ids=["restarted", "too old", "unborn"])
def test_what_is_not_known_any_more_is_to_be_fetched_again(after):
    events = stream(10)
    for number in range(50):
        events.publish("write", op=str(number))
    epoch = events.id_of(0).partition(".")[0]
    with serving(events=events) as server, connect(server.path) as connection:
        found = subscribe(connection, after=after.format(epoch=epoch))
        assert found == api.SubscribeResult(last=events.id_of(50), refetch=True)
        events.publish("write", op="new")
        assert [one.op for one in read(connection, 1)] == ["new"]


@pytest.mark.parametrize("after", ["", "x", ".", ".3", "a.", "a.-1", "a.1.2", "a.١", f"a.{'9' * 40}"])
def test_what_is_no_id_is_refused(after):
    with serving(events=stream()) as server, connect(server.path) as connection:
        with pytest.raises(BadRequest, match="no id of an event"):
            subscribe(connection, after=after)
        assert connection.call("hello").phase == "ready"


def test_a_reader_chooses_kinds():
    events = stream()
    with serving(events=events) as server, connect(server.path) as connection:
        subscribe(connection, only=["job", "health"])
        for kind in ("write", "job", "whisper", "health"):
            events.publish(kind)
        assert [one.event for one in read(connection, 2)] == ["job", "health"]
        with pytest.raises(BadRequest, match="only"):
            connection.call("events.subscribe", {"only": ["jobs"]})


def test_a_reader_that_stops_is_dropped_and_nothing_waits_for_it():
    events = stream(1_000)
    with serving(events=events, slow_seconds=SECONDS) as server, Raw(server.path) as stopped:
        stopped.json({"id": 1, "method": "events.subscribe"})
        stopped.reply()
        with connect(server.path) as reader:
            subscribe(reader)
            for number in range(20_000):
                events.publish("write", subject="x" * 100, op=str(number))
                if number % 500 == 499:
                    assert [one.op for one in read(reader, 500)] == [str(n) for n in range(number - 499, number + 1)]
            waiting = [channel for channel in server._channels if channel.pending]
            assert [channel.pending < AHEAD_BYTES + 1_000 for channel in waiting] == [True]
        got = []
        try:
            while True:
                got.append(int(stopped.reply()["event"]["op"]))
        except EOFError:
            assert got == list(range(len(got))), "what came before it was dropped is whole"
        assert 0 < len(got) < 20_000
        until(lambda: server.counts["dropped"] == 1)


def test_subscriptions_are_limited_and_given_back():
    events = stream()
    with serving(events=events) as server:
        open_ones = [connect(server.path) for _ in range(SUBSCRIBERS)]
        for one in open_ones:
            subscribe(one)
        with connect(server.path) as further:
            with pytest.raises(Unavailable, match="subscriptions are open"):
                subscribe(further)
            open_ones.pop().close()
            until(lambda: events.readers < SUBSCRIBERS)
            assert not subscribe(further).refetch
        for one in open_ones:
            one.close()
        until(lambda: events.readers == 0)


def test_a_quiet_subscription_is_not_idle():
    events = stream()
    with serving(events=events, clients=4) as server, connect(server.path) as reader:
        subscribe(reader)
        for _ in range(12):  # each further one replaces the one that is idle longest
            other = connect(server.path)
            assert other.call("hello").phase == "ready"
        events.publish("write", op="late")
        assert [one.op for one in read(reader, 1)] == ["late"]


def test_after_a_purge_everything_is_fetched_again():
    events = stream()
    with serving(events=events) as server:
        with connect(server.path) as reader:
            subscribe(reader)
            events.publish("write", subject="Remember: secret")
            known = read(reader, 1)[0].id
            events.forget()
            with pytest.raises(Unavailable, match="closed"):
                reader.next_event(SECONDS)
        with connect(server.path) as reader:
            assert subscribe(reader, after=known).refetch
            assert reader.next_event(0.05) is None, "nothing of it is told again"


def test_health_is_told_when_it_changes():
    events = stream()
    for phase, degraded in (("warming", ["vectors"]), ("warming", ["vectors"]), ("ready", []), ("ready", [])):
        events.health(phase, degraded, [])
    told = events.after(0)
    assert told is not None
    assert [(one.phase, one.degraded) for _, one in told] == [("warming", ["vectors"]), ("ready", [])]
