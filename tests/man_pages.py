"""The manual pages of ormahctl and ormahd, made from their help: `python -m tests.man_pages` writes them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

import click

from ormahctl.registry import SECTIONS, cli
from ormahd.__main__ import cli as daemon
from tests.surroundings import ROOT

FOLDER = ROOT / "docs" / "man"
SEE = {"ormahctl": "ormahd(1)", "ormahd": "ormahctl(1)"}


def current() -> dict[str, str]:
    """Return the pages by file name, as the commands are now."""
    return {
        "ormahctl.1": _page("ormahctl", cli, {heading: list(names) for heading, names in SECTIONS.items()}),
        "ormahd.1": _page("ormahd", daemon, {"Commands": daemon.list_commands(click.Context(daemon))}),
    }


def _page(name: str, group: click.Group, sections: dict[str, list[str]]) -> str:
    context = click.Context(group, info_name=name)
    first, _, rest = inspect.cleandoc(group.help or "").partition("\n\n")
    what = " ".join(first.split()).rstrip(".")
    head = [f'.TH {name.upper()} 1 "" "Ormah" "Ormah"', ".SH NAME", f"{name} \\- {_text(what[:1].lower() + what[1:])}"]
    head += [".SH SYNOPSIS", f".B {name}", "[OPTIONS] COMMAND [ARGUMENTS]..."]
    lines = [
        *head,
        *([".SH DESCRIPTION", *_paragraphs(rest)] if rest else []),
        ".SH OPTIONS",
        *_options(group, context),
    ]
    for heading, names in sections.items():
        lines.append(f".SH {heading.upper()}")
        for one in names:
            command = group.get_command(context, one)
            assert command is not None
            if not command.hidden:
                lines += _command(command, one)
    if group.epilog:
        lines += [".SH EXIT STATUS", _text(group.epilog.removeprefix("Exit status: "))]
    return "\n".join([*lines, ".SH SEE ALSO", SEE[name]]) + "\n"


def _command(command: click.Command, path: str) -> Iterator[str]:
    context = click.Context(command, info_name=path)
    usage = " ".join(piece for piece in command.collect_usage_pieces(context) if piece != "[OPTIONS]")
    yield f".SS {_text(f'{path} {usage}'.strip())}"
    yield from _paragraphs(inspect.cleandoc(command.help or ""))
    yield from _options(command, context)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from _command(inner, f"{path} {name}")


def _paragraphs(text: str) -> Iterator[str]:
    for paragraph in re.sub(r"(?m)^[\b\f]\n", "", text).split("\n\n"):
        yield ".PP"
        yield _text(" ".join(paragraph.split()))


def _options(command: click.Command, context: click.Context) -> Iterator[str]:
    for option in command.params:
        record = option.get_help_record(context) if isinstance(option, click.Option) else None
        if record is not None:
            yield ".TP"
            yield f".B {_text(record[0])}"
            yield _text(" ".join(record[1].split()))


def _text(text: str) -> str:
    """Return text in which no character has a meaning for roff."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{text}" if text[:1] in {".", "'"} else text


if __name__ == "__main__":
    for file, page in current().items():
        (FOLDER / file).write_text(page, "utf-8")
