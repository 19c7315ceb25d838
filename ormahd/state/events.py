"""The stream of events of a running daemon. The last ones are kept in memory, so that a client can ask for those it
missed.

Publishing takes microseconds and never waits for a reader: it appends to a ring buffer and wakes the server's loop.
"""

from __future__ import annotations

import secrets
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC
from typing import Any, Final

from ormahd.api import EventKind, MemoryEvent
from ormahd.errors import BadRequest
from ormahd.model.change import Clock, Committed, Kind

MAX_EVENTS: Final = 4_096
"""Maximum number of events that are kept: those of about a thousand writes by an agent."""
MAX_IDS: Final = 40_000
"""Maximum number of memory ids in all kept events together (an op of an import has many). At 85 bytes an id, the events
take 8 MB at most."""
NODES: Final = 100
"""Maximum number of memory ids in one event."""


class EventStream:
    """Publishes the daemon's events, and keeps the newest ones in a ring buffer, numbered from 1. Thread-safe."""

    def __init__(self, clock: Clock, keep: int = MAX_EVENTS) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._ring: deque[MemoryEvent] = deque()
        self._keep = keep
        self._id_count = 0
        self._epoch = secrets.token_hex(4)
        self._last = 0
        self._health: tuple[str, tuple[str, ...], tuple[str, ...]] | None = None
        self.readers = 0
        """Number of clients that are subscribed. Set by the server."""
        self.wake: Callable[[], None] = lambda: None
        """Called after each event if there are readers, in the thread that published it. It must not block."""

    @property
    def last(self) -> int:
        """The number of the last event; 0 if there was none."""
        return self._last

    def id_of(self, number: int) -> str:
        """Return the id of the event with this number."""
        return f"{self._epoch}.{number}"

    def publish(self, event: EventKind, **fields: Any) -> None:
        """Publish an event. `fields`: those of `MemoryEvent` that this kind of event has."""
        time = self._clock().astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        with self._lock:
            self._last += 1
            self._ring.append(MemoryEvent(id=self.id_of(self._last), time=time, event=event, **fields))
            self._id_count += len(self._ring[-1].nodes)
            while len(self._ring) > self._keep or self._id_count > MAX_IDS:
                self._id_count -= len(self._ring.popleft().nodes)
        if self.readers:
            self.wake()

    def after(self, number: int) -> list[tuple[int, MemoryEvent]] | None:
        """Return the events after `number` as (number, event), oldest first; None if some of them are no longer
        kept."""
        with self._lock:
            missed = self._last - number
            if not 0 <= missed <= len(self._ring):
                return None
            return [(self._last + at + 1, self._ring[at]) for at in range(-missed, 0)]

    def number_of(self, id_: str) -> int | None:
        """Return the number of the event with this id; None if the id is of another run of the daemon, or if events
        after it are no longer kept.

        Raises BadRequest if `id_` does not have the form of an event's id.
        """
        epoch, dot, number = id_.partition(".")
        if not (dot and epoch and number.isascii() and number.isdigit() and len(number) < 20):
            message = f"after: {id_[:60]!r} is no id of an event"
            raise BadRequest(message, hint="events have it as `id`", data={"field": "after"})
        with self._lock:
            known = epoch == self._epoch and self._last - len(self._ring) <= int(number) <= self._last
            return int(number) if known else None

    def forget(self) -> None:
        """Discard all events, because they may name what was purged. For every reader `after` then returns None, so
        that it fetches everything again."""
        with self._lock:
            self._ring.clear()
            self._id_count = 0
            self._epoch = secrets.token_hex(4)
            self._last += 1  # so that every reader has missed an event, even one that was up to date
        self.wake()

    def committed(self, batch: Iterable[Committed]) -> None:
        """Publish one event for each op of a batch, in order."""
        for done in batch:
            nodes = _kept_ids(change.node_id for change in done.changes)
            event: EventKind = "edit" if done.kind is Kind.EDIT else "write"
            op = {"op": done.op, "commit": done.commit, "kind": done.kind.value, "source": done.source}
            self.publish(event, **op, subject=done.subject, nodes=nodes, files=len(done.changes))

    def health(self, phase: str, degraded: Sequence[str], warnings: Sequence[str]) -> None:
        """Publish the daemon's health if it differs from the health that was published last."""
        with self._lock:
            found = (phase, tuple(degraded), tuple(warnings))
            same, self._health = self._health == found, found
        if not same:
            self.publish("health", phase=phase, degraded=list(degraded), warnings=list(warnings))

    def observed(self, files: int, ids: Sequence[str | None]) -> None:
        """Publish that files changed without an op. `files`: their number; `ids`: the memories in them."""
        if files:
            self.publish("outside", nodes=_kept_ids(ids), files=files)


def _kept_ids(ids: Iterable[str | None]) -> list[str]:
    """Return the ids, each once, without None, cut to `NODES`."""
    return list(dict.fromkeys(node_id for node_id in ids if node_id))[:NODES]
