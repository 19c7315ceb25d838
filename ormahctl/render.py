"""What people see: texts made harmless, cut to width, dated, coloured only on a terminal; and JSON for programs.

A memory is data from anywhere. No byte of it may steer the terminal: control characters, C1 codes and bidirectional
overrides are shown as escapes (`\\x1b`), in every output for people, piped or not.
"""

from __future__ import annotations

import os
import re
import sys
import unicodedata
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, TextIO

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_JSON_CONTROL = re.compile("[\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
_COLOURS = {"red": "31", "green": "32", "yellow": "33", "cyan": "36", "bold": "1", "dim": "2"}


# ---------------------------------------------------------------- texts


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def safe(text: str) -> str:
    """`text` with line breaks and tabs kept and every other control character shown."""
    return _CONTROL.sub(_escape, text.replace("\r\n", "\n"))


def line(text: str) -> str:
    """`text` as one harmless line."""
    return safe(" ".join(text.split()))


def _cells(char: str) -> int:
    if unicodedata.east_asian_width(char) in "WF":
        return 2
    return 0 if unicodedata.category(char) in {"Mn", "Me", "Cf"} else 1


def width(text: str) -> int:
    """Columns that `text` takes in a terminal."""
    return sum(map(_cells, text))


def cut(text: str, columns: int) -> str:
    """`text` in at most `columns` columns, with an ellipsis where something is left out."""
    if width(text) <= columns:
        return text
    room, taken = columns - 1, 0
    for place, char in enumerate(text):
        taken += _cells(char)
        if taken > room:
            return text[:place].rstrip() + "…"
    return text


def pad(text: str, columns: int, *, right: bool = False) -> str:
    space = " " * max(0, columns - width(text))
    return space + text if right else text + space


def moment(text: str | None, *, day: bool = False) -> str:
    """A time of the wire in the reader's own zone, to the minute or (`day`) to the day."""
    if not text:
        return "-"
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return line(text)
    time = time.replace(tzinfo=UTC) if time.tzinfo is None else time
    return time.astimezone().strftime("%Y-%m-%d" if day else "%Y-%m-%d %H:%M")


def size(count: float) -> str:
    for unit in ("bytes", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"


def lasting(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    if seconds < 3600:
        return f"{seconds / 60:.0f} min"
    if seconds < 48 * 3600:
        return f"{seconds / 3600:.0f} h"
    return f"{seconds / 86400:.0f} days"


def count(number: int, one: str, many: str | None = None) -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"


# ---------------------------------------------------------------- streams


def terminal(stream: TextIO) -> bool:
    return stream.isatty()


def colours(stream: TextIO) -> bool:
    """Colour only on a terminal that has not been told otherwise (no-color.org)."""
    return terminal(stream) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def columns() -> int:
    import shutil

    return max(40, shutil.get_terminal_size((100, 24)).columns)


def paint(text: str, colour: str, stream: TextIO | None = None) -> str:
    if not colours(sys.stdout if stream is None else stream):
        return text
    return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m"


def out(text: str = "") -> None:
    """One piece of the result. What came from a memory goes through `safe` or `line` first."""
    sys.stdout.write(text + "\n")


def note(text: str, *, label: str = "note", colour: str = "yellow") -> None:
    """Something beside the result: on stderr, so that it never gets into a pipe."""
    sys.stderr.write(f"{paint(label + ':', colour, sys.stderr)} {safe(text)}\n")


def degraded(parts: Sequence[str]) -> None:
    if parts:
        known = {"vectors": "meaning (vectors)", "reranker": "the reranker", "late": "late interaction"}
        names = ", ".join(known.get(part, line(part)) for part in parts)
        note(f"answered without {names} for now; see: ormahctl status")


# ---------------------------------------------------------------- JSON


def encode(value: Any, *, pretty: bool) -> str:
    """JSON of builtins or Structs; what a terminal would obey is escaped there too (JSON itself leaves C1 codes)."""
    import msgspec

    data = msgspec.json.encode(value)
    text = (msgspec.json.format(data, indent=2) if pretty else data).decode()
    return _JSON_CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def emit(value: Any) -> None:
    """The result of a command with --json: indented on a terminal, one line in a pipe."""
    out(encode(value, pretty=terminal(sys.stdout)))


# ---------------------------------------------------------------- tables


def table(headers: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[int] = ()) -> None:
    """A table: drawn by rich on a terminal, plain aligned columns elsewhere. `right`: columns aligned to the right."""
    clean = [[line(cell) for cell in row] for row in rows]
    if colours(sys.stdout):
        from rich.box import SIMPLE_HEAD
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        drawn = Table(box=SIMPLE_HEAD, pad_edge=False)
        for number, header in enumerate(headers):
            drawn.add_column(header, justify="right" if number in right else "left", overflow="fold")
        for row in clean:
            drawn.add_row(*(Text(cell) for cell in row))
        Console(file=sys.stdout, highlight=False).print(drawn)
        return
    widths = [max(width(row[number]) for row in [list(headers), *clean]) for number in range(len(headers))]
    for row in [list(headers), *clean]:
        cells = [pad(cell, widths[number], right=number in right) for number, cell in enumerate(row)]
        out("  ".join(cells).rstrip())
