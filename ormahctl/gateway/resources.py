"""Resources and prompts of the MCP server, which a person picks from a menu of the agent.

A resource `ormah://node/{id}` is one memory as text. The list of resources has only memories of the tier core.
"""

from __future__ import annotations

from typing import Any, Final

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError

from ormahctl.gateway import readable
from ormahctl.gateway.tools import WORDS
from ormahctl.gateway.work import Workplace
from ormahd.api import ListParams, ListResult, NodeParams, NodeResult
from ormahd.rpc.wire import OrmahError

PREFIX: Final = "ormah://node/"
MIME: Final = "text/markdown"
LIST_SECONDS: Final = 8.0
"""Seconds that the list may take: clients ask for it when they start, and have ten seconds of patience."""
LISTED: Final = 50
"""Number of core memories in the list: a menu with more is of no use."""
MAINTENANCE: Final = "maintenance"
_DESCRIPTION: Final = "Decide on memories that may be the same, contradict each other or belong together."


async def list_resources(place: Workplace, ctx: ServerRequestContext[Any]) -> types.ListResourcesResult:
    """Return the core memories, as resources of MCP. Raises MCPError."""
    try:
        core = ListParams(tiers=["core"], limit=LISTED)
        found = await place.call(ctx, "agent.list", core, ListResult, timeout=LIST_SECONDS)
    except OrmahError as exc:
        raise _mcp_error(types.INTERNAL_ERROR, exc) from exc
    return types.ListResourcesResult(
        resources=[
            types.Resource(
                uri=PREFIX + node.id,
                name=node.title,
                mime_type=MIME,
                description=f"{node.type}, {node.space or 'global'}",
            )
            for node in found.memories
        ]
    )


async def list_templates(
    _ctx: ServerRequestContext[Any], _params: types.PaginatedRequestParams | None
) -> types.ListResourceTemplatesResult:
    """Return the template for the address of a memory."""
    about = "One memory with its connections; id: all of it, or its first 8 characters."
    template = types.ResourceTemplate(
        uri_template=PREFIX + "{id}", name="memory", title="A memory", mime_type=MIME, description=about
    )
    return types.ListResourceTemplatesResult(resource_templates=[template])


async def read_resource(
    place: Workplace, ctx: ServerRequestContext[Any], params: types.ReadResourceRequestParams
) -> types.ReadResourceResult:
    """Return one memory as text.

    Raises:
        MCPError: the address names no memory.
    """
    uri = str(params.uri)
    if not uri.startswith(PREFIX):
        raise MCPError(types.INVALID_PARAMS, f"there is no resource '{uri[:100]}'; memories are at {PREFIX}ID")
    try:
        node = await place.call(ctx, "agent.get", NodeParams(node_id=uri.removeprefix(PREFIX)), NodeResult)
    except OrmahError as exc:
        raise _mcp_error(types.INVALID_PARAMS, exc) from exc
    text = readable.node(node)
    return types.ReadResourceResult(contents=[types.TextResourceContents(uri=uri, mime_type=MIME, text=text)])


def _mcp_error(code: int, exc: OrmahError) -> MCPError:
    """Return the daemon's error as an error of MCP with the code `code`."""
    return MCPError(code, exc.message + (f" ({exc.hint})" if exc.hint else ""), {"code": exc.code})


async def list_prompts(
    _ctx: ServerRequestContext[Any], _params: types.PaginatedRequestParams | None
) -> types.ListPromptsResult:
    """Return the prompts: only `maintenance`."""
    return types.ListPromptsResult(
        prompts=[types.Prompt(name=MAINTENANCE, title="Maintain the memories", description=_DESCRIPTION)]
    )


async def get_prompt(_ctx: ServerRequestContext[Any], params: types.GetPromptRequestParams) -> types.GetPromptResult:
    """Return the text of a prompt.

    Raises:
        MCPError: there is no such prompt.
    """
    if params.name != MAINTENANCE:
        raise MCPError(types.INVALID_PARAMS, f"there is no prompt '{params.name[:60]}'; there is: {MAINTENANCE}")
    message = types.PromptMessage(role="user", content=types.TextContent(type="text", text=WORDS["maintenance"]))
    return types.GetPromptResult(description=_DESCRIPTION, messages=[message])
