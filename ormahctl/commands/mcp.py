"""`ormahctl mcp`: serve an agent over MCP, by the small process that `ormahctl/shim/pump.py` is.

`ormahctl mcp` without options never comes here: `ormahctl/__main__.py` starts that process at once.
"""

from __future__ import annotations

import sys

import click

from ormahctl import render
from ormahctl.registry import Verb
from ormahctl.session import Session, pass_session


@click.command(
    cls=Verb,
    short_help="Serve an agent over MCP, on standard input and output.",
    example="claude mcp add --scope user ormah -- ormahctl mcp",
)
@pass_session
def mcp(session: Session) -> None:
    """Serve an agent over the Model Context Protocol, on standard input and output. An agent's program starts this."""
    from ormahctl.shim.pump import serve

    if sys.stdin is not None and sys.stdin.isatty():
        render.note(
            "an agent's program runs this and speaks JSON-RPC; there is nothing to type. To connect one: docs/mcp.md"
        )
        raise click.exceptions.Exit(0)
    serve(str(session.socket_path))
