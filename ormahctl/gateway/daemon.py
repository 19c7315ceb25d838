"""The daemon as the gateway sees it: calls run in threads, on connections that are kept for the next call.

A daemon that is down is started if commands may start it too (`ormahctl.autostart`). A call waits for it, but gives up
before agents do. A call whose connection broke is sent again. Each change has a request id, so that the daemon makes it
only once.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import anyio
import anyio.to_thread
import msgspec

from ormahctl import autostart
from ormahd import paths
from ormahd.api import Params, Result
from ormahd.rpc import wire
from ormahd.rpc.wire import OrmahError, Unavailable

R = TypeVar("R", bound=Result)

log = logging.getLogger("ormahctl.gateway")

CONNECT_SECONDS: Final = 3.0
CALL_SECONDS: Final = 30.0
"""Seconds that an ordinary call may take: a write waits 5 s for git."""
READ_SECONDS: Final = 9.0
"""Seconds that a call which only reads may take. If it takes longer, the daemon hangs."""
PATIENCE: Final = 7.0
"""Seconds to wait for a daemon that is down: agents give up after ten."""
FOREIGN_PATIENCE: Final = 2.0
"""Seconds to wait for a daemon that the gateway may not start: a person may be restarting it."""
POLL_SECONDS: Final = 0.1
THREADS: Final = 64
"""Calls that run at the same time; others wait."""
MAX_IDLE: Final = 4
"""Number of idle connections that stay open for later calls; approximate, because threads count without a lock."""
_STARTABLE: Final = frozenset({"absent", "refused", "closed"})
"""Reasons of `Unavailable` after which a new daemon may answer."""


class CallingAgent(msgspec.Struct, frozen=True):
    """Who calls the daemon. `agent`: the name for the history. `cwd`: the folder from which the daemon detects the
    space. `session`: the id of the agent's session."""

    agent: str
    cwd: str | None = None
    session: str | None = None


class DaemonLink:
    """Calls the daemon at one socket. Used on the event loop, except `connect`, which blocks: call it in a thread."""

    def __init__(self, socket: Path) -> None:
        self.socket = socket
        self._idle: list[wire.ClientConnection] = []
        self._limiter = anyio.CapacityLimiter(THREADS)
        self._starting = threading.Lock()

    async def call(
        self,
        method: str,
        params: Params,
        result: type[R],
        *,
        asker: CallingAgent,
        timeout: float | None = CALL_SECONDS,  # noqa: ASYNC109 - the thread ends by it, not the task
    ) -> R:
        """Call a method in a thread and return its result. A call whose task is cancelled still ends in its thread.

        Raises:
            OrmahError: the daemon's error. Unavailable: no daemon answers.
        """
        act = partial(self._call, method, params, result, asker, timeout)
        return await anyio.to_thread.run_sync(act, abandon_on_cancel=True, limiter=self._limiter)

    def connect(self) -> wire.ClientConnection:
        """Return a new connection, after starting the daemon or waiting for it if needed. Blocks: call it in a thread.

        Raises:
            Unavailable: no daemon answers in time.
        """
        begun = time.monotonic()
        while True:
            try:
                return wire.connect(self.socket, CONNECT_SECONDS)
            except Unavailable as exc:
                if exc.data.get("reason") not in _STARTABLE:
                    raise
                patience = PATIENCE if self._start_in_thread(exc) else FOREIGN_PATIENCE
                if time.monotonic() - begun > patience:
                    if self._starting.locked():
                        raise Unavailable(
                            "the daemon is starting, and does not answer yet", hint="try again in a few seconds"
                        ) from exc
                    raise
            time.sleep(POLL_SECONDS)

    async def warm(self) -> None:
        """Connect before the first call, so that a daemon that is down starts during the MCP handshake."""
        if self._idle:
            return
        try:
            self._idle.append(
                await anyio.to_thread.run_sync(self.connect, abandon_on_cancel=True, limiter=self._limiter)
            )
        except OrmahError as exc:
            log.info("the daemon does not answer yet: %s", exc.message)  # the first call says so to the agent

    def close(self) -> None:
        """Close the idle connections."""
        while self._idle:
            self._idle.pop().close()

    def _call(self, method: str, params: Params, result: type[R], asker: CallingAgent, timeout: float | None) -> R:
        """Call a method on an idle connection, or on a new one, and return the result. Blocks. If the connection was
        closed, the call is sent again on another one."""
        # by this id the daemon recognises a change that is sent again
        if getattr(params, "request_id", "") is None:
            params = msgspec.structs.replace(params, request_id=uuid.uuid4().hex)

        # one more try on another connection, if this one was closed
        again = True
        while True:
            try:
                idle = self._idle.pop()
            except IndexError:
                idle = None
            connection = idle or self.connect()
            try:
                answer: Any = connection.call(
                    method, params, agent=asker.agent, cwd=asker.cwd, session=asker.session, timeout=timeout
                )
            except Unavailable as exc:
                connection.close()
                if exc.data.get("reason") == "closed" and again:
                    again = idle is not None  # idle connections break when the daemon ends: one more try on a fresh one
                    continue
                raise
            except OrmahError:
                self._keep_idle(connection)
                raise
            self._keep_idle(connection)
            if not isinstance(answer, result):
                raise wire.Incompatible(
                    f"{method}: the answer is no {result.__name__}", hint="restart the daemon: ormahctl restart"
                )
            return answer

    def _keep_idle(self, connection: wire.ClientConnection) -> None:
        """Store a connection for a later call, or close it if `MAX_IDLE` are stored already."""
        if len(self._idle) < MAX_IDLE:
            self._idle.append(connection)
        else:
            connection.close()

    def _start_in_thread(self, absent: Unavailable) -> bool:
        """Start the daemon in a new thread, unless one is starting it already. Return False if it may not be started
        from here. Raise `absent` if a person stopped the daemon."""
        if paths.is_stopped(self.socket):
            absent.message += "; it was stopped with `ormahctl down`"
            raise absent
        if not autostart.allowed(self.socket):
            return False
        if self._starting.acquire(blocking=False):
            threading.Thread(target=self._run_start, daemon=True).start()
        return True

    def _run_start(self) -> None:
        """Start the daemon, and log an error if that fails. Runs in a thread of its own, which holds `_starting`."""
        try:
            autostart.start(self.socket)
        except OrmahError as exc:
            log.warning("%s", exc.message)
        finally:
            self._starting.release()
