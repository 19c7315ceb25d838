"""Subscriptions to events, each with the number of the last event that was sent. Used by the server's loop only.

A subscriber has a place in the ring of events, not a queue of its own. If it does not read, its place stays behind; once
the ring no longer has the next event for it, the connection is closed. So a stopped reader costs one socket buffer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from ormahd.api import Call, Reply, SubscribeParams, SubscribeResult
from ormahd.errors import Unavailable
from ormahd.rpc.codec import encode, pack, result_reply
from ormahd.rpc.connection import Channel
from ormahd.state.events import EventStream

SUBSCRIBE: Final = "events.subscribe"
SUBSCRIBERS: Final = 32
"""Maximum number of subscriptions: a quarter of the connections, so that leaked ones leave room for calls."""
AHEAD_BYTES: Final = 65_536
"""Number of unsent bytes from which a subscriber is sent nothing more until it reads."""


class Subscriber(Struct, eq=False):
    """One client connection that subscribed to events. `kind`: JSON or msgpack. `id`: that of the call that
    subscribed. `place`: the number of the last event that was sent. `only`: names of the events to send; None:
    all."""

    channel: Channel
    kind: bytes
    id: int | str | None
    place: int
    only: frozenset[str] | None


class Subscriptions:
    """The subscriptions of all connections. Sends them the events of `events`. Used by the server's loop only."""

    def __init__(self, events: EventStream) -> None:
        self._events = events
        self._all: list[Subscriber] = []

    def begin(self, channel: Channel, kind: bytes, call: Call) -> None:
        """Begin a subscription, and send the reply to the call. `feed` sends the events.

        Raises:
            BadRequest: `after` is no id of an event.
            Unavailable: there are too many subscriptions.
        """
        params: SubscribeParams = call.params
        self.drop()
        if len(self._all) >= SUBSCRIBERS:
            raise Unavailable(
                f"{SUBSCRIBERS} subscriptions are open already", hint="close one", data={"reason": "crowded"}
            )

        # Begin after the event that the client has seen. If it is no longer stored, the client must read all again
        place = None if params.after is None else self._events.number_of(params.after)
        refetch = params.after is not None and place is None
        if place is None:
            place = self._events.last
        result = SubscribeResult(last=self._events.id_of(place), refetch=refetch)
        channel.send(pack(kind, encode(kind, result_reply(call.id, result))))
        channel.subscribed = True
        only = None if params.only is None else frozenset(params.only)
        self._all.append(Subscriber(channel, kind, call.id, place, only))
        self._events.readers = len(self._all)

    def feed(self) -> Iterator[tuple[Channel, bool]]:
        """Send new events to the subscribers. Yield (connection, True) after sending to it. A subscriber that does not
        read is skipped.

        Yield (connection, False) for one that missed events, because they are no longer stored: the caller closes it.
        """
        last = self._events.last
        for one in self._all:
            if one.place == last or one.channel.closed or one.channel.pending >= AHEAD_BYTES:
                continue
            events = self._events.after(one.place)
            if events is None:
                yield one.channel, False
                continue
            for number, event in events:
                if one.channel.pending >= AHEAD_BYTES:
                    break
                if one.only is None or event.event in one.only:
                    one.channel.send(pack(one.kind, encode(one.kind, Reply(id=one.id, event=event))))
                one.place = number
            yield one.channel, True

    def drop(self) -> None:
        """Forget the subscriptions whose connections are closed."""
        self._all = [subscriber for subscriber in self._all if not subscriber.channel.closed]
        self._events.readers = len(self._all)
