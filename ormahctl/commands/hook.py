"""`ormahctl hook`, `statusline` and `mcp`: what an agent's program runs, if it cannot start the shim itself.

The shim does the work (`ormahctl/shim/prompt.py`): one deadline for everything, no output on any failure, exit status
always 0. `setup` writes the shim's own command instead, which starts ten times as fast. `mcp` and `statusline` without
options never come here: `ormahctl/__main__.py` starts the shim at once.
"""

from __future__ import annotations

import sys
from typing import Any

import click

from ormahctl import render
from ormahctl.options import OneOf
from ormahctl.registry import Verb
from ormahctl.session import Session, pass_session

HARNESSES = ("claude-code", "codex", "gemini")
DEADLINE, DEADLINE_HELP = click.IntRange(1, 60_000), "Milliseconds after which the hook gives up."
NAMED = "name the event as the agent does, for example: ormahctl hook UserPromptSubmit"


class HookVerb(Verb):
    """A command for harnesses. Wrong usage prints an error and exits with 0, because status 2 would block the prompt."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Parse the arguments as click does. After wrong usage, or if a person started the command without
        arguments, print what it is for and raise Exit with status 0."""
        if not args and _is_typed():
            _print_explanation()
            raise click.exceptions.Exit(0)
        try:
            return super().make_context(info_name, args, parent, **extra)
        except click.UsageError as exc:
            from ormahctl.run import from_click

            failure = from_click(exc, [])
            render.note(failure.message, label="error")
            missing = exc.param if isinstance(exc, click.MissingParameter) else None
            lacks_event = missing is not None and missing.name == "event"
            render.note(NAMED if lacks_event else failure.hint or "", label="hint")
            raise click.exceptions.Exit(0) from None


@click.command(
    cls=HookVerb,
    short_help="Answer an agent's hook (JSON on stdin).",
    example='echo \'{"prompt": "which database did we choose?", "session_id": "s1"}\' | ormahctl hook UserPromptSubmit',
)
@click.argument("event")
@click.option(
    "--harness", type=OneOf(HARNESSES), default=HARNESSES[0], show_default=True, help="The harness that runs the hook."
)
@click.option("--deadline", type=DEADLINE, default=500, show_default=True, metavar="MS", help=DEADLINE_HELP)
@pass_session
def hook(session: Session, event: str, harness: str, deadline: int) -> None:
    """Answer EVENT of an agent's harness: reads its JSON from stdin, and prints the answer, or nothing. It never fails."""
    from ormahctl.shim import prompt

    if _is_typed():
        _print_explanation()
        return
    prompt.main([event, "--harness", harness, "--socket", str(session.socket_path), "--deadline", str(deadline)])


@click.command(
    short_help="Print a line about this session, for Claude Code's status line.",
    cls=Verb,
    example='echo \'{"session_id": "s1"}\' | ormahctl statusline',
)
@pass_session
def statusline(session: Session) -> None:
    """Print which memories the session was told. Claude Code shows it if its settings have
    {"statusLine": {"type": "command", "command": "ormahctl statusline"}}."""
    from ormahctl.shim import prompt

    if _is_typed():
        _print_explanation()
        return
    prompt.main(["StatusLine", "--harness", HARNESSES[0], "--socket", str(session.socket_path)])


def _is_typed() -> bool:
    """Whether a person typed the command: stdin is a terminal, which harnesses never pass."""
    return sys.stdin is not None and sys.stdin.isatty()


def _print_explanation() -> None:
    """Print a note that says who runs this command, and what a person may want instead."""
    render.note(
        "an agent's program runs this at its events and hands it JSON on stdin; there is nothing to type. "
        'To connect an agent: ormahctl setup. To see what would be whispered: ormahctl whisper "a prompt"'
    )


@click.command(
    cls=Verb,
    short_help="Serve an agent over MCP, on standard input and output.",
    example="claude mcp add --scope user ormah -- ormahctl mcp",
)
@pass_session
def mcp(session: Session) -> None:
    """Serve an agent over the Model Context Protocol, on standard input and output. An agent's program starts this."""
    from ormahctl.shim.pump import serve

    if _is_typed():
        render.note(
            "an agent's program runs this and speaks JSON-RPC; there is nothing to type. To connect one: docs/mcp.md"
        )
        raise click.exceptions.Exit(0)
    serve(str(session.socket_path))
