"""`ormahctl help`: show the help of a command."""

from __future__ import annotations

from typing import Any

import click
from click.shell_completion import CompletionItem

from ormahctl.registry import Verb


class CommandWord(click.ParamType[str]):
    """The type of an argument that is the name of a command, or of a subcommand if a command stands before it. Completed
    by the shell."""

    name = "command"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        shown: Any = ctx.find_root().command
        for word in ctx.params.get(param.name or "") or ():
            shown = shown.get_command(ctx, word) if isinstance(shown, click.Group) else None
        names = shown.list_commands(ctx) if isinstance(shown, click.Group) else []
        return [CompletionItem(name) for name in names if name.startswith(incomplete)]


@click.command("help", cls=Verb, short_help="Show the help of a command.", example="ormahctl help recall")
@click.argument("words", metavar="[COMMAND]...", nargs=-1, type=CommandWord())
@click.pass_context
def help_(context: click.Context, words: tuple[str, ...]) -> None:
    """Show the help of COMMAND, as `ormahctl COMMAND --help` does; without one, the list of all commands."""
    shown = context.find_root()
    for word in words:
        if not isinstance(shown.command, click.Group):
            break  # `help jobs run`: the help of `jobs` has it
        command = shown.command.get_command(shown, word)
        if command is None:
            shown.fail(f"No such command '{word}'.")
        shown = command.context_class(command, parent=shown, info_name=word)
    click.echo(shown.get_help(), color=shown.color)
