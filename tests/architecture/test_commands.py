"""How much there is to learn: the numbers of commands, options and settings may only fall."""

from __future__ import annotations

from collections.abc import Iterator

import click

from ormahctl.registry import FOR_A_PERSON, SECTIONS, cli
from ormahd.config import keys

COMMANDS, OPTIONS, SETTINGS = 40, 111, 51
"""The most that there may be. The aim is 36 commands, 100 options and 45 settings."""


def test_a_person_needs_twelve_commands() -> None:
    twelve = "remember recall show edit forget undo history review status setup sync web"
    assert " ".join(SECTIONS[FOR_A_PERSON]) == twelve


def test_there_are_few_commands_options_and_settings() -> None:
    commands = [name for section in SECTIONS.values() for name in section]
    assert len(commands) <= COMMANDS
    assert len(list(_options(cli, click.Context(cli)))) <= OPTIONS
    assert len(list(keys())) <= SETTINGS


def _options(command: click.Command, context: click.Context) -> Iterator[str]:
    """Yield the options of a command and of its subcommands, without `--json` and `--help`, which all have."""
    yield from (
        param.opts[-1]
        for param in command.params
        if isinstance(param, click.Option) and param.name not in {"json", "help"}
    )
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from _options(inner, context)
