"""The daemon's end of one connection: frames that arrive, replies that wait to be taken.

The server's loop owns it; worker threads only `send`. Nothing here waits: a peer that does not read lets its own
replies pile up (and is read no further, then dropped), and no thread ever stands still for it.
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
"""Requests of one connection that are answered at the same time; further ones wait in its socket."""


class Channel:
    def __init__(self, sock: socket.socket, limit: int, now: float) -> None:
        self.sock = sock
        self.frames = Frames(limit)
        self.limit = limit
        self.in_flight = 0
        """Requests that are being answered; changed under `lock`."""
        self.lock = threading.Lock()
        self.mask = 0
        """The selector's events at present; the loop's own."""
        self.ended = False
        """The peer sends no more."""
        self.closing = False
        """We take no more: an error that ends the connection was answered."""
        self.closed = False
        self.discarded = 0
        """Bytes that came after `closing`."""
        self.rested = now
        """When something last moved."""
        self.frame_since: float | None = None
        self.stuck_since: float | None = None
        self.linger_until: float | None = None
        self._out: deque[memoryview] = deque()
        self._pending = 0

    @property
    def pending(self) -> int:
        """Bytes of replies that the peer has not taken yet."""
        return self._pending

    @property
    def resting(self) -> bool:
        """True when nothing is under way: no request, no reply, no part of a frame, and nothing has arrived unread."""
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
        """True when no further request is taken before earlier ones are answered and their replies are read."""
        return self.in_flight >= IN_FLIGHT or self._pending > self.limit

    def receive(self) -> bool:
        """Take what has arrived; False when nothing will follow."""
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
        """Queue a frame and write what the peer takes at once. Any thread."""
        with self.lock:
            if self.closed:
                return
            self._out.append(memoryview(data))
            self._pending += len(data)
            if len(self._out) == 1:
                self._write()

    def flush(self) -> int:
        """Write what the peer takes; the number of bytes that went."""
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
            except OSError:  # the peer is gone: nobody will read the rest
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
        """One request less in flight; True when the loop has to look at this channel."""
        with self.lock:
            was_full = self.full
            self.in_flight -= 1
            return was_full or self.ended or self.closing or self.frames.partial > 0

    @property
    def finished(self) -> bool:
        """True when nothing is left to answer, to send or to wait for."""
        return (self.ended or self.closing) and self.in_flight == 0 and self._pending == 0

    def close(self) -> None:
        with self.lock:
            self.closed = True
            self._out.clear()
            self._pending = 0
            self.sock.close()

    def gone(self) -> bool:
        """True when the peer has closed its end altogether, so that nobody will read a reply. Any thread."""
        with self.lock:
            if self.closed:
                return True
            poller = select.poll()
            poller.register(self.sock, 0)  # a hang-up is told unasked; a peer that only sends no more has not hung up
            return any(mask & (select.POLLHUP | select.POLLERR) for _, mask in poller.poll(0))

    def say_goodbye(self) -> None:
        """Tell the peer that nothing follows, so that it reads our last reply before it sees the end."""
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_WR)
