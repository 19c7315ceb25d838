"""Where a session's agent works, and who it is: the space, the folder, and the name for calls to the daemon."""

from __future__ import annotations

import hashlib
import json
import os
import re
import warnings
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import unquote, urlsplit

import anyio
from mcp.shared.exceptions import MCPError
from msgspec import UNSET, UnsetType

from ormahctl.gateway.daemon import CALL_SECONDS, CallingAgent
from ormahd import paths
from ormahd.api import Params, Result

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext

    from ormahctl.gateway.daemon import DaemonLink
    from ormahctl.gateway.opening import Opening

R = TypeVar("R", bound=Result)

ROOTS_SECONDS: Final = 2.0
"""Seconds that a client may take to tell its roots; some never answer."""
NAMES: Final = {
    "codex-mcp-client": "codex",
    "gemini-cli-mcp-client": "gemini",
    "claude-ai": "claude-desktop",
    "cursor-vscode": "cursor",
    "Visual Studio Code": "vscode",
}
"""{name that a client gives itself: name of the same agent in its hooks, and in the history}."""
GLOBAL: Final = "global"


class Workplace:
    """The session as the tools see it."""

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
        """Call the daemon in the name of this session's agent. Raises OrmahError."""
        asker = CallingAgent(agent_name(ctx), await self._place(ctx), self._opening.session)
        return await self._daemon.call(method, params, result, asker=asker, timeout=timeout)

    def space(self, named: str | None) -> str | UnsetType | None:
        """Return the space for a call: the one named, else that of `ORMAH_SPACE`, else unset: the daemon then detects it
        from the folder. `global` means no space, None for the daemon."""
        given = (named or "").strip() or (self._opening.space or "").strip()
        if not given:
            return UNSET
        return None if given.casefold() == GLOBAL else given

    def request_id(self, ctx: ServerRequestContext[Any]) -> str:
        """Return an id for a change, the same whenever the pump sends this request: so it is made once.

        It also has a hash of what is asked, for clients that count their requests anew within a session.
        """
        asked = {name: value for name, value in (ctx.params or {}).items() if name != "_meta"}
        digest = hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()
        return f"mcp:{self._opening.nonce}:{str(ctx.request_id)[:200]}:{digest[:16]}"

    async def forget_roots(self) -> None:
        self._roots_asked = False

    async def _place(self, ctx: ServerRequestContext[Any]) -> str | None:
        """Return the folder that tells the space: the project's, else the working directory, else the client's root.

        A client for the desktop starts its servers in `/` or in the home directory, which are no project.
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
    """Return the agent's name for the history, from what the client says of itself."""
    params = ctx.session.client_params
    given = "" if params is None else params.client_info.name
    name = NAMES.get(given) or re.sub(r"[^\w.@/+ -]+", "-", given).strip(" -")[:60]
    return name if name and name != "person" else "mcp"
