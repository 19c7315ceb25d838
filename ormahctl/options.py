"""Kinds of arguments that several commands share, with their completion."""

from __future__ import annotations

import re
import sys
from datetime import datetime, time, timedelta
from typing import Final

import click
from click.shell_completion import CompletionItem

from ormahd.rpc.schema import Link
from ormahd.rpc.wire import TooLarge

TYPES: Final = (
    "fact", "decision", "preference", "event", "person", "project", "concept", "procedure", "goal", "observation",
)  # fmt: skip
TIERS: Final = ("core", "working", "archival")
EDGES: Final = (
    "supports", "part_of", "depends_on", "defines", "derived_from", "evolved_from", "related_to", "contradicts",
)  # fmt: skip

TYPE = click.Choice(TYPES)
TIER = click.Choice(TIERS)
EDGE = click.Choice(EDGES)
SHARE = click.FloatRange(0.0, 1.0)

STDIN_BYTES: Final = 8_000_000
"""More than the largest memory takes (1,000,000 characters), and far less than a frame holds."""

_AGO = re.compile(r"(\d{1,5})\s*(min|h|d|w)")
_UNITS = {"min": "minutes", "h": "hours", "d": "days", "w": "weeks"}


class LinkType(click.ParamType[Link]):
    """`EDGE:ID`, as in `supports:1a2b3c4d`."""

    name = "EDGE:ID"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> Link:
        edge, colon, target = value.partition(":")
        if not colon or not target.strip():
            self.fail(f"'{value}' is not EDGE:ID, such as supports:1a2b3c4d", param, ctx)
        if edge not in EDGES:
            self.fail(f"'{edge}' is no edge; there are {', '.join(EDGES)}", param, ctx)
        return Link(target=target.strip(), edge=edge)

    def shell_complete(self, _: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(f"{edge}:") for edge in EDGES if edge.startswith(incomplete)]


class When(click.ParamType[str]):
    """A moment in the reader's own time zone: `2026-11-21`, `2026-11-21T20:00`, `yesterday`, `3d` ago.

    A bare day is its first instant, or with `end` its last one. Converted to ISO 8601 with an offset.
    """

    name = "when"

    def __init__(self, *, end: bool = False) -> None:
        self.end = end

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        text = value.strip().lower()
        now = datetime.now().astimezone()
        ago = _AGO.fullmatch(text)
        try:
            if ago:
                return (now - timedelta(**{_UNITS[ago[2]]: int(ago[1])})).isoformat()
            if text in {"today", "yesterday"} or re.fullmatch(r"\d{4}-\d{2}-\d{2}", text):
                days = {"today": 0, "yesterday": 1}
                day = now.date() - timedelta(days[text]) if text in days else datetime.fromisoformat(text).date()
                return datetime.combine(day, time.max if self.end else time.min).astimezone().isoformat()
            return datetime.fromisoformat(value.strip()).astimezone().isoformat()
        except (ValueError, OverflowError):
            self.fail(f"'{value}' is no time; write 2026-11-21, 2026-11-21T20:00, yesterday, 3d or 12h", param, ctx)


class Until(click.ParamType[str]):
    """A moment as `When(end=True)` has it, or an op or a commit as it is."""

    name = "when|op"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        text = value.strip().lower()
        if re.fullmatch(r"[0-9a-z]{4,64}", text) and text not in {"today", "yesterday"} and not _AGO.fullmatch(text):
            return text
        return When(end=True).convert(value, param, ctx)


class Then(click.ParamType[str]):
    """A state of the vault: a moment as `When(end=True)` has it, or a revision (op, commit, branch, tag) as it is."""

    name = "when|rev"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        text = value.strip().lower()
        if text in {"today", "yesterday"} or _AGO.fullmatch(text) or re.match(r"\d{4}-\d{2}-\d{2}", text):
            return When(end=True).convert(value, param, ctx)
        return value.strip()


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
