"""The daemon's end of one connection, with buffers for incoming frames and outgoing replies.

The server's loop owns it; worker threads may call `send`, `done` and `gone`. Nothing here blocks. If a peer does not read its
replies, they stay in the buffer, and the server stops reading from this peer and finally closes the connection.
"""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from collections import deque
from typing import Final

from ormahd.rpc.frames import Frames

CHUNK: Final = 262_144
IN_FLIGHT: Final = 4
"""Maximum number of requests of one connection that run at the same time; further ones wait in the socket's buffer."""


class Channel:
    def __init__(self, sock: socket.socket, limit: int, now: float) -> None:
        self.sock = sock
        self.frames = Frames(limit)
        self.limit = limit
        self.in_flight = 0
        """Number of requests that are being answered; changed under `lock`."""
        self.lock = threading.Lock()
        self.mask = 0
        """The events for which the socket is registered with the selector. Used by the server's loop only."""
        self.ended = False
        """The peer has closed its sending side, or the connection failed."""
        self.closing = False
        """No further frames are read, because a fatal error was sent to the peer or the peer is gone."""
        self.closed = False
        self.discarded = 0
        """Number of bytes received and discarded after `closing` was set."""
        self.rested = now
        """Monotonic time of the last activity on the connection."""
        self.frame_since: float | None = None
        self.stuck_since: float | None = None
        self.linger_until: float | None = None
        self._out: deque[memoryview] = deque()
        self._pending = 0

    @property
    def pending(self) -> int:
        """Number of reply bytes that are not sent yet."""
        return self._pending

    @property
    def resting(self) -> bool:
        """Whether the connection is idle: no running request, no unsent reply, no partial frame and no unread input."""
        if self.closed or self.in_flight or self._pending or self.frame_since is not None:
            return False
        try:
            return not self.sock.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        except OSError:
            return True  # the peer is gone

    @property
    def full(self) -> bool:
        """Whether the connection takes no further request until running requests end or unsent replies are sent."""
        return self.in_flight >= IN_FLIGHT or self._pending > self.limit

    def receive(self) -> bool:
        """Read the bytes that have arrived. Return False if the peer has closed the connection."""
        try:
            data = self.sock.recv(CHUNK)
        except BlockingIOError:
            return True
        except OSError:
            data = b""
        if not data:
            self.ended = True
            return False
        if self.closing:
            self.discarded += len(data)
        else:
            self.frames.feed(data)
        return True

    def send(self, data: bytes) -> None:
        """Queue a frame, and send as much of it as the socket takes without blocking. Any thread may call it."""
        with self.lock:
            if self.closed:
                return
            self._out.append(memoryview(data))
            self._pending += len(data)
            if len(self._out) == 1:
                self._write()

    def flush(self) -> int:
        """Send as many queued bytes as the socket takes without blocking. Return the number of bytes sent."""
        with self.lock:
            before = self._pending
            if not self.closed:
                self._write()
            return before - self._pending

    def _write(self) -> None:
        while self._out:
            part = self._out[0]
            try:
                count = self.sock.send(part)
            except BlockingIOError:
                return
            except OSError:  # the peer is gone: drop the rest
                self._out.clear()
                self._pending = 0
                self.ended = self.closing = True
                return
            self._pending -= count
            if count == len(part):
                self._out.popleft()
            else:
                self._out[0] = part[count:]

    def done(self) -> bool:
        """Count one request as answered. Return True if the server's loop must now handle this connection."""
        with self.lock:
            was_full = self.full
            self.in_flight -= 1
            return was_full or self.ended or self.closing or self.frames.partial > 0

    @property
    def finished(self) -> bool:
        """Whether the connection can be closed: it reads no further frames, and every request is answered and sent."""
        return (self.ended or self.closing) and self.in_flight == 0 and self._pending == 0

    def close(self) -> None:
        with self.lock:
            self.closed = True
            self._out.clear()
            self._pending = 0
            self.sock.close()

    def gone(self) -> bool:
        """Whether the peer has closed its end completely, so that nothing reads a reply. Any thread may call it."""
        with self.lock:
            if self.closed:
                return True
            poller = select.poll()
            poller.register(self.sock, 0)  # POLLHUP needs no mask; a peer that only ended its sending side sets none
            return any(mask & (select.POLLHUP | select.POLLERR) for _, mask in poller.poll(0))

    def say_goodbye(self) -> None:
        """Shut down the sending side, so that the peer reads the last reply and then the end of the stream."""
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_WR)
