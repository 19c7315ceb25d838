"""The tools of the MCP server: a table of names, descriptions, arguments and actions; and the call of one.

A tool that fails answers with an error that says what is wrong, where, and what to do, so that the agent can try again.
Every answer is complete as text; ids are in `structured_content` as well.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

import mcp_types as types
import msgspec
from mcp.shared.exceptions import MCPError

from ormahctl.gateway import acts, arguments, words
from ormahctl.gateway.arguments import Argument, Arguments
from ormahd.rpc.wire import OrmahError

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext

    from ormahctl.gateway.work import Workplace

log = logging.getLogger("ormahctl.gateway")

TYPES: Final = (
    "fact", "decision", "preference", "event", "person", "project", "concept", "procedure", "goal", "observation",
)  # fmt: skip
TIERS: Final = ("core", "working", "archival")
EDGES: Final = ("supports", "part_of", "depends_on", "related_to", "contradicts", "none")
Act = Callable[["Workplace", "ServerRequestContext[Any]", dict[str, Any]], Awaitable[acts.ToolAnswer]]


class AgentTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that agents can call over MCP. `reads`: it changes nothing. `replaces`: it changes or removes existing
    memories. `repeats`: calling it again with the same arguments has no further effect."""

    title: str
    about: str
    arguments: Arguments
    act: Act
    reads: bool = False
    replaces: bool = False
    repeats: bool = False


def _text(about: str, *, needed: bool = False, options: tuple[str, ...] = ()) -> Argument:
    return Argument(kind="string", about=about, needed=needed, options=options)


def _list(about: str, options: tuple[str, ...] = (), items: Arguments | None = None) -> Argument:
    return Argument(kind="array", about=about, options=options, items=items or {})


def _number(about: str, least: float, most: float, kind: str = "number", *, needed: bool = False) -> Argument:
    return Argument(kind=kind, about=about, least=least, most=most, needed=needed)


_ID: Final = "Its id: all of it, or the first 8 characters."
_NODE: Final = _text(_ID, needed=True)
_SPACE: Final = _text("The project it belongs to; 'global' if to none. Left out: the project you work in.")
_REASON: Final = _text("Why, in one sentence.")
_WEIGHT: Final = _number("How close, from 0 to 1. Left out: their similarity.", 0, 1)

_RESULTS: Final = Argument(
    kind="object",
    about="Phase two: the receipt of phase one, and your verdicts. Left out: phase one.",
    items={
        "receipt": _text("The receipt of phase one.", needed=True),
        "edges": _list(
            "Verdicts on pairs to link.",
            items={
                "source_id": _text("Full id.", needed=True), "target_id": _text("Full id.", needed=True),
                "edge_type": _text("How the source relates to the target.", needed=True, options=EDGES),
                "weight": _WEIGHT, "reason": _REASON,
            },
        ),
        "merges": _list(
            "Verdicts on pairs to merge.",
            items={
                "keep_id": _text("Full id of the memory that stays.", needed=True),
                "remove_id": _text("Full id of the memory that becomes part of it.", needed=True),
                "title": _text("The title of both. Left out: that of the kept one."),
                "content": _text("The text of both, without losing a detail. Left out: that of the kept one."),
                "reason": _REASON,
            },
        ),
        "consolidations": _list(
            "Verdicts on clusters.",
            items={
                "node_ids": _list("Full ids, 2 to 5 of one cluster."), "title": _text("The title of the new memory."),
                "content": _text("The text of the new memory: all that its sources say.", needed=True),
                "type": _text("Its type.", needed=True, options=TYPES), "reason": _REASON,
            },
        ),
        "conflicts": _list(
            "Verdicts on pairs that may conflict.",
            items={
                "source_id": _text("Full id, of the newer one.", needed=True),
                "target_id": _text("Full id, of the older one.", needed=True),
                "kind": _text("evolution, tension or none.", needed=True, options=("evolution", "tension", "none")),
                "reason": _REASON,
            },
        ),
        "extractions": _list(
            "What is worth remembering of the parts of sessions; an empty list if nothing is. Left out: they stay unread.",
            items={
                "batch_id": _text("Its part of a session.", needed=True), "turns": Argument(kind="array", of="integer", about="Numbers of the turns that say it, first the one where it was said."),
                "title": _text("5 to 12 words.", needed=True), "content": _text("The memory, in full sentences.", needed=True),
                "type": _text("Its type. Left out: fact.", options=TYPES),
            },
        ),
    },
)  # fmt: skip

TOOLS: Final[dict[str, AgentTool]] = {
    "remember": AgentTool(
        title="Remember", about=words.REMEMBER, act=acts.remember, repeats=True,
        arguments={
            "content": _text("The memory, in full sentences.", needed=True),
            "type": _text("What it is. Left out: fact.", options=TYPES),
            "tier": _text("core: always relevant, few; archival: rarely. Left out: working.", options=TIERS),
            "title": _text("5 to 12 words that name it. Left out: made from the text."),
            "space": _SPACE,
            "tags": _list("Words to filter by."),
            "about_self": Argument(kind="boolean", about="True if it is about the user as a person."),
            "confidence": _number("How sure it is, from 0 to 1. Left out: 1.", 0, 1),
            "links": _list("Ids of memories that it belongs to."),
            "replaces": _list("Ids of memories that it replaces: they count as outdated from now on."),
        },
    ),
    "recall": AgentTool(
        title="Recall", about=words.RECALL, act=acts.recall, reads=True, repeats=True,
        arguments={
            "query": _text("What you want to know, in the user's words.", needed=True),
            "limit": _number("Number of memories. Left out: 10.", 1, 100, "integer"),
            "types": _list("Only these types.", TYPES),
            "spaces": _list("Only these projects; 'global' for memories of no project. Left out: all, yours first."),
            "created_after": _text("Only memories made after this ISO date or time."),
            "created_before": _text("Only memories made before this ISO date (included) or time."),
        },
    ),
    "recall_node": AgentTool(
        title="Recall one memory", about=words.RECALL_NODE, act=acts.recall_node, reads=True, repeats=True,
        arguments={"node_id": _NODE},
    ),
    "update": AgentTool(
        title="Update a memory", about=words.UPDATE, act=acts.update, replaces=True, repeats=True,
        arguments={
            "node_id": _NODE,
            "content": _text("The new text, all of it."),
            "title": _text("The new title."),
            "type": _text("The new type.", options=TYPES),
            "tier": _text("The new tier.", options=TIERS),
            "space": _text("The new project; 'global' for none."),
            "tags": _list("The new tags, all of them."),
            "confidence": _number("The new confidence, from 0 to 1.", 0, 1),
            "expected": _text("The digest from recall_node: refused if the memory was edited since."),
        },
    ),
    "mark_outdated": AgentTool(
        title="Mark as outdated", about=words.MARK_OUTDATED, act=acts.mark_outdated, replaces=True, repeats=True,
        arguments={"node_id": _NODE, "reason": _REASON, "replaced_by": _text("Id of the memory that holds instead.")},
    ),
    "submit_feedback": AgentTool(
        title="Judge a whispered memory", about=words.FEEDBACK, act=acts.submit_feedback, repeats=True,
        arguments={
            "node_id": _NODE,
            "signal": _number("1: it was useful; -1: it was not.", -1, 1, "integer", needed=True),
            "source": _text("explicit: the user said so; implicit: you infer it. Left out: explicit.",
                            options=("explicit", "implicit")),
        },
    ),
    "run_maintenance": AgentTool(
        title="Maintain the memories", about=words.MAINTENANCE, act=acts.run_maintenance, replaces=True,
        arguments={"results": _RESULTS},
    ),
    "history": AgentTool(
        title="Show what changed", about=words.HISTORY, act=acts.history, reads=True, repeats=True,
        arguments={
            "node_id": _text("Only changes of this memory, which may be forgotten. " + _ID),
            "since": _text("Only changes since this ISO date or time."),
            "limit": _number("Number of changes. Left out: 20.", 1, 100, "integer"),
        },
    ),
    "undo": AgentTool(
        title="Take a change back", about=words.UNDO, act=acts.undo, replaces=True,
        arguments={
            "op": _text("Id of the change, as history shows it (or the first characters of it)."),
            "run": _text("Id of a run: takes back all of its changes."),
        },
    ),
}  # fmt: skip


TOOLS_OF: Final = {
    "recall": "recall", "show": "recall_node", "remember": "remember", "update": "update", "outdated": "mark_outdated",
    "feedback": "submit_feedback", "maintenance": "run_maintenance", "history": "history", "undo": "undo",
}  # fmt: skip
"""{command of ormahctl: the tool that does the same}. Errors of the daemon name commands; agents need the tool."""
_COMMANDS: Final = re.compile(rf"\bormahctl ({'|'.join(TOOLS_OF)})\b")


async def listed(
    _ctx: ServerRequestContext[Any], _params: types.PaginatedRequestParams | None
) -> types.ListToolsResult:
    return types.ListToolsResult(tools=[_described(name, one) for name, one in TOOLS.items()])


def _described(name: str, one: AgentTool) -> types.Tool:
    hints = types.ToolAnnotations(
        title=one.title, read_only_hint=one.reads, destructive_hint=one.replaces, idempotent_hint=one.repeats,
        open_world_hint=False,
    )  # fmt: skip
    return types.Tool(
        name=name,
        title=one.title,
        description=one.about,
        input_schema=arguments.schema(one.arguments),
        annotations=hints,
    )


async def called(
    place: Workplace, ctx: ServerRequestContext[Any], params: types.CallToolRequestParams
) -> types.CallToolResult:
    """Call a tool and return its answer. Failures are answers with `is_error`; only an unknown tool raises MCPError."""
    tool = TOOLS.get(params.name)
    if tool is None:
        raise MCPError(types.INVALID_PARAMS, f"there is no tool '{params.name[:60]}'; there are: {', '.join(TOOLS)}")
    try:
        said = await tool.act(place, ctx, arguments.read(tool.arguments, params.arguments))
    except OrmahError as exc:
        return _failed(exc.message, exc.hint, exc.code)
    except Exception as exc:
        log.exception("the tool %s failed", params.name)
        return _failed(
            f"{params.name} failed: {type(exc).__name__}: {exc}",
            "this is a fault of Ormah; the log of the gateway says more",
            "internal",
        )
    return types.CallToolResult(content=[types.TextContent(type="text", text=said.text)], structured_content=said.facts)


def _failed(message: str, hint: str | None, code: str) -> types.CallToolResult:
    text = f"Error: {message}" + (f"\nWhat to do: {hint}" if hint else "")
    text = _COMMANDS.sub(lambda found: TOOLS_OF[found[1]], text)
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=text)], structured_content={"error": code}, is_error=True
    )
