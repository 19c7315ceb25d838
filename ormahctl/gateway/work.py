"""What calls to the daemon say about a session's agent: its name, its folder and its space."""

from __future__ import annotations

import os
import re
import warnings
from typing import Any, Final, TypeVar
from urllib.parse import unquote, urlsplit

import anyio
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from msgspec import UNSET, UnsetType

from ormahctl.gateway.daemon import CALL_SECONDS, CallingAgent, DaemonLink
from ormahctl.gateway.opening import Opening
from ormahd import paths
from ormahd.api import Params, Result

R = TypeVar("R", bound=Result)

ROOTS_SECONDS: Final = 2.0
"""Seconds to wait for a client's list of roots (folders of its project); some clients never answer."""
NAMES: Final = {
    "codex-mcp-client": "codex",
    "gemini-cli-mcp-client": "gemini",
    "claude-ai": "claude-desktop",
    "cursor-vscode": "cursor",
    "Visual Studio Code": "vscode",
}
"""{name that an MCP client gives itself: name of the same agent in hooks and in the history}."""
GLOBAL: Final = "global"


class Workplace:
    """Calls the daemon for the tools of one agent's session, with that agent's name, folder and session id."""

    def __init__(self, daemon: DaemonLink, opening: Opening) -> None:
        self._daemon = daemon
        self._opening = opening
        self._nowhere = {"/", os.path.realpath(paths.known_home() or "/")}
        self._roots: str | None = None
        self._roots_asked = False

    async def call(
        self,
        ctx: ServerRequestContext[Any],
        method: str,
        params: Params,
        result: type[R],
        *,
        timeout: float = CALL_SECONDS,  # noqa: ASYNC109 - the daemon's thread ends by it
    ) -> R:
        """Call the daemon for this session's agent, and return the result. Raises OrmahError."""
        asker = CallingAgent(agent_name(ctx), await self._folder(ctx), self._opening.session)
        return await self._daemon.call(method, params, result, asker=asker, timeout=timeout)

    def space(self, named: str | None) -> str | UnsetType | None:
        """Return the space for a call: `named`, else `ORMAH_SPACE`. Return None if that is `global`, for memories
        without a space. Return UNSET if neither is given: the daemon then finds the space from the folder."""
        given = (named or "").strip() or (self._opening.space or "").strip()
        if not given:
            return UNSET
        return None if given.casefold() == GLOBAL else given

    async def forget_roots(self) -> None:
        """Ask the client for its roots again at the next call that needs them."""
        self._roots_asked = False

    async def _folder(self, ctx: ServerRequestContext[Any]) -> str | None:
        """Return the folder that decides the space: the project's, else the working directory; None if neither is
        known.

        Desktop clients start their servers in `/` or in the home directory. The first root that the client names, if
        any, then counts instead.
        """
        place = self._opening.project or self._opening.cwd
        if self._opening.space or (place is not None and place not in self._nowhere):
            return place
        if not self._roots_asked:
            self._roots_asked = True
            self._roots = await _first_root(ctx)
        return self._roots or place


async def _first_root(ctx: ServerRequestContext[Any]) -> str | None:
    """Return the first folder that the client names as a root; None if it names none, or does not answer in time."""
    capabilities = ctx.session.client_capabilities
    if capabilities is None or capabilities.roots is None or not ctx.session.can_send_request:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecated since 2026-07-28, and of use where the client is older
        try:
            with anyio.fail_after(ROOTS_SECONDS):
                found = await ctx.session.list_roots()
        except (TimeoutError, MCPError, ValueError):
            return None
    uris = (urlsplit(str(root.uri)) for root in found.roots)
    return next((unquote(uri.path) for uri in uris if uri.scheme == "file" and os.path.isabs(uri.path)), None)


def agent_name(ctx: ServerRequestContext[Any]) -> str:
    """Return the agent's name for the history, from the name that the client gives itself; `mcp` if it has none."""
    params = ctx.session.client_params
    given = "" if params is None else params.client_info.name
    name = NAMES.get(given) or re.sub(r"[^\w.@/+ -]+", "-", given).strip(" -")[:60]
    return name if name and name != "person" else "mcp"
