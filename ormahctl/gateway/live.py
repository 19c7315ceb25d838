"""`WS /ui/ws`: the daemon's events as messages of a WebSocket, one JSON object each.

`?after=ID` begins after an event, `?only=write&only=edit` chooses kinds. The first message is the reply to the
subscription (`last`, `refetch`). A `ping` is sent if there was no event for a while, so that a page notices a dead
connection. If the daemon ends, the WebSocket is closed, and the page opens another one with `after`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import anyio
import anyio.to_thread
import msgspec
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from ormahctl.gateway.daemon import DaemonLink
from ormahd.api import MemoryEvent, SubscribeParams, SubscribeResult
from ormahd.rpc.wire import ClientConnection, OrmahError

PING_SECONDS: Final = 15.0
EVENT_SECONDS: Final = 1.0
"""Seconds that a thread waits for an event, before it is checked whether the page is gone. It cannot be interrupted."""
SECONDS: Final = 30.0
STREAMS: Final = 16
"""WebSockets open at the same time: half of the subscriptions that the daemon allows."""
INVALID, AWAY, FULL = 4400, 1012, 1013
"""Close codes: invalid parameters; the daemon went away; too many streams."""


def stream(daemon: DaemonLink) -> Callable[[WebSocket], Awaitable[None]]:
    """Return the endpoint of `/ui/ws`, which sends the daemon's events to a WebSocket."""
    streams = anyio.CapacityLimiter(STREAMS)

    async def endpoint(socket: WebSocket) -> None:
        """Subscribe to the daemon's events, and send them until one of the three ends: page, daemon or gateway."""
        try:
            query = socket.query_params
            wished = {"after": query.get("after"), "only": query.getlist("only") or None}
            params = msgspec.convert(wished, SubscribeParams)
        except msgspec.ValidationError as exc:
            await socket.accept()
            await socket.close(INVALID, str(exc)[:100])
            return
        await socket.accept()
        if streams.available_tokens < 1:
            await socket.close(FULL, "too many streams are open")
            return
        try:
            connection, begun = await anyio.to_thread.run_sync(_subscribe, daemon, params, limiter=streams)
        except OrmahError as exc:
            await socket.close(INVALID if exc.code == "bad_request" else AWAY, exc.message[:100])
            return
        try:
            await _send_message(socket, begun)
            await _send_events(socket, connection, streams)
        finally:
            connection.close()

    return endpoint


def _subscribe(daemon: DaemonLink, params: SubscribeParams) -> tuple[ClientConnection, SubscribeResult]:
    """Return (a connection with a subscription to the daemon's events, the daemon's first reply). Blocks. Raises
    OrmahError."""
    connection = daemon.connect()
    try:
        return connection, connection.call("events.subscribe", params, agent="person", timeout=SECONDS)
    except BaseException:
        connection.close()
        raise


async def _send_events(socket: WebSocket, connection: ClientConnection, streams: anyio.CapacityLimiter) -> None:
    """Send the daemon's events until the page or the daemon closes its connection. The daemon does not wait for a
    slow page."""
    async with anyio.create_task_group() as tasks:

        async def wait_for_end() -> None:
            """Stop sending once the page disconnects. Ignore messages from the page."""
            try:
                while True:
                    await socket.receive_text()
            except (WebSocketDisconnect, KeyError):
                tasks.cancel_scope.cancel()

        tasks.start_soon(wait_for_end)
        silent_seconds = 0.0
        try:
            while True:
                event = await anyio.to_thread.run_sync(connection.next_event, EVENT_SECONDS, limiter=streams)
                silent_seconds = 0.0 if event is not None else silent_seconds + EVENT_SECONDS
                if event is not None:
                    await _send_message(socket, event)
                elif silent_seconds >= PING_SECONDS:
                    silent_seconds = 0.0
                    await _send_message(socket, {"event": "ping"})
        except (OrmahError, OSError, WebSocketDisconnect):
            tasks.cancel_scope.cancel()
    if socket.application_state is WebSocketState.CONNECTED and socket.client_state is WebSocketState.CONNECTED:
        await socket.close(AWAY, "the daemon went away")


async def _send_message(socket: WebSocket, message: MemoryEvent | SubscribeResult | dict[str, str]) -> None:
    """Send `message` to the WebSocket as JSON."""
    await socket.send_text(msgspec.json.encode(message).decode())
