"""`ormahctl help`: show the help of a command."""

from __future__ import annotations

import click

from ormahctl.registry import Verb
from ormahctl.session import Session, pass_session


@click.command("help", cls=Verb, short_help="Show the help of a command.", example="ormahctl help recall")
@click.argument("words", metavar="[COMMAND]...", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="List all commands, with the exit statuses.")
@pass_session
def help_(session: Session, words: tuple[str, ...], everything: bool) -> None:
    """Show the help of COMMAND, as `ormahctl COMMAND --help` does; without one, the commands that a person needs."""
    context = click.get_current_context().find_root()
    session.all_commands = everything
    for word in words:
        if not isinstance(context.command, click.Group):
            break  # `help jobs run`: the help of `jobs` has it
        command = context.command.get_command(context, word)
        if command is None:
            context.fail(f"No such command '{word}'.")
        context = command.context_class(command, parent=context, info_name=word)
    click.echo(context.get_help(), color=context.color)
