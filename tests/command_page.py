"""The page of the commands, made from their help: `python -m tests.command_page` writes it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

import click

from ormahctl.registry import EXITS, SECTIONS, cli
from tests.surroundings import ROOT

FILE = ROOT / "docs" / "commands.md"
HEAD = """# Commands

Generated from the commands' help by `python -m tests.command_page`. `ormahctl COMMAND --help` prints the same, with examples.

Every command takes `--json`, before or after its name, and then prints JSON, errors too (on standard error). An id may be any unique
beginning of it, from four characters on.
"""


def current() -> str:
    """Return the page as the commands are now."""
    context = click.Context(cli, info_name="ormahctl")
    text = HEAD + "\n" + _options(cli, context) + f"\n{EXITS}\n"
    for heading, names in SECTIONS.items():
        text += f"\n## {heading}\n"
        for name in names:
            command = cli.get_command(context, name)
            assert command is not None
            text += "".join(_command(command, f"ormahctl {name}"))
    return text


def _command(command: click.Command, path: str) -> Iterator[str]:
    """Yield the sections of a command and of its subcommands."""
    context = click.Context(command, info_name=path)
    usage = " ".join(piece for piece in command.collect_usage_pieces(context) if piece != "[OPTIONS]")
    yield f"\n### {path.removeprefix('ormahctl ')}\n\n`{f'{path} {usage}'.strip()}`\n\n"
    yield re.sub(r"(?m)^[\b\f]\n", "", inspect.cleandoc(command.help or "")) + "\n"
    options = _options(command, context)
    yield f"\n{options}" if options else ""
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from _command(inner, f"{path} {name}")


def _options(command: click.Command, context: click.Context) -> str:
    """Return the list of a command's own options, without `--json` and `--help`; empty where there are none."""
    records = [
        option.get_help_record(context)
        for option in command.params
        if isinstance(option, click.Option) and option.name not in {"json", "help"}
    ]
    return "".join(f"- `{names}`: {' '.join(text.split())}\n" for names, text in filter(None, records))


if __name__ == "__main__":
    FILE.write_text(current(), "utf-8")
