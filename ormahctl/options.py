"""Types of arguments and options that several commands share."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

import click
from click.core import ParameterSource

from ormahd.api import Link
from ormahd.rpc.wire import TooLarge

F = TypeVar("F", bound=Callable[..., Any])

TYPES: Final = (
    *("fact", "decision", "preference", "event", "person"),
    *("project", "concept", "procedure", "goal", "observation"),
)
TIERS: Final = ("core", "working", "archival")
EDGES: Final = (
    *("supports", "part_of", "depends_on", "defines"),
    *("derived_from", "evolved_from", "related_to", "contradicts"),
)


class Unknown(click.BadParameter):
    """The error for a word that is not allowed. `meant`: the most similar allowed words."""

    def __init__(
        self, word: str, known: Iterable[str], param: click.Parameter | None, ctx: click.Context | None
    ) -> None:
        words = list(known)
        self.meant = near(word, words)
        super().__init__(f"'{word}' is not one of {', '.join(words)}", ctx, param)


def near(word: str, known: Iterable[str]) -> list[str]:
    """Return at most two words of `known`: those that are similar to `word`, or if there are none, those that begin
    with it."""
    by_fold = {word.casefold(): word for word in known}
    folded = word.strip().casefold()[:200]
    found = difflib.get_close_matches(folded, by_fold, n=2)
    found = found or [candidate for candidate in by_fold if len(folded) > 2 and candidate.startswith(folded)][:2]
    return [by_fold[candidate] for candidate in found]


class OneOf(click.Choice[str]):
    """Type of a parameter: one of several words. The error for another word names the most similar one."""

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return `value` unchanged. Raises Unknown if it is not one of the words."""
        if value not in self.choices:
            raise Unknown(value, self.choices, param, ctx)
        return value


TYPE = OneOf(TYPES)
TIER = OneOf(TIERS)
EDGE = OneOf(EDGES)
GUARD = OneOf(("ask", "deny"))
SHARE = click.FloatRange(0.0, 1.0)

DAYS: Final = "2026-11-21, 'last week', 7d, 12h"
"""Examples of a time, for the help of options."""

STDIN_BYTES: Final = 8_000_000
"""Largest number of bytes read from stdin: more than the largest memory has (1,000,000 characters), less than a frame
holds."""


class NamedFolder(click.Path):
    """Type of a parameter: a folder. Empty text, as from a shell variable that is not set, is refused: it would mean
    the current folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path as click converts it. Fails for empty text."""
        if value == "":
            self.fail("it is empty; `.` is the folder here", param, ctx)
        return super().convert(value, param, ctx)


class LinkType(click.ParamType[Link]):
    """Type of an argument `EDGE:ID`, such as `supports:1a2b3c4d`: converts it to a `Link`."""

    name = "EDGE:ID"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> Link:
        """Return the `Link` that `value`, an `EDGE:ID`, names. Fails for another form, or an unknown edge."""
        edge, colon, target = value.partition(":")
        if not colon or not target.strip():
            self.fail(f"'{value}' is not EDGE:ID, such as supports:1a2b3c4d", param, ctx)
        if edge not in EDGES:
            raise Unknown(edge, EDGES, param, ctx)
        return Link(target=target.strip(), edge=edge)


def limit_option(maximum: int, *, default: int, what: str = "results") -> Callable[[F], F]:
    """Return the decorator for the option `-n`, `--limit`: how many of `what` are listed, from 1 to `maximum`."""
    numbers, help_ = click.IntRange(1, maximum), f"Largest number of {what}."
    return click.option("-n", "--limit", type=numbers, metavar="N", default=default, show_default=True, help=help_)


def typed(name: str) -> bool:
    """Whether the parameter `name` was given on the command line, and does not just have its default."""
    return click.get_current_context().get_parameter_source(name) is ParameterSource.COMMANDLINE


def text_or_stdin(value: str, what: str) -> str:
    """Return `value`, or the text on stdin (UTF-8) if `value` is `-`. `what`: the name of the text, for messages."""
    if value != "-":
        return value
    if sys.stdin is None or sys.stdin.closed:
        raise click.UsageError(f"'-' reads {what} from stdin, and stdin is closed")
    if sys.stdin.isatty():
        sys.stderr.write(f"reading {what} from the terminal; end with Ctrl-D\n")
    data = sys.stdin.buffer.read(STDIN_BYTES + 1)
    if len(data) > STDIN_BYTES:
        raise TooLarge(
            f"{what} on stdin is longer than {STDIN_BYTES:,} bytes",
            hint="a document is no memory: put the file into the vault, and it is found by its words",
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        raise click.UsageError(f"{what} on stdin is not valid UTF-8 (byte {exc.start + 1})") from exc
