"""List the tools of the MCP server, and call one.

A tool that fails answers with an error that says what is wrong, where, and what to do, so that the agent can try again.
All that an answer says is text. There is no structured content: clients hand it to the model instead of the text.
"""

from __future__ import annotations

import importlib.resources
import logging
import re
import tomllib
from collections.abc import Awaitable, Callable
from typing import Any, Final

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError

from ormahctl.gateway import acts, arguments
from ormahctl.gateway.work import Workplace
from ormahd.rpc.wire import OrmahError

log = logging.getLogger("ormahctl.gateway")

WORDS: Final[dict[str, Any]] = tomllib.loads(
    (importlib.resources.files("ormahctl.gateway") / "mcp.toml").read_text(encoding="utf-8")
)
"""The server's `instructions`, its prompt `maintenance`, and its `tools` by name."""
ACTS: Final[dict[str, Callable[[Workplace, ServerRequestContext[Any], dict[str, Any]], Awaitable[str]]]] = {
    act.__name__: act
    for act in (
        *(acts.remember, acts.recall, acts.recall_node, acts.recall_work, acts.update, acts.mark_outdated),
        *(acts.forget, acts.submit_feedback, acts.run_maintenance, acts.history, acts.undo),
    )
}
TOOLS_OF: Final = {name: name for name in ("recall", "remember", "update", "forget", "history", "undo")} | {
    "how": "recall_work",
    "fix": "recall_work",
    "show": "recall_node",
    "outdated": "mark_outdated",
    "feedback": "submit_feedback",
    "maintenance": "run_maintenance",
}
"""{command of ormahctl: the tool that does the same}. Errors of the daemon name commands; agents need the tool."""
_COMMANDS: Final = re.compile(rf"\bormahctl ({'|'.join(TOOLS_OF)})\b")


def schema(name: str) -> dict[str, Any]:
    """Return the JSON schema of a tool's arguments."""
    known = WORDS["tools"][name]
    required = {"required": known["required"]} if "required" in known else {}
    return {"type": "object", "properties": known["properties"]} | required


async def list_tools(
    _ctx: ServerRequestContext[Any], _params: types.PaginatedRequestParams | None
) -> types.ListToolsResult:
    """Return the tools with their descriptions, schemas and hints."""
    found = []
    for name, tool in WORDS["tools"].items():
        hints = types.ToolAnnotations(
            title=tool["title"],
            read_only_hint="reads" in tool["hints"],
            destructive_hint="replaces" in tool["hints"],
            idempotent_hint="repeats" in tool["hints"],
            open_world_hint=False,
        )
        found.append(
            types.Tool(
                name=name,
                title=tool["title"],
                description=tool["description"],
                input_schema=schema(name),
                annotations=hints,
                _meta={"anthropic/alwaysLoad": True} if "always" in tool["hints"] else None,
            )
        )
    return types.ListToolsResult(tools=found)


async def call_tool(
    place: Workplace, ctx: ServerRequestContext[Any], params: types.CallToolRequestParams
) -> types.CallToolResult:
    """Call a tool and return its answer. Failures are answers with `is_error`; only an unknown tool raises MCPError."""
    act = ACTS.get(params.name)
    if act is None:
        raise MCPError(types.INVALID_PARAMS, f"there is no tool '{params.name[:60]}'; there are: {', '.join(ACTS)}")
    failed = True
    try:
        text = await act(place, ctx, arguments.read(schema(params.name), params.arguments))
        failed = False
    except OrmahError as exc:
        text = f"Error: {exc.message}" + (f"\nWhat to do: {exc.hint}" if exc.hint else "")
        text = _COMMANDS.sub(lambda found: TOOLS_OF[found[1]], text)
    except Exception as exc:
        log.exception("the tool %s failed", params.name)
        text = f"Error: {params.name} failed: {type(exc).__name__}: {exc}\nWhat to do: this is a fault of Ormah; the log of the gateway says more"
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=failed)
