"""The client side of the protocol: connect to the daemon, call a method, get its result or raise its error.

It imports only the standard library, msgspec and the protocol's own modules, so that commands start quickly. The socket's
path comes from `paths.find_socket`.
"""

from __future__ import annotations

import errno
import itertools
import os
import socket
import stat
import struct
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from ormahd.api import METHODS, Call, MemoryEvent, Params, Progress, Reply
from ormahd.errors import (
    BY_CODE,
    LONE_SURROGATE,
    Ambiguous,
    BadRequest,
    Conflict,
    Incompatible,
    Internal,
    InvalidNote,
    NotFound,
    NotReady,
    OrmahError,
    TooLarge,
    TooManyChanges,
    Unavailable,
    VaultBusy,
    field_and_fault,
    half_of_a_pair,
    json_fault,
)
from ormahd.rpc.codec import HOOK, JSON, MSGPACK, Frames, encode, pack, read_reply
from ormahd.rpc.peer import guarded, identity, peer_pid, peer_uid

__all__ = [
    "BY_CODE", "HOOK", "JSON", "LONE_SURROGATE", "MSGPACK", "Ambiguous", "BadRequest", "ClientConnection", "Conflict", "Frames",
    "Incompatible", "Internal", "InvalidNote", "NotFound", "NotReady", "OrmahError", "TooLarge", "TooManyChanges", "Unavailable",
    "VaultBusy", "connect", "field_and_fault", "guarded", "half_of_a_pair", "identity", "json_fault", "pack", "peer_pid", "peer_uid",
]  # fmt: skip

START = "start it with: ormahctl up"
LOOK = "look with: ormahctl logs; begin again with: ormahctl restart"
CONNECT_SECONDS = 5.0
CHUNK = 262_144


def connect(path: Path, timeout: float = CONNECT_SECONDS) -> ClientConnection:
    """Connect to the daemon at `path`, waiting at most `timeout` seconds.

    Raises:
        Unavailable: there is no connection. `data["reason"]` is "absent" (no socket), "refused" (no process listens),
            "denied" (no permission, or the socket is another user's) or "hanging" (timeout).
        BadRequest: the path is too long for a socket.
    """
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # On Linux a non-blocking connect fails at once if the backlog is full; a blocking one waits for SO_SNDTIMEO.
        whole, part = divmod(max(timeout, 0.001), 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", int(whole), int(part * 1e6)))
        sock.connect(os.fspath(path))
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", 0, 0))
        uid = peer_uid(sock)
    except OSError as exc:
        sock.close()
        raise _unreachable(path, exc, timeout) from exc
    if uid not in {os.geteuid(), 0}:  # 0: launchd holds the socket for the daemon
        sock.close()
        raise Unavailable(
            f"the socket {path} is held by user {uid}, not by us", hint="look who made it", data={"reason": "denied"}
        )
    return ClientConnection(sock, path)


def _unreachable(path: Path, exc: OSError, timeout: float) -> OrmahError:
    """Return the error for a failed connection, with the most specific reason that the exception and the file show."""
    if isinstance(exc, PermissionError):
        hint = "it belongs to another user; see: ls -l, and the setting daemon.socket"
        if exc.errno == errno.EPERM:  # the mode of a file gives EACCES
            hint = (
                "a sandbox forbids it: use the tools of Ormah's MCP server, or ask the person to let this command out"
            )
        return Unavailable(f"the socket {path} may not be opened: {exc.strerror}", hint=hint, data={"reason": "denied"})
    if isinstance(exc, (BlockingIOError, TimeoutError)):
        return Unavailable(
            f"the daemon at {path} does not take connections (waited {timeout:g} s)",
            hint=LOOK,
            data={"reason": "hanging"},
        )
    if isinstance(exc, (FileNotFoundError, NotADirectoryError)):
        return Unavailable(
            f"the daemon is not running (there is no socket {path})", hint=START, data={"reason": "absent"}
        )
    if "too long" in str(exc):
        return BadRequest(
            f"the socket's path is too long: {path}", hint="set a shorter one: daemon.socket, or --socket"
        )
    try:
        if not stat.S_ISSOCK(os.stat(path).st_mode):
            return Unavailable(
                f"{path} is not a socket",
                hint="look at --socket, ORMAH_SOCKET, daemon.socket",
                data={"reason": "absent"},
            )
    except OSError:
        pass  # the file was removed meanwhile
    return Unavailable(f"the daemon is not running (nobody listens at {path})", hint=START, data={"reason": "refused"})


class ClientConnection:
    """One connection to the daemon. Not thread-safe."""

    def __init__(self, sock: socket.socket, path: Path) -> None:
        self._sock = sock
        self._path = path
        self._frames = Frames()
        self._ids = itertools.count(1)
        self._broken = False

    def call(
        self,
        method: str,
        params: Params | Mapping[str, Any] | None = None,
        *,
        agent: str | None = None,
        cwd: str | None = None,
        session: str | None = None,
        on_progress: Callable[[Progress], None] | None = None,
        timeout: float | None = None,
    ) -> Any:
        """Call a method, wait for the reply, and return the method's result Struct (see `api.METHODS`).

        `timeout`: seconds for the whole call; None waits without limit.

        Raises:
            OrmahError: the daemon's error, as the class of its code. Unavailable if no reply came, BadRequest if the call
                cannot be encoded, Incompatible if the reply cannot be decoded.
        """
        id_ = next(self._ids)
        given = {} if params is None else params
        call = Call(method=method, id=id_, params=given, agent=agent, cwd=cwd, session=session)
        try:
            frame = pack(MSGPACK, encode(MSGPACK, call))
        except (OverflowError, UnicodeEncodeError, TypeError, struct.error) as exc:
            raise BadRequest(f"{method}: cannot be sent: {exc}") from exc
        deadline = None if timeout is None else time.monotonic() + timeout
        result = METHODS[method][1] if method in METHODS else object
        self._send(frame, deadline)
        while True:
            reply = self._receive(result, deadline)
            if isinstance(reply.error, msgspec.Struct) and reply.id in {id_, None}:
                error = reply.error
                raise BY_CODE.get(error.code, Internal)(error.message, hint=error.hint, data=error.data)
            if reply.id != id_:
                continue  # the late reply to an earlier call that timed out
            if isinstance(reply.progress, msgspec.Struct):
                if on_progress is not None:
                    on_progress(reply.progress)
                continue
            return reply.result

    def next_event(self, timeout: float) -> MemoryEvent | None:
        """Return the next event, after a call of `events.subscribe`; None if none comes within `timeout` seconds.

        A call discards the events that come before its reply, so make other calls on another connection.

        Raises:
            Unavailable: the daemon closed the connection: it stopped, or this client read too slowly.
        """
        deadline = time.monotonic() + timeout
        while True:
            try:
                reply = self._receive(object, deadline)
            except Unavailable as exc:
                if exc.data.get("reason") == "hanging":
                    return None
                raise
            if isinstance(reply.event, MemoryEvent):
                return reply.event

    def hook(self, body: bytes, timeout: float) -> bytes:
        """Send a hook frame with this body, and return the body of the reply. `timeout` in seconds.

        Raises:
            Unavailable: no reply came in time.
        """
        deadline = time.monotonic() + timeout
        self._send(pack(HOOK, body), deadline)
        while True:
            kind, answer = self._frame(deadline)
            if kind == HOOK:
                return answer

    def _send(self, frame: bytes, deadline: float | None) -> None:
        """Send a frame before the deadline (monotonic time; None: no limit).

        Raises:
            Unavailable: the daemon did not read it in time, or the connection is unusable since an earlier error.
        """
        if self._broken:
            raise self._closed_error("an earlier call ended in the middle of a frame")
        try:
            self._sock.settimeout(self._seconds_left(deadline))
            self._sock.sendall(frame)
        except TimeoutError as exc:
            self._broken = True
            raise self._timeout_error() from exc
        except (BrokenPipeError, ConnectionResetError):
            self._broken = True  # the daemon may have sent an error before it closed the connection: read it

    def _receive(self, result: Any, deadline: float | None) -> Reply:
        """Return the next reply; events of hooks are skipped. `result`: the type of its result.

        Raises:
            Unavailable: there was no reply in time, or the daemon closed the connection.
            Incompatible: the reply is invalid.
        """
        while True:
            kind, body = self._frame(deadline)
            if kind == HOOK:
                continue
            try:
                return read_reply(kind, body, result)
            except (msgspec.DecodeError, RecursionError) as exc:
                raise Incompatible(
                    f"the daemon's answer cannot be read: {exc}",
                    hint="daemon and command are of different versions; restart it: ormahctl restart",
                ) from exc

    def _frame(self, deadline: float | None) -> tuple[bytes, bytes]:
        """Return kind and body of the next frame. Raises as `_receive` does."""
        while True:
            try:
                found = self._frames.next()
            except BadRequest as exc:
                self._broken = True
                raise Incompatible(
                    f"{self._path} does not speak Ormah's protocol: {exc.message}", hint=exc.hint
                ) from exc
            if found is not None:
                return found
            try:
                self._sock.settimeout(self._seconds_left(deadline))
                data = self._sock.recv(CHUNK)
            except TimeoutError as exc:
                raise self._timeout_error() from exc
            except OSError as exc:
                self._broken = True
                raise self._closed_error(exc.strerror or str(exc)) from exc
            if not data:
                self._broken = True
                raise self._closed_error("it closed the connection")
            self._frames.feed(data)

    def _seconds_left(self, deadline: float | None) -> float | None:
        """Return the number of seconds until the deadline; None if there is none.

        Raises:
            TimeoutError: the deadline has passed.
        """
        if deadline is None:
            return None
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            raise TimeoutError
        return remaining

    def _timeout_error(self) -> Unavailable:
        """Return the error that the daemon did not answer in time."""
        return Unavailable(f"the daemon at {self._path} did not answer in time", hint=LOOK, data={"reason": "hanging"})

    def _closed_error(self, why: str) -> Unavailable:
        """Return the error that the daemon closed the connection before it answered."""
        return Unavailable(
            f"the daemon at {self._path} went away before it answered ({why})", hint=LOOK, data={"reason": "closed"}
        )

    def close(self) -> None:
        """Close the connection."""
        self._sock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
