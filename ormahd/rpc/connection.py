"""One connection of a client, and the answer to each of its requests.

The server's loop owns the connection and its buffers; worker threads may call `send`, `done` and `disconnected`.
Nothing here blocks. If a peer does not read its replies, they stay in the buffer, and the server stops reading from this
peer and finally closes the connection.

Every failure of a request becomes an error reply and a line in the log. The line names the caller, the method, the
duration and the outcome, never the text of a note or of a query. Messages of exceptions, which may quote such a text,
are logged at debug level only.
"""

from __future__ import annotations

import errno
import itertools
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

from ormahd.api import Call, Progress, Reply, Result
from ormahd.errors import Internal, OrmahError, TooLarge, Unavailable
from ormahd.rpc import merging
from ormahd.rpc.codec import HOOK, MERGE, Frames, encode, error_reply, pack, result_reply
from ormahd.text.secrets import redact_name

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
        self.subscribed = False
        """Events are sent on this connection (`subscriptions`), so that it is never idle."""
        self.rested = now
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
    def resting(self) -> bool:
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

    def disconnected(self) -> bool:
        """Whether the peer has closed its end completely, so that nothing reads a reply. Any thread may call it."""
        with self.lock:
            if self.closed:
                return True
            poller = select.poll()
            poller.register(self.sock, 0)  # POLLHUP needs no mask; a peer that only ended its sending side sets none
            return any(mask & (select.POLLHUP | select.POLLERR) for _, mask in poller.poll(0))


log = logging.getLogger("ormahd.rpc")

Answer = Callable[[Call, Callable[[Progress], None]], Result]
Hook = Callable[[bytes, Callable[[], bool]], bytes]
"""(body of a hook frame, function that tells whether the sender has disconnected) -> body of the reply."""

NAME_CHARACTERS: Final = 40
_REFUSED: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


class Counts:
    """Counts what happened since the server started: requests, errors, faults, connections, refused, dropped.
    Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts = dict.fromkeys(("requests", "errors", "faults", "connections", "refused", "dropped"), 0)

    def add(self, word: str) -> None:
        with self._lock:
            self._counts[word] += 1

    def read(self) -> dict[str, int]:
        with self._lock:
            return dict(self._counts)


class RequestHandler:
    """Answers calls, hooks and merges: returns the bytes of the reply frame, also if the request fails."""

    def __init__(self, answer: Answer, hook: Hook | None, limit: int, counts: Counts) -> None:
        self._answer = answer
        self._hook = hook
        self._limit = limit
        self._counts = counts

    def reply(self, kind: bytes, call: Call, send: Callable[[bytes], None], progress: Callable[[bytes], None]) -> None:
        """Answer a call and `send` the reply frame, then write the log line. `progress` sends a progress frame."""
        begun = time.perf_counter()
        self._counts.add("requests")

        def tell(step: Progress) -> None:
            progress(pack(kind, encode(kind, Reply(id=call.id, progress=step))))

        outcome, fault = "ok", None
        try:
            frame = self._fitting(kind, call, self._answer(call, tell))
        except OrmahError as exc:
            self._counts.add("errors")
            outcome, frame = exc.code, self.error(kind, call.id, exc)
        except (Exception, SystemExit) as exc:  # noqa: BLE001 - the named edge: one request fails, the daemon lives
            self._counts.add("faults")
            incident = secrets.token_hex(4)
            outcome, fault = f"internal {incident}", exc
            refused = isinstance(exc, OSError) and exc.errno in _REFUSED
            frame = self.error(kind, call.id, _refused(exc, incident) if refused else _apology(incident))
        elapsed = (time.perf_counter() - begun) * 1000
        send(frame)
        request(call.agent, call.method, elapsed, outcome)
        if fault is not None:
            _log_fault(call.method, outcome, fault)

    def hook(self, body: bytes, disconnected: Callable[[], bool]) -> bytes:
        """Return the reply frame to a hook. Its body is empty if the hook should print nothing, and after any failure.

        If the hook's process has already ended, because its deadline passed while it waited, the hook is not run.
        """
        output = b""
        if self._hook is not None and not disconnected():
            try:
                output = self._hook(body, disconnected)
            except (Exception, SystemExit) as exc:  # noqa: BLE001 - the named edge: a hook fails open
                self._counts.add("faults")
                _log_fault("hook", f"internal {secrets.token_hex(4)}", exc)
        return pack(HOOK, output if len(output) <= self._limit else b"")

    def merge(self, body: bytes) -> bytes:
        """Return the reply frame to git's merge driver.

        After a failure its body is empty, and the driver falls back to its helper process or to git's text merge.
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
        request("git", "merge", (time.perf_counter() - begun) * 1000, outcome)
        return pack(MERGE, answer if len(answer) <= self._limit else b"")

    def _fitting(self, kind: bytes, call: Call, result: Result) -> bytes:
        body = encode(kind, result_reply(call.id, result))
        if len(body) > self._limit:
            raise TooLarge(
                f"the answer has {len(body)} bytes, a frame takes {self._limit}",
                hint="ask for less at once (limit)",
                data={"limit": self._limit},
            )
        return pack(kind, body)

    @staticmethod
    def error(kind: bytes, id_: int | str | None, error: OrmahError) -> bytes:
        """Return the frame of an error reply. If the error cannot be encoded, use only its message, made valid UTF-8."""
        try:
            return pack(kind, encode(kind, error_reply(id_, error)))
        except (TypeError, ValueError, OverflowError):
            plain = type(error)(error.message.encode("utf-8", "replace").decode(), hint=None)
            return pack(kind, encode(kind, error_reply(id_, plain)))


def request(agent: str | None, method: str, milliseconds: float, outcome: str) -> None:
    """Log one line about a request. The log may write it later, together with other lines (`logs.LATER`)."""
    who = _printable(redact_name(agent or "-").text)
    fields = {"agent": who, "method": method, "ms": round(milliseconds, 1), "outcome": outcome}
    extra = {"later": True, "fields": fields}
    log.info("%s %s %.1f ms %s", who, method, milliseconds, outcome, extra=extra)


def _printable(text: str) -> str:
    """Return `text` for the log: unprintable characters become "?", and it is cut after NAME_CHARACTERS."""
    cut = "".join(c if c.isprintable() else "?" for c in itertools.islice(text, NAME_CHARACTERS))
    return cut if len(text) <= NAME_CHARACTERS else cut + "…"


def _refused(exc: BaseException, incident: str) -> Unavailable:
    """Return the error to send if the daemon has no permission to read or write a file or folder. `exc`: the system's
    error; `incident`: the id under which the log has its traceback."""
    assert isinstance(exc, OSError)
    name = os.fsdecode(exc.filename) if isinstance(exc.filename, str | bytes) else "a file"
    return Unavailable(
        f"{name} cannot be read or written: {exc.strerror}",
        hint=f"give the user that runs the daemon its rights (ormahctl doctor); the log has the rest: incident {incident}",
        data={"incident": incident},
    )


def _apology(incident: str) -> Internal:
    return Internal(
        f"the daemon stumbled over this request (incident {incident})",
        hint=f"the log has the rest: ormahctl logs, look for {incident}",
        data={"incident": incident},
    )


def _log_fault(method: str, outcome: str, exc: BaseException) -> None:
    """Log the traceback of `exc`, which ended a request. The log omits the exception's message except at debug level,
    because the message may quote a note."""
    log.error("%s: %s", method, outcome, exc_info=exc)
