"""The list of commands and their modules. A module is imported only when its command runs, to keep the start quick."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any, Final

import click

from ormahctl import render
from ormahctl.session import Session, caller_name, pass_session
from ormahd import __version__

FOR_A_PERSON: Final = "What a person needs"
_HEADINGS: Final = {
    FOR_A_PERSON: "remember recall show edit forget undo history review status setup sync web",
    "More about memories": "update outdated connect whisper feedback spaces how fix",
    "In and out": "sources ingest import export",
    "Maintenance": "jobs maintenance",
    "The daemon and its settings": "up down restart config doctor verify rebuild logs model",
    "Agents": "mcp hook statusline uninstall",
    "Help": "help",
}
SECTIONS: Final = {heading: names.split() for heading, names in _HEADINGS.items()}
"""{heading in the help: commands}. `ormahctl` alone shows the first."""
_SHARED = {
    "config": "model",
    "daemon": "status up down restart",
    "health": "doctor verify rebuild logs",
    "hook": "mcp statusline",
    "maintenance": "jobs",
    "setup": "uninstall",
    "transfer": "import export",
    "whisper": "feedback",
    "work": "how fix",
    "write": "remember edit update outdated connect",
}
"""{module in `ormahctl.commands`: the commands in it}. The others have a module of their own name."""

_COMMANDS = [name for names in SECTIONS.values() for name in names]
_MODULES = {name: name for name in _COMMANDS} | {
    name: module for module, names in _SHARED.items() for name in names.split()
}


HELP_COLUMNS = 80


class CommandContext(click.Context):
    """A click context that formats help to fit the terminal's width."""

    def make_formatter(self) -> click.HelpFormatter:
        """Return a formatter of help text that is as wide as the terminal, at most `HELP_COLUMNS`."""
        return click.HelpFormatter(width=min(HELP_COLUMNS, render.columns()) - 2)


class Verb(click.Command):
    """A click command that has an example in its help, accepts `--json` also after its name, and checks combinations
    of options.

    `excludes`: groups of options; the first of a group may not be given together with any other of that group, such
    as `("--revoke", "--reason", "--by")`.
    """

    context_class = CommandContext

    def __init__(self, *args: Any, example: str = "", excludes: Sequence[Sequence[str]] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.example = example
        self.excludes = excludes
        self.params.append(
            click.Option(
                ["--json"], is_flag=True, expose_value=False, callback=_json, help="Print JSON, errors too (on stderr)."
            )
        )

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments. Raises UsageError if they break `excludes`."""
        words = list(args)
        remaining = super().parse_args(ctx, args)
        _, _, in_order = self.make_parser(ctx).parse_args(words)
        given = {name for param in in_order if isinstance(param, click.Option) for name in param.opts}
        for first, *others in self.excludes:
            for other in others:
                if {first, other} <= given:
                    raise click.UsageError(f"{first} and {other} exclude each other", ctx)
        return remaining

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples below the help, each in one line that can be copied."""
        if self.example:
            with formatter.section("Example"):
                for example in self.example.splitlines():
                    # not wrapped: a command is there to be copied
                    formatter.write(" " * formatter.current_indent + example + "\n")
        super().format_epilog(ctx, formatter)


def _json(context: click.Context, _: click.Parameter, value: bool) -> None:
    """Note that the command was given `--json`. A callback of click."""
    if value:
        context.ensure_object(Session).json = True


class Verbs(click.Group):
    """The group of all commands. It imports a command's module only when that command is used."""

    context_class = CommandContext

    def list_commands(self, _: click.Context) -> list[str]:
        """Return the names of all commands, in the order of the help."""
        return _COMMANDS

    def get_command(self, _: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a command; None if there is none of this name."""
        if cmd_name not in _MODULES:
            return None
        module = importlib.import_module(f"ormahctl.commands.{_MODULES[cmd_name]}")
        command = getattr(module, {"import": "import_", "help": "help_"}.get(cmd_name, cmd_name))
        assert isinstance(command, click.Command)
        return command

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands into the help. The global options are written only by `help --all`."""
        if ctx.ensure_object(Session).all_commands:
            super().format_options(ctx, formatter)
        else:
            self.format_commands(ctx, formatter)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands that a person needs; with `help --all` (`ctx.obj.all_commands`) all of them."""
        room = formatter.width - 6 - max(map(len, _COMMANDS))
        sections = SECTIONS if ctx.ensure_object(Session).all_commands else {FOR_A_PERSON: SECTIONS[FOR_A_PERSON]}
        for heading, names in sections.items():
            commands = {name: self.get_command(ctx, name) for name in names}
            rows = [(name, command.get_short_help_str(room)) for name, command in commands.items() if command]
            with formatter.section(heading):
                formatter.write_dl(rows)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the last lines of the help: the exit statuses for `help --all`, else how to get more help."""
        formatter.write_paragraph()
        if ctx.ensure_object(Session).all_commands:
            formatter.write_text(EXITS)
        else:
            formatter.write_text("All commands: ormahctl help --all. About one: ormahctl help COMMAND.")


def _agent_name(context: click.Context, parameter: click.Parameter, value: str | None) -> str:
    """Return the caller's name: the value of `--agent`, or the default (`caller_name`). A callback of click.

    Raises:
        BadParameter: the name is blank.
    """
    if value is None:
        return caller_name()
    if not value.strip():
        raise click.BadParameter("a name is needed, such as claude-code", context, parameter)
    return value


EXITS = (
    "Exit status: 0 ok, 1 something was found (doctor, verify) or nothing was (recall), 2 usage, 3 not found, 4 conflict, "
    "5 invalid note or settings file, 6 too many changes, 69 the daemon is unavailable, 75 git is busy, 76 versions do not fit."
)


@click.group(
    "ormahctl", cls=Verbs, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.option("--json", is_flag=True, help="Print JSON, errors too (on stderr).")
@click.option("--socket", metavar="S", help="The daemon's socket. Default: ORMAH_SOCKET, or the configured one.")
@click.option(
    "--agent",
    metavar="NAME",
    callback=_agent_name,
    help="The caller, for the history. Default: the agent of this shell, or 'person'.",
)
@click.version_option(__version__, message="%(prog)s %(version)s", help="Print the version of this program.")
@pass_session
def cli(session: Session, json: bool, socket: str | None, agent: str) -> None:
    """Ormah is the long-term memory of your AI agents. This is how you look at it, change it, and take changes back."""
    session.json, session.socket, session.agent = json, socket, agent
    context = click.get_current_context()
    if context.invoked_subcommand is None:
        click.echo(context.get_help(), color=context.color)
