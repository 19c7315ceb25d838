"""MCP as agents use it: the SDK's own client on `ormahctl mcp`, for tests that are no coroutines."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import mcp_types as types
from anyio.from_thread import BlockingPortal, start_blocking_portal
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from tests.house import House

ERAS = {"legacy": "2025-11-25", "auto": "2026-07-28"}
"""{how the client connects: the protocol that both speak then}."""
SCRIPT = "from ormahctl.__main__ import main; main()"


class Talk:
    """A client in a session, for tests that are no coroutines."""

    def __init__(self, portal: BlockingPortal, client: Client) -> None:
        self._portal, self.client = portal, client

    def do(self, act: Callable[..., Any], *args: Any) -> Any:
        return self._portal.call(act, *args)

    def call(self, name: str, **given: Any) -> types.CallToolResult:
        found: types.CallToolResult = self.do(self.client.call_tool, name, given)
        return found

    def begin(self, name: str, **given: Any) -> Future[types.CallToolResult]:
        """A call that goes on while the test does something else."""
        return self._portal.start_task_soon(self.client.call_tool, name, given)

    def fine(self, name: str, **given: Any) -> str:
        """The text of a call that must not fail."""
        found = self.call(name, **given)
        assert not found.is_error, text(found)
        return text(found)

    def remember(self, content: str, **given: Any) -> str:
        """Store a memory and return its id."""
        return ids(self.fine("remember", content=content, **given))[0]

    def ops(self, **given: Any) -> list[str]:
        """The ids of the changes that `history` shows, newest first."""
        return [line.split()[0] for line in self.fine("history", **given).splitlines() if line[:1] not in " T"]

    def wrong(self, name: str, **given: Any) -> str:
        found = self.call(name, **given)
        assert found.is_error, text(found)
        return text(found)


def ids(said: str) -> list[str]:
    """The full ids of memories in a text."""
    return re.findall(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", said)


def text(found: types.CallToolResult) -> str:
    """The text of an answer, which is all that it holds: clients show models structured content instead of it."""
    assert found.structured_content is None
    (block,) = found.content
    assert isinstance(block, types.TextContent)
    return block.text


@contextmanager
def talking(
    house: House, era: str = "auto", *, cwd: Path | None = None, env: dict[str, str] | None = None, **more: Any
) -> Iterator[Talk]:
    where = cwd or house.home
    given = StdioServerParameters(
        command=sys.executable, args=["-c", SCRIPT, "mcp"], env=house.env | (env or {}), cwd=str(where)
    )
    with (house.home / "pump_stderr").open("a") as said, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        client = Client(stdio_client(given, errlog=said), mode=era, read_timeout_seconds=120, **more)
        with start_blocking_portal() as portal, portal.wrap_async_context_manager(client):
            yield Talk(portal, client)
