"""Kinds of arguments that several commands share, with their completion."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterable
from typing import Final

import click
from click.shell_completion import CompletionItem

from ormahd.api import Link
from ormahd.rpc.wire import TooLarge

TYPES: Final = (
    "fact", "decision", "preference", "event", "person", "project", "concept", "procedure", "goal", "observation",
)  # fmt: skip
TIERS: Final = ("core", "working", "archival")
EDGES: Final = (
    "supports", "part_of", "depends_on", "defines", "derived_from", "evolved_from", "related_to", "contradicts",
)  # fmt: skip

JOBS: Final = (
    "importance_scorer", "index_updater", "duplicate_merger", "conflict_detector", "auto_linker", "auto_cluster",
    "consolidator", "decay_manager",
)  # fmt: skip


class Unknown(click.BadParameter):
    """A word that is none of those which may stand there; `meant` are the closest of them."""

    def __init__(
        self, word: str, known: Iterable[str], param: click.Parameter | None, ctx: click.Context | None
    ) -> None:
        words = list(known)
        self.meant = near(word, words)
        super().__init__(f"'{word}' is not one of {', '.join(words)}", ctx, param)


def near(word: str, known: Iterable[str]) -> list[str]:
    """Of the known words those that were probably meant, at most two."""
    by_fold = {one.casefold(): one for one in known}
    folded = word.strip().casefold()[:200]
    found = difflib.get_close_matches(folded, by_fold, n=2)
    found = found or [one for one in by_fold if len(folded) > 2 and one.startswith(folded)][:2]
    return [by_fold[one] for one in found]


class OneOf(click.Choice[str]):
    """One of some words; an unknown one is answered with the one that was probably meant."""

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value not in self.choices:
            raise Unknown(value, self.choices, param, ctx)
        return value


class Job(OneOf):
    """The name of a job, in a filter."""

    def __init__(self) -> None:
        super().__init__(JOBS)


TYPE = OneOf(TYPES)
TIER = OneOf(TIERS)
EDGE = OneOf(EDGES)
SHARE = click.FloatRange(0.0, 1.0)

STDIN_BYTES: Final = 8_000_000
"""More than the largest memory takes (1,000,000 characters), and far less than a frame holds."""


class LinkType(click.ParamType[Link]):
    """`EDGE:ID`, as in `supports:1a2b3c4d`."""

    name = "EDGE:ID"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> Link:
        edge, colon, target = value.partition(":")
        if not colon or not target.strip():
            self.fail(f"'{value}' is not EDGE:ID, such as supports:1a2b3c4d", param, ctx)
        if edge not in EDGES:
            raise Unknown(edge, EDGES, param, ctx)
        return Link(target=target.strip(), edge=edge)

    def shell_complete(self, _: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(f"{edge}:") for edge in EDGES if edge.startswith(incomplete)]


def text_or_stdin(value: str, what: str) -> str:
    """`value`, or with `-` what stdin holds (UTF-8)."""
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
