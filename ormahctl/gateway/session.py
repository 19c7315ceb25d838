"""Serve one agent's MCP session: the MCP SDK's server reads and writes the lines of a connection.

The SDK serves both versions of the protocol on one stream: sessions that begin with `initialize`, and since 2026-07-28
requests that each name their client. What the tools do is in `tools`.
"""

from __future__ import annotations

import asyncio
import codecs
import json
import logging
import re
from typing import Any, Final

import anyio
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.server.lowlevel.server import Server
from mcp.shared.message import SessionMessage
from msgspec import Struct

from ormahctl.gateway import resources, tools
from ormahctl.gateway.daemon import DaemonLink
from ormahctl.gateway.opening import Opening
from ormahctl.gateway.work import Workplace
from ormahd import __version__
from ormahd.rpc.wire import LONE_SURROGATE, half_of_a_pair

log = logging.getLogger("ormahctl.gateway")


async def serve_session(
    daemon: DaemonLink, opening: Opening, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Serve one session until the agent's process closes the connection. `opening`: its first frame."""
    place = Workplace(daemon, opening)
    server: Server[Any] = Server(
        "ormah",
        version=__version__,
        title="Ormah",
        description="Long-term memory for AI agents",
        instructions=tools.WORDS["instructions"],
        on_list_tools=tools.list_tools,
        on_call_tool=lambda ctx, params: tools.call_tool(place, ctx, params),
        on_list_resources=lambda ctx, _: resources.list_resources(place, ctx),
        on_list_resource_templates=resources.list_templates,
        on_read_resource=lambda ctx, params: resources.read_resource(place, ctx, params),
        on_list_prompts=resources.list_prompts,
        on_get_prompt=resources.get_prompt,
    )
    server.add_notification_handler(
        "notifications/roots/list_changed", types.NotificationParams, lambda *_: place.forget_roots()
    )
    to_server, from_pump = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    to_pump, from_server = anyio.create_memory_object_stream[SessionMessage](0)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_receive, reader, to_server, to_pump.clone())
        tasks.start_soon(_send, writer, from_server)
        tasks.start_soon(daemon.warm)
        await server.run(from_pump, to_pump, server.create_initialization_options())
        tasks.cancel_scope.cancel()


async def _receive(
    reader: asyncio.StreamReader,
    to_server: MemoryObjectSendStream[SessionMessage | Exception],
    to_pump: MemoryObjectSendStream[SessionMessage],
) -> None:
    """Pass each line that is a valid message to the server, and answer an invalid line with an error."""
    async with to_server, to_pump:
        while line := await reader.readline():
            found = read_message(line)
            if isinstance(found, Refusal):
                await to_pump.send(SessionMessage(found.error))
            elif found is not None:
                await to_server.send(SessionMessage(found))


async def _send(writer: asyncio.StreamWriter, from_server: MemoryObjectReceiveStream[SessionMessage]) -> None:
    """Write the server's messages to the connection, one JSON object a line."""
    async with from_server:
        async for item in from_server:
            writer.write(item.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
            await writer.drain()


NO_REQUEST: Final = 'this is no JSON-RPC 2.0 request: "jsonrpc" has to be "2.0", "method" a text, "params" an object'


_HUGE_NUMBER: Final = re.compile(rb"-?(?<!\d)\d{4000,}(?:\.\d*)?")
"""Matches a number with more digits than Python reads."""


class Refusal(Struct, frozen=True):
    """The error that answers a line which is no valid message."""

    error: types.JSONRPCError


def read_message(line: bytes) -> types.JSONRPCMessage | Refusal | None:
    """Return the message in `line`. If `line` is invalid, return the error to answer with. Return None for what
    JSON-RPC leaves unanswered, such as an invalid notification or response.

    The error's id is null if `line` has no readable id. A request whose id is neither text nor integer is refused
    here, because the SDK would take it for a notification and not answer.
    """
    line = line.removeprefix(codecs.BOM_UTF8)

    # a valid message; what has an id is a request, which the SDK may take for a notification
    try:
        message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValueError:
        message = None
    if message is not None and not (isinstance(message, types.JSONRPCNotification) and b'"id"' in line):
        return message
    try:
        found: Any = json.loads(_HUGE_NUMBER.sub(b"null", line).decode("utf-8").rstrip("\r\n"))
        half = LONE_SURROGATE.search(json.dumps(found, ensure_ascii=False))
    except RecursionError:
        return _refuse(None, types.PARSE_ERROR, "this line is nested too deeply to be read")
    except UnicodeDecodeError as exc:
        return _refuse(None, types.PARSE_ERROR, f"this line is no UTF-8 (byte {exc.start + 1})")
    except ValueError as exc:
        return _refuse(None, types.PARSE_ERROR, f"this line is no JSON: {exc}")

    # JSON, and no message
    if not isinstance(found, dict):
        return _refuse(
            None, types.INVALID_REQUEST, "a message is one JSON object; batches of several are not supported"
        )
    if "method" in found and "id" not in found and isinstance(found["method"], str):
        return message
    if "method" not in found and ("result" in found or "error" in found):
        return None

    # a request: name its id in the error, if that can be read
    key = found.get("id")
    known = key if isinstance(key, (int, str)) and not isinstance(key, bool) else None
    if half is not None or _HUGE_NUMBER.search(line):
        known = None if isinstance(known, str) and LONE_SURROGATE.search(known) else known
        why = half_of_a_pair(half[0]) if half is not None else "a number in it has too many digits"
        return _refuse(known, types.PARSE_ERROR, f"this line is no valid JSON: {why}")
    if "id" in found and known is None:
        return _refuse(None, types.INVALID_REQUEST, "the id of a request is a text or an integer")
    return _refuse(known, types.INVALID_REQUEST, NO_REQUEST)


def _refuse(key: int | str | None, code: int, why: str) -> Refusal:
    """Return the error for a line that is refused. `key`: the id of the request; None: it has none that can be read."""
    return Refusal(types.JSONRPCError(jsonrpc="2.0", id=key, error=types.ErrorData(code=code, message=why)))
