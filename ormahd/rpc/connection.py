"""One connection of a client, and the answer to each of its requests.

The server's loop owns the connection and its buffers; worker threads may call `send`, `reply`, `done` and `disconnected`.
Nothing here blocks. If a peer does not read its replies, they stay in the buffer, and the server stops reading from this
peer and finally closes the connection.

Every failure of a request becomes an error reply and a line in the log. The line names the caller, the method, the
duration and the outcome, never the text of a note or of a query. Messages of exceptions, which may quote such a text,
are logged at debug level only.
"""

from __future__ import annotations

import errno
import logging
import os
import secrets
import select
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final

from ormahd import api
from ormahd.actions.amend import Progress
from ormahd.api import Call, Reply, Result
from ormahd.errors import Internal, OrmahError, TooLarge, Unavailable
from ormahd.rpc import merging
from ormahd.rpc.codec import HOOK, Frames, encode, error_reply, pack, result_reply
from ormahd.text.secrets import redact_name

CHUNK: Final = 262_144
IN_FLIGHT: Final = 4
"""Maximum number of requests of one connection that run at the same time; further ones wait in the socket's buffer."""
PROGRESS_BYTES: Final = 65_536
"""Number of unsent bytes from which a peer gets no further progress messages, because it does not read them."""


class LoopWaker:
    """Wakes the server's loop, which waits for its selector. Any thread may call `wake`."""

    def __init__(self) -> None:
        self.channels: deque[Channel] = deque()
        """Connections that worker threads have changed: the loop has to serve them."""
        self.out, self._in = socket.socketpair()
        self.out.setblocking(False)
        self._in.setblocking(False)

    def wake(self) -> None:
        """Wake the loop."""
        try:
            self._in.send(b"!")
        except OSError:
            return  # the buffer is full, so the loop wakes anyway; or the loop has ended

    def drain(self) -> None:
        """Read and drop the bytes that `wake` sent. Does not block."""
        while True:
            try:
                if len(self.out.recv(4096)) < 4096:  # the buffer is empty now
                    return
            except BlockingIOError:
                return


class Channel:
    """One connection of a client: its socket, the frames that arrive on it, and the queue of unsent replies."""

    def __init__(self, sock: socket.socket, limit: int, now: float, waker: LoopWaker) -> None:
        self.sock = sock
        self._waker = waker
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
        self.subscribed = False
        """Events are sent on this connection (`subscriptions`), so that it is never idle."""
        self.active_at = now
        """Monotonic time of the last activity on the connection."""
        self.frame_since: float | None = None
        self.stuck_since: float | None = None
        self._out: deque[memoryview] = deque()
        self._pending = 0

    @property
    def pending(self) -> int:
        """Number of reply bytes that are not sent yet."""
        return self._pending

    @property
    def idle(self) -> bool:
        """Whether the connection is idle: no running request, no unsent reply, no partial frame and no unread input."""
        if self.closed or self.subscribed or self.in_flight or self._pending or self.frame_since is not None:
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

    def reply(self, frame: bytes) -> None:
        """Send a frame from a worker thread. What the socket does not take is left to the server's loop."""
        self.send(frame)
        if self._pending:
            self._waker.channels.append(self)
            self._waker.wake()

    def flush(self) -> int:
        """Send as many queued bytes as the socket takes without blocking. Return the number of bytes sent."""
        with self.lock:
            before = self._pending
            if not self.closed:
                self._write()
            return before - self._pending

    def _write(self) -> None:
        """Send queued bytes until the socket's buffer is full. If the peer is gone, drop them. Called under `lock`."""
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

    def done(self) -> None:
        """Count one request as answered, and wake the server's loop if it must now handle this connection."""
        with self.lock:
            was_full = self.full
            self.in_flight -= 1
            served = was_full or self.ended or self.closing or self.frames.partial > 0
        if served:
            self._waker.channels.append(self)
            self._waker.wake()

    @property
    def finished(self) -> bool:
        """Whether the connection can be closed: it reads no further frames, and every request is answered and sent."""
        return (self.ended or self.closing) and self.in_flight == 0 and self._pending == 0

    def close(self) -> None:
        """Close the socket and drop unsent bytes."""
        with self.lock:
            self.closed = True
            self._out.clear()
            self._pending = 0
            self.sock.close()

    def disconnected(self) -> bool:
        """Whether the peer has closed its end completely, so that nothing reads a reply. Any thread may call it."""
        with self.lock:
            if self.closed:
                return True
            poller = select.poll()
            poller.register(self.sock, 0)  # POLLHUP needs no mask; a peer that only ended its sending side sets none
            return any(mask & (select.POLLHUP | select.POLLERR) for _, mask in poller.poll(0))


log = logging.getLogger("ormahd.rpc")

Answer = Callable[[Call, Progress], Result]
Hook = Callable[[bytes, Channel], bytes]
"""(body of a hook frame, its connection) -> body of the reply."""

NAME_CHARACTERS: Final = 40
_REFUSED: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


class Counts:
    """Counts what happened since the server started: requests, errors, faults, connections, refused, dropped.
    Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts = dict.fromkeys(("requests", "errors", "faults", "connections", "refused", "dropped"), 0)

    def add(self, word: str) -> None:
        """Count one event. `word`: its name in the class's docstring."""
        with self._lock:
            self._counts[word] += 1

    def read(self) -> dict[str, int]:
        """Return all counts."""
        with self._lock:
            return dict(self._counts)


class RequestHandler:
    """Answers calls, hooks and merges. Each gets a reply frame, also if it fails."""

    def __init__(self, answer: Answer, hook: Hook | None, limit: int, counts: Counts) -> None:
        self._answer = answer
        self._hook = hook
        self._limit = limit
        self._counts = counts

    def answer_call(self, channel: Channel, kind: bytes, call: Call) -> None:
        """Send the reply to a call on its connection, then write the log line."""
        begun = time.perf_counter()
        self._counts.add("requests")

        def progress(done: int, total: int, stage: str) -> None:
            """Send a progress message, unless the peer does not read its messages."""
            step = Reply(id=call.id, progress=api.Progress(done=done, total=total, stage=stage))
            if channel.pending < PROGRESS_BYTES:
                channel.reply(pack(kind, encode(kind, step)))

        # The reply: the result, the error that the action raised, or an error about a fault of the daemon
        outcome, fault = "ok", None
        try:
            body = encode(kind, result_reply(call.id, self._answer(call, progress)))
            if len(body) > self._limit:
                raise TooLarge(
                    f"the answer has {len(body)} bytes, a frame takes {self._limit}",
                    hint="ask for less at once (limit)",
                    data={"limit": self._limit},
                )
            frame = pack(kind, body)
        except OrmahError as exc:
            self._counts.add("errors")
            outcome, frame = exc.code, self.error_frame(kind, call.id, exc)
        except (Exception, SystemExit) as exc:  # noqa: BLE001 - the named edge: one request fails, the daemon lives
            self._counts.add("faults")
            incident = secrets.token_hex(4)
            outcome, fault = f"internal {incident}", exc
            error: OrmahError = Internal(
                f"the daemon stumbled over this request (incident {incident})",
                hint=f"the log has the rest: ormahctl logs, look for {incident}",
                data={"incident": incident},
            )
            if isinstance(exc, OSError) and exc.errno in _REFUSED:
                name = os.fsdecode(exc.filename) if isinstance(exc.filename, str | bytes) else "a file"
                error = Unavailable(
                    f"{name} cannot be read or written: {exc.strerror}",
                    hint=f"give the user that runs the daemon its rights (ormahctl doctor); the log has the rest: incident {incident}",
                    data={"incident": incident},
                )
            frame = self.error_frame(kind, call.id, error)

        # Send it before anything is logged, so that the client waits less
        elapsed = (time.perf_counter() - begun) * 1000
        channel.reply(frame)
        log_request(call.agent, call.method, elapsed, outcome)
        if fault is not None:
            _log_fault(call.method, outcome, fault)

    def hook_output(self, channel: Channel, body: bytes) -> bytes:
        """Return the body of the reply to a hook: empty if the hook should print nothing, and after any failure.

        If the hook's process has already ended, because its deadline passed while it waited, the hook is not run.
        """
        output = b""
        if self._hook is not None and not channel.disconnected():
            try:
                output = self._hook(body, channel)
            except (Exception, SystemExit) as exc:  # noqa: BLE001 - the named edge: a hook fails open
                self._counts.add("faults")
                _log_fault("hook", f"internal {secrets.token_hex(4)}", exc)
        return output

    def merge_output(self, body: bytes) -> bytes:
        """Return the body of the reply to git's merge driver.

        After a failure it is empty, and the driver falls back to its helper process or to git's text merge.
        """
        begun = time.perf_counter()
        self._counts.add("requests")
        answer, outcome = b"", f"internal {secrets.token_hex(4)}"
        try:
            answer = merging.answer(body)
            outcome = merging.OUTCOMES[answer[:1]]
        except Exception as exc:  # noqa: BLE001 - one merge fails, and the driver reports that to git
            self._counts.add("faults")
            _log_fault("merge", outcome, exc)
        log_request("git", "merge", (time.perf_counter() - begun) * 1000, outcome)
        return answer

    def answer_opaque(self, channel: Channel, kind: bytes, body: bytes) -> None:
        """Send the reply to a hook or a merge on its connection."""
        output = self.hook_output(channel, body) if kind == HOOK else self.merge_output(body)
        channel.reply(pack(kind, output if len(output) <= self._limit else b""))

    @staticmethod
    def error_frame(kind: bytes, id_: int | str | None, error: OrmahError) -> bytes:
        """Return the frame of an error reply. If the error cannot be encoded, use only its message, made valid UTF-8."""
        try:
            return pack(kind, encode(kind, error_reply(id_, error)))
        except (TypeError, ValueError, OverflowError):
            plain = type(error)(error.message.encode("utf-8", "replace").decode(), hint=None)
            return pack(kind, encode(kind, error_reply(id_, plain)))


def log_request(agent: str | None, method: str, milliseconds: float, outcome: str) -> None:
    """Log one line about a request. The log may write it later, together with other lines (`logs.LATER`)."""
    name = redact_name(agent or "-").text
    who = "".join(c if c.isprintable() else "?" for c in name[:NAME_CHARACTERS]) + "…" * (len(name) > NAME_CHARACTERS)
    fields = {"agent": who, "method": method, "ms": round(milliseconds, 1), "outcome": outcome}
    extra = {"later": True, "fields": fields}
    log.info("%s %s %.1f ms %s", who, method, milliseconds, outcome, extra=extra)


def _log_fault(method: str, outcome: str, exc: BaseException) -> None:
    """Log the traceback of `exc`, which ended a request. The log omits the exception's message except at debug level,
    because the message may quote a note."""
    log.error("%s: %s", method, outcome, exc_info=exc)
