"""Run the gateway: accept connections on its own socket, serve each, and end after `IDLE_SECONDS` without use.

Sessions of agents and HTTP requests count as use.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import anyio
import msgspec

from ormahctl.gateway.access import read_staying_file
from ormahctl.gateway.daemon import DaemonLink
from ormahctl.gateway.listen import BACKLOG, GatewaySocket, is_ours
from ormahctl.gateway.opening import COMMAND, HEADER, LARGEST, SESSION, Order, OrderResult, read_opening
from ormahctl.gateway.session import serve_session
from ormahd import __version__
from ormahd.rpc.wire import BadRequest, OrmahError

if TYPE_CHECKING:
    from anyio.abc import TaskGroup
    from starlette.types import ASGIApp, Receive, Scope, Send

log = logging.getLogger("ormahctl.gateway")

IDLE_SECONDS: Final = 600.0
"""Seconds without a session or a request after which the gateway ends: starting it again takes about one."""
CHECK_SECONDS: Final = 5.0
OPENING_SECONDS: Final = 10.0
"""Seconds within which the first frame of a connection must have arrived."""
HTTP_CONNECTIONS: Final = 200
"""Largest number of connections to the HTTP port: a page and programs need a few, and agents need descriptors too."""
LINE_BYTES: Final = 64 << 20
"""Largest message of a session, in bytes."""


class Gateway:
    """Serves MCP sessions of agents for one daemon, and HTTP if asked to. Its methods are called on the event loop
    of `run` only."""

    def __init__(self, listener: GatewaySocket, daemon: DaemonLink, *, idle_seconds: float = IDLE_SECONDS) -> None:
        self.listener = listener
        self.daemon = daemon
        self.sessions = 0
        self.stays = False
        """Whether the gateway also runs on while nothing uses it."""
        self.port: int | None = None
        """The port on loopback, if an ASGI app is served there."""
        self._idle_seconds = idle_seconds
        self._use_count = 0
        self._last_use = time.monotonic()
        self._socket_removed = False
        self._done = anyio.Event()
        self._tasks: TaskGroup | None = None
        self._server: asyncio.Server | None = None

    async def run(self) -> None:
        """Serve until `end` is called, a signal comes, or the gateway was unused too long. If the socket's file was
        removed, also end with the last session."""
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            self._server = await asyncio.start_unix_server(self._accept, sock=self.listener.sock, limit=LINE_BYTES)
            tasks.start_soon(self._end_at_signal)
            tasks.start_soon(self._watch_use)
            tasks.start_soon(self._reopen)
            await self._done.wait()
            self._close()
            tasks.cancel_scope.cancel()
        self.daemon.close()

    def end(self) -> None:
        """End `run` at once, and with it every session."""
        self._done.set()

    @contextlib.contextmanager
    def in_use(self) -> Iterator[None]:
        """Context manager: keep the gateway from ending during the block. Its time without use begins after the
        block."""
        self._use_count += 1
        try:
            yield
        finally:
            self._use_count -= 1
            self._last_use = time.monotonic()
            self._end_if_idle()

    async def serve(self, app: ASGIApp, *, port: int = 0) -> int:
        """Serve an ASGI app on 127.0.0.1 until the gateway ends, and return its port. `port`: the one to listen on;
        0: a free one."""
        import uvicorn

        assert self._tasks is not None

        async def held(scope: Scope, receive: Receive, send: Send) -> None:
            """Serve one request, which counts as use of the gateway."""
            with self.in_use():
                await app(scope, receive, send)

        # asyncio sets TCP_NODELAY only where the protocol is named: without it each answer waits 40 ms for an ACK
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(("127.0.0.1", port))
        quiet: dict[str, Any] = {"lifespan": "off", "log_config": None, "access_log": False, "server_header": False}
        config = uvicorn.Config(held, backlog=BACKLOG, http=_bounded_protocol(), **quiet)
        sock.listen(config.backlog)  # a client that is told the port may be quicker than the server's start
        self._tasks.start_soon(uvicorn.Server(config).serve, [sock])
        self.port = int(sock.getsockname()[1])
        return self.port

    # ------------------------------------------------------------ connections

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a new connection in a task of its own."""
        assert self._tasks is not None
        self._tasks.start_soon(self._serve_connection, reader, writer)

    async def _serve_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection to its end. An exception is logged and ends only this connection."""
        try:
            with self.in_use():
                await self._serve_first_frame(reader, writer)
        except* (OSError, EOFError, ValueError, TimeoutError) as exc:  # of a session's tasks too: its agent was killed
            log.debug("a connection ended: %r", exc)
        except* Exception:
            log.exception("a connection failed")
        finally:
            writer.close()

    async def _serve_first_frame(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Read the first frame of a connection, and do what it asks: carry out an order, or serve an MCP session
        until its end. Other users' connections and malformed frames are dropped."""
        if not is_ours(writer.get_extra_info("socket")):
            log.warning("a process of another user was refused")
            return
        with anyio.fail_after(OPENING_SECONDS):
            head = await reader.readexactly(HEADER)
            size = int.from_bytes(head[1:], "big")
            if size > LARGEST:
                return
            body = await reader.readexactly(size)
        if head[:1] == COMMAND:
            answer = await carry_out(self, body)
            writer.write(COMMAND + len(answer).to_bytes(4, "big") + answer)
            await writer.drain()
            return
        opening = read_opening(body) if head[:1] == SESSION else None
        if opening is None:
            return
        self.sessions += 1
        try:
            await serve_session(self.daemon, opening, reader, writer)
        finally:
            self.sessions -= 1

    # ------------------------------------------------------------ its end

    def _close(self) -> None:
        """Stop listening, and remove the socket's file."""
        if self._server is not None:
            self._server.close()
        self.listener.close()

    async def _reopen(self) -> None:
        """Serve HTTP again at the same port, if the page is to stay open (`ormahctl web --stay`)."""
        if read_staying_file(self.daemon.socket) is not None:
            try:
                await _web(self, {})
            except OrmahError as exc:
                log.warning("the page that stays cannot be opened: %s", exc.message)

    def _end_if_idle(self) -> None:
        """End the gateway if nothing uses it, and it was unused long enough or its socket's file was removed."""
        idle = not self.stays and time.monotonic() - self._last_use >= self._idle_seconds
        if self._use_count == 0 and (self._socket_removed or idle):
            self.end()

    async def _watch_use(self) -> None:
        """Every few seconds, end the gateway if it is unused. If the socket's file was removed, stop listening, so
        that another gateway can start; open sessions are served to their end."""
        while True:
            await anyio.sleep(min(CHECK_SECONDS, self._idle_seconds))
            if not self._socket_removed and not self.listener.intact:
                log.warning("the socket %s was taken away; the next gateway makes it again", self.listener.path)
                self._socket_removed = True
                self._close()
            self._end_if_idle()

    async def _end_at_signal(self) -> None:
        """End the gateway at SIGTERM, SIGINT or SIGHUP."""
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
            async for _ in signals:
                self.end()


def _bounded_protocol() -> type[asyncio.Protocol]:
    """Return uvicorn's protocol with two limits: on the number of connections, and on the seconds for which a
    connection may be silent."""
    from uvicorn.protocols.http.auto import AutoHTTPProtocol

    class Bounded(AutoHTTPProtocol):  # type: ignore[valid-type,misc]
        """The protocol of one connection, which closes itself if it exceeds a limit."""

        def connection_made(self, transport: asyncio.Transport) -> None:
            """Close the connection at once if there are too many, and check later whether it is silent."""
            super().connection_made(transport)
            if len(self.connections) > HTTP_CONNECTIONS:
                transport.abort()
            self.loop.call_later(OPENING_SECONDS, self.close_if_silent, None)

        def close_if_silent(self, before: Any) -> None:
            """Close the connection if it only waited for the client since the last call. `before`: the request that
            the last call saw. Otherwise call this again later, unless the connection has become a WebSocket, which is
            not among `connections`."""
            waits = before is None or before.response_complete or before.more_body
            if self in self.connections and self.cycle is before and waits:
                self.transport.close()
            elif self in self.connections:
                self.loop.call_later(OPENING_SECONDS, self.close_if_silent, self.cycle)

    return Bounded


async def carry_out(gateway: Gateway, body: bytes) -> bytes:
    """Carry out the order in `body`, which a command sent, and return an `OrderResult` as JSON."""
    try:
        order = msgspec.json.decode(body, type=Order)
        if order.name not in ORDERS:
            raise BadRequest(f"the gateway knows no order '{order.name[:60]}'")
        outcome = OrderResult(await ORDERS[order.name](gateway, order.params))
    except msgspec.DecodeError as exc:
        outcome = OrderResult(error=f"the order cannot be read: {exc}")
    except OrmahError as exc:
        outcome = OrderResult(error=exc.message, hint=exc.hint)
    return msgspec.json.encode(outcome)


async def _status(gateway: Gateway, _params: dict[str, object]) -> dict[str, object]:
    """Return the gateway's process id, version, number of sessions, and HTTP port (None if it serves no HTTP)."""
    return {"pid": os.getpid(), "version": __version__, "sessions": gateway.sessions, "port": gateway.port}


async def _stop(gateway: Gateway, _params: dict[str, object]) -> dict[str, object]:
    """End the gateway. The processes of open sessions start another one when their agents send a request."""
    gateway.end()
    return {}


async def _web(gateway: Gateway, params: dict[str, object]) -> dict[str, object]:
    """Serve HTTP (`open_routes`). Its libraries are imported here, because that is slow and rarely needed."""
    from ormahctl.gateway.routes import open_routes

    return await open_routes(gateway, params)


ORDERS: Final = {"status": _status, "stop": _stop, "web": _web}
"""{name of an order: function that carries it out}. Commands send orders with `reach.order`."""
