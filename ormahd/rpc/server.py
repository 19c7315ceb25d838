"""The socket server: one thread reads and writes all connections, worker threads in pools answer the requests.

All sockets are non-blocking and the buffers of each connection are bounded. So a client that is slow, idle or sends invalid
data does not affect other clients.
"""

from __future__ import annotations

import logging
import selectors
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from msgspec import Struct

from ormahd.api import Call
from ormahd.errors import BadRequest, OrmahError, Unavailable
from ormahd.process import priority
from ormahd.rpc import sockets
from ormahd.rpc.codec import HOOK, JSON, MERGE, MSGPACK, pack, read_call, read_id
from ormahd.rpc.connection import Answer, Channel, Counts, Hook, LoopWaker, RequestHandler, log_request
from ormahd.rpc.pools import PendingRequest, Pools, lane_of
from ormahd.rpc.sockets import Listener, Listening
from ormahd.rpc.subscriptions import SUBSCRIBE, Subscriptions
from ormahd.state.events import EventStream

log = logging.getLogger("ormahd.server")

TICK_SECONDS: Final = 1.0
FLUSH_SECONDS: Final = 2.0
OPAQUE: Final = frozenset({HOOK, MERGE})
"""Kinds of frames whose bodies are not calls. An empty body in the reply means that there is no answer."""
READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE


class Limits(Struct, frozen=True):
    """Limits of one server."""

    threads: int = 8
    """Number of threads of the read pool: quick requests that are answered at the same time."""
    clients: int = 128
    """Maximum number of open connections. A further one replaces the one idle longest, or is refused if none is idle."""
    frame_bytes: int = 16_777_216
    """Largest body of one frame, in bytes. A note has at most 10 MB."""
    slow_seconds: float = 30.0
    """A connection is closed if sending or receiving one frame takes longer than this."""


class Server:
    """Listens on a socket, reads calls, lets worker threads answer them, and sends the replies. May be started once."""

    def __init__(
        self,
        at: Path | Listening,
        limits: Limits = Limits(),  # noqa: B008 - it is frozen
        *,
        on_broken: Callable[[], None] = lambda: None,
        events: EventStream | None = None,
    ) -> None:
        """Create a server that will listen at the path `at`, or on the socket `at` that already listens.

        `on_broken` is called if an exception ends the server's loop. `events` are sent to clients that subscribed.

        Raises:
            Conflict, BadRequest, Unavailable: from `sockets.listen`, if `at` is a path.
        """
        self._limits = limits
        self._counts = Counts()
        self._pools = Pools(limits.threads)
        self._selector = selectors.DefaultSelector()
        listening = at if isinstance(at, Listening) else sockets.listen(at)
        self._listener = Listener(listening, self._selector, self._counts)
        self._channels: set[Channel] = set()
        self._waker = LoopWaker()
        self._subscriptions: Subscriptions | None = None
        if events is not None:
            self._subscriptions = Subscriptions(events)
            events.wake = self._waker.wake
        self._thread = threading.Thread(target=self._loop, name="server", daemon=True)
        self._stopping = threading.Event()
        self._drained = threading.Event()
        self._on_broken = on_broken
        self._swept = 0.0
        self._timed = False
        self._flush_until: float | None = None
        self._beat = time.monotonic()
        self._tick = max(0.02, min(TICK_SECONDS, limits.slow_seconds / 4))

    # ------------------------------------------------------------ called from other threads

    @property
    def path(self) -> Path:
        """Return the path of the socket."""
        return self._listener.path

    @property
    def clients(self) -> int:
        """Number of open connections."""
        return len(self._channels)

    @property
    def counts(self) -> dict[str, int]:
        """Return the counts of requests, errors and connections."""
        return self._counts.read()

    def warnings(self) -> list[str]:
        """Check the socket's file, and return its problems as sentences for people.

        If the file was removed or replaced, the server's loop tries to create it again.
        """
        if self._listener.intact:
            return []
        self._listener.check_soon()
        self._waker.wake()
        return [self._listener.lost or f"the socket {self.path} was taken away; it is being made again"]

    def alive(self, within: float) -> bool:
        """Return whether the server's loop has run in the last `within` seconds. It runs at least every 10 seconds."""
        return self._thread.is_alive() and time.monotonic() - self._beat < within

    def start(self, answer: Answer, hook: Hook | None = None) -> None:
        """Answer clients from now on. `answer` and `hook` run in worker threads."""
        self._handler = RequestHandler(answer, hook, self._limits.frame_bytes, self._counts)
        self._selector.register(self._waker.out, READ, self._waker.drain)
        self._listener.open()
        self._thread.start()
        log.info("listening at %s", self.path)

    def stop(self, drain_seconds: float) -> bool:
        """Stop accepting requests, let running requests end, send their replies, close all connections.

        Return False if some requests still ran after `drain_seconds`; they are abandoned.
        """
        self._stopping.set()
        self._waker.wake()
        if self._thread.ident is None:  # never started
            self._listener.close()
            return True
        self._drained.wait()
        whole = self._pools.close(drain_seconds)
        if not whole:
            running = sum(channel.in_flight for channel in list(self._channels))
            log.warning("%d requests were still running after %g s and are left", running, drain_seconds)
        self._flush_until = time.monotonic() + FLUSH_SECONDS  # from now on the loop only sends replies, then ends
        self._waker.wake()
        self._thread.join(FLUSH_SECONDS + 1.0)
        return whole

    # ------------------------------------------------------------ the loop

    def _loop(self) -> None:
        """Serve all connections until `_flush_until`, or until all replies are sent after it was set. The body of the
        server's thread."""
        priority.eager()
        try:
            while self._flush_until is None or (
                time.monotonic() < self._flush_until and any(channel.pending for channel in self._channels)
            ):
                # Serve the connections that are ready, new ones, and those that a worker thread has changed
                self._beat = time.monotonic()
                for key, mask in self._selector.select(self._wait_seconds()):
                    if isinstance(key.data, Channel):
                        self._serve(key.data, mask)
                    else:
                        key.data()
                self._welcome()
                while self._waker.channels:
                    self._serve(self._waker.channels.popleft(), 0)
                self._feed()

                # Periodic work, and the first step of stopping
                now = time.monotonic()
                if now - self._swept >= self._tick:
                    self._sweep(now)
                if self._stopping.is_set() and not self._drained.is_set():
                    self._stop_listening()
        except Exception:
            log.exception("the server's loop broke")
            self._on_broken()
        finally:
            self._stop_listening()
            for channel in list(self._channels):
                self._close(channel)
            self._selector.close()

    def _wait_seconds(self) -> float:
        """Return how many seconds the loop may wait for input before periodic work is due."""
        if self._flush_until is not None:
            return 0.05
        timed = self._timed or self._listener.paused_until is not None
        if timed:
            return self._tick
        now = time.monotonic()
        # Only a sweep serves the listener: a shorter wait than until the next sweep would make the loop spin.
        return max(self._listener.seconds_to_check(now), self._swept + self._tick - now)

    def _stop_listening(self) -> None:
        """Close the listening socket, once. Connections continue."""
        if not self._drained.is_set():
            self._listener.close()
            self._drained.set()

    # ------------------------------------------------------------ connections

    def _welcome(self) -> None:
        """Take over the connections that the listener has accepted."""
        limit = self._limits.clients
        while self._listener.accepted:
            sock = self._listener.accepted.popleft()
            channel = Channel(sock, self._limits.frame_bytes, time.monotonic(), self._waker)
            if len(self._channels) >= limit and not self._close_longest_idle():
                log.warning("a connection was refused: %d are open", len(self._channels))
                self._counts.add("refused")
                crowded = {"reason": "crowded"}
                error = Unavailable(f"{limit} connections are open already", hint="close some", data=crowded)
                channel.send(self._handler.error_frame(JSON, None, error))
                channel.close()
                continue
            self._counts.add("connections")
            self._channels.add(channel)
            self._serve(channel, READ)  # the first request has often arrived already

    def _close_longest_idle(self) -> bool:
        """Close the connection that was idle longest. Return False if no connection is idle.

        So a client that leaks connections does not lock out other clients.
        """
        idle = [channel for channel in self._channels if channel.idle]
        if not idle:
            return False
        longest = min(idle, key=lambda channel: channel.active_at)
        count, rested = len(self._channels), time.monotonic() - longest.active_at
        log.warning("%d connections are open: one that rested for %.0f s is closed", count, rested)
        self._counts.add("dropped")
        self._close(longest)
        return True

    def _serve(self, channel: Channel, mask: int) -> None:
        """Serve one connection once: send, receive, start complete requests, and update what the selector waits for.
        `mask`: READ, WRITE or both, for which the socket is ready."""
        if channel.closed:
            return
        try:
            if mask & WRITE and channel.flush():
                channel.stuck_since = None
            if mask & READ:
                channel.receive()
            channel.active_at = time.monotonic()
            self._take_frames(channel)
            self._settle(channel)
        except Exception:  # an error on one connection must not affect the others
            log.exception("a connection broke")
            self._close(channel)

    def _take_frames(self, channel: Channel) -> None:
        """Take the complete frames of a connection, as long as it has capacity. Send an error for an invalid or
        incomplete frame."""
        while not channel.closing and not channel.full:
            try:
                frame = channel.frames.next()
            except BadRequest as exc:
                self._refuse(channel, channel.frames.kind, exc)
                return
            if frame is None:
                break
            channel.frame_since = None
            self._handle_frame(channel, *frame)
        if channel.ended and channel.frames.partial and not channel.closing and not channel.full:
            error = BadRequest(
                f"frame: it ended after {channel.frames.partial} bytes, before it was whole",
                hint="see PROTOCOL.md",
                data={"field": "body"},
            )
            self._refuse(channel, channel.frames.kind, error)

    def _handle_frame(self, channel: Channel, kind: bytes, body: bytes) -> None:
        """Handle one frame: give it to a worker thread, subscribe, or send an error at once."""
        # While the daemon stops, nothing new begins
        if self._stopping.is_set():
            if kind in OPAQUE:
                channel.send(pack(kind, b""))
            else:
                error = Unavailable(
                    "the daemon is stopping",
                    hint="start it again with: ormahctl up",
                    data={"reason": "stopping"},
                )
                channel.send(self._handler.error_frame(kind, read_id(kind, body), error))
            return
        if kind in OPAQUE:
            self._enqueue("hook" if kind == HOOK else "merge", channel, kind, body)
            return

        # A call. Without a readable id its error cannot be assigned to a request, so the connection ends
        try:
            call = read_call(kind, body)
        except OrmahError as exc:
            id_ = read_id(kind, body)
            if id_ is None:
                self._refuse(channel, kind, exc)
            else:
                self._counts.add("errors")
                channel.send(self._handler.error_frame(kind, id_, exc))
            return
        if call.method == SUBSCRIBE and self._subscriptions is not None:
            self._subscribe(channel, kind, call, self._subscriptions)
        else:
            self._enqueue(lane_of(call), channel, kind, call)

    def _subscribe(self, channel: Channel, kind: bytes, call: Call, to: Subscriptions) -> None:
        """Begin to send events on a connection, and log the request."""
        begun, outcome = time.perf_counter(), "ok"
        self._counts.add("requests")
        try:
            to.begin(channel, kind, call)
        except OrmahError as exc:
            self._counts.add("errors")
            outcome = exc.code
            channel.send(self._handler.error_frame(kind, call.id, exc))
        log_request(call.agent, call.method, (time.perf_counter() - begun) * 1000, outcome)

    def _feed(self) -> None:
        """Send new events to the subscribers, and close the connections of those that read too slowly."""
        for channel, keeps_up in self._subscriptions.feed() if self._subscriptions is not None else ():
            if keeps_up:
                self._settle(channel)
            else:
                log.info("a subscriber was dropped: it reads events too slowly")
                self._counts.add("dropped")
                self._close(channel)

    def _refuse(self, channel: Channel, kind: bytes | None, error: OrmahError) -> None:
        """Send an error reply without an id, and stop reading from this connection."""
        log.info("a frame was refused: %s", error.code)
        self._counts.add("errors")
        channel.closing = True
        channel.send(self._handler.error_frame(MSGPACK if kind == MSGPACK else JSON, None, error))

    def _enqueue(self, lane: str, channel: Channel, kind: bytes, content: Call | bytes) -> None:
        """Count a request as running, and put it into the queue of its pool. `content`: the call, or the body of a hook
        or merge."""
        with channel.lock:
            channel.in_flight += 1
        self._pools.put(PendingRequest(lane, self._handler, channel, kind, content))

    def _settle(self, channel: Channel) -> None:
        """Register a connection with the selector for reading and writing as needed, update its timers, and close it if
        it is finished."""
        now = time.monotonic()
        if channel.finished:
            self._close(channel)  # what was sent stays readable for the peer
            return
        waiting = not channel.ended and not channel.closing and not channel.full
        arriving = channel.frames.partial > 0 and waiting
        channel.frame_since = (channel.frame_since or now) if arriving else None
        channel.stuck_since = (channel.stuck_since or now) if channel.pending else None
        self._timed = self._timed or arriving or channel.pending > 0
        mask = (READ if waiting else 0) | (WRITE if channel.pending else 0)
        if mask == channel.mask:
            return
        if channel.mask == 0:
            self._selector.register(channel.sock, mask, channel)
        elif mask == 0:
            self._selector.unregister(channel.sock)
        else:
            self._selector.modify(channel.sock, mask, channel)
        channel.mask = mask

    def _close(self, channel: Channel) -> None:
        """Remove a connection and close it."""
        if channel.mask:
            self._selector.unregister(channel.sock)
            channel.mask = 0
        self._channels.discard(channel)
        channel.close()
        if channel.subscribed and self._subscriptions is not None:
            self._subscriptions.drop()

    # ------------------------------------------------------------ periodic work

    def _sweep(self, now: float) -> None:
        """Close connections that are too slow. Let the listener check the socket's file and accept connections again."""
        self._swept = now
        slow = self._limits.slow_seconds
        for channel in list(self._channels):
            if min(channel.frame_since or now, channel.stuck_since or now) < now - slow:
                log.info("a connection was closed: one frame took more than %g s", slow)
                self._counts.add("dropped")
                self._close(channel)
        self._timed = any(c.frame_since is not None or c.stuck_since is not None for c in self._channels)
        if not self._stopping.is_set():
            self._listener.do_periodic_work(now)
            self._welcome()
