r"""Print text for people: escaped, wrapped, coloured, with progress bars; and JSON for programs.

A memory may hold any text, and none of it may control the terminal. So control characters, C1 codes and bidirectional
overrides are shown as escapes (`\x1b`) in all output for people, piped or not. On a terminal every line of `out` and
`note` is wrapped to its width; a pipe gets each line whole. rich is imported only for a progress bar.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TextIO

if TYPE_CHECKING:
    from rich.progress import Progress as Drawn
    from rich.progress import TaskID

    from ormahd.api import Progress as StageProgress


_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_JSON_CONTROL = re.compile("[\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
_PAINT = re.compile("\x1b\\[[0-9]*m")
"""Matches the colour codes that `paint` puts before and after a text."""
_COLOURS = {"red": "31", "green": "32", "yellow": "33", "cyan": "36", "bold": "1", "dim": "2"}


_LABELS = dict.fromkeys(("hint", "languages", "log", "next", "start", "undo"), "cyan")
_LABELS |= dict.fromkeys(("conflict", "error", "secret"), "red")
"""{label of a remark (`note`): its colour}; others are yellow."""


# ---------------------------------------------------------------- texts


def safe(text: str) -> str:
    """Return `text` with every control character except line breaks and tabs shown as an escape."""
    return _CONTROL.sub(
        lambda sign: f"\\x{ord(sign[0]):02x}" if sign[0] < "\u0100" else f"\\u{ord(sign[0]):04x}",
        text.replace("\r\n", "\n"),
    )


def line(text: str) -> str:
    """Return `text` as one line without control characters."""
    return safe(" ".join(text.split()))


def width(text: str) -> int:
    """Return the number of columns that `text` takes in a terminal, without its colours."""
    from rich.cells import cell_len

    return cell_len(_PAINT.sub("", text))


def cut(text: str, columns: int) -> str:
    """Return `text`, or if it is wider than `columns` its beginning with an ellipsis. It is cut between two words,
    unless that would remove more than 40 % of the room."""
    if width(text) <= columns:
        return text
    from rich.cells import set_cell_size

    head = set_cell_size(text, columns - 1)
    words = head.rsplit(" ", 1)
    if text[len(head) : len(head) + 1] not in {"", " "} and len(words) == 2 and len(words[0]) > len(head) * 0.6:
        head = words[0]
    return head.rstrip() + "…"


def pad(text: str, columns: int, *, right: bool = False) -> str:
    """Return `text` with blanks added up to `columns`: after it, or with `right` before it."""
    space = " " * max(0, columns - width(text))
    return space + text if right else text + space


def moment(text: str | None, *, day: bool = False) -> str:
    """Return the ISO time `text` in the local time zone, as date and minute (with `day` only the date); `-` for no
    text."""
    if not text:
        return "-"
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return line(text)
    time = time.replace(tzinfo=UTC) if time.tzinfo is None else time
    return time.astimezone().strftime("%Y-%m-%d" if day else "%Y-%m-%d %H:%M")


def is_past(text: str | None) -> bool:
    """Whether the ISO time `text` is in the past. False if `text` is no time, or None."""
    try:
        time = datetime.fromisoformat(text or "")
    except ValueError:
        return False
    return (time.replace(tzinfo=UTC) if time.tzinfo is None else time) <= datetime.now(UTC)


def size(count: float) -> str:
    """Return a number of bytes as text, with a unit that fits: `3.4 MB`."""
    for unit in ("bytes", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"


def lasting(seconds: float) -> str:
    """Return a duration as text, with a unit that fits: `3.4 s`, `12 min`, `5 days`."""
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    if seconds < 3600:
        return f"{seconds / 60:.0f} min"
    if seconds < 48 * 3600:
        return f"{seconds / 3600:.0f} h"
    return f"{seconds / 86400:.0f} days"


def count(number: int, singular: str, many: str | None = None) -> str:
    """Return a number with its noun: `1 memory`, `1,200 memories`. `many`: the plural, if it is not `singular` and
    an s."""
    return f"{number:,} {singular if number == 1 else many or singular + 's'}"


# ---------------------------------------------------------------- streams


def is_terminal(stream: TextIO) -> bool:
    """Whether `stream` is a terminal."""
    return stream.isatty()


def has_colours(stream: TextIO) -> bool:
    """Whether to print colours on `stream`: it is a terminal, `NO_COLOR` is not set (no-color.org), and `TERM` is
    not `dumb`."""
    return is_terminal(stream) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def columns() -> int:
    """Return the width of the terminal in columns: at least 20, and 100 if it is unknown."""
    import shutil

    return max(20, shutil.get_terminal_size((100, 24)).columns)


def paint(text: str, colour: str, stream: TextIO | None = None) -> str:
    """Return `text` with the codes of a colour, or of `bold` or `dim`, if `stream` has colours (None: stdout)."""
    if not has_colours(sys.stdout if stream is None else stream):
        return text
    return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m"


def out(text: str = "", *, hang: int = 2) -> None:
    """Write a line to stdout, wrapped between words on a terminal. Memories' texts must be passed through `safe` or
    `line` first. `hang`: columns by which the second and further lines are indented more than the first."""
    _write(sys.stdout, text, hang)


def row(head: str, text: str, *, tail: str = "") -> None:
    """Write `head`, `text` and `tail` as one line. On a terminal `text` is cut to the free columns."""
    room = columns() - width(head) - width(tail)
    out(f"{head}{cut(text, max(room, 20)) if is_terminal(sys.stdout) else text}{tail}")


def raw(text: str) -> None:
    """Write a line to stdout without wrapping it: for text that a person copies or a program reads."""
    sys.stdout.write(text + "\n")


def note(text: str, *, label: str = "note", colour: str | None = None) -> None:
    """Write a remark to stderr, so that it is never part of output that another program reads. `label`: the word
    before it. `colour`: the label's colour; None: the usual one of this label."""
    aside(f"{paint(label + ':', colour or _LABELS.get(label, 'yellow'), sys.stderr)} {safe(text)}")


def aside(text: str) -> None:
    """Write a line to stderr, wrapped as by `out`."""
    _write(sys.stderr, text, 2)


def _write(stream: TextIO, text: str, hang: int) -> None:
    """Write `text` and a line end to `stream`. On a terminal, each of its lines is wrapped (`wrapped`)."""
    if not is_terminal(stream):
        stream.write(text + "\n")
        return
    room = columns()
    stream.writelines("\n".join(wrapped(paragraph, room, hang)) + "\n" for paragraph in text.split("\n"))


def wrapped(text: str, room: int, hang: int = 2) -> list[str]:
    """Return `text`, one line, as several lines of at most `room` columns, broken between words. A longer word, such
    as a link or a path, is not broken.

    `hang`: columns by which the second and further lines are indented more than the first.
    """
    if width(text) <= room:
        return [text]
    import wcwidth

    begin = text[: len(text) - len(text.lstrip(" "))][: room // 2]
    further = " " * min(len(begin) + hang, room // 2)
    return wcwidth.wrap(
        text.lstrip(" "),
        room,
        initial_indent=begin,
        subsequent_indent=further,
        tabsize=4,
        break_long_words="/" not in text,
        break_on_hyphens=False,
    )


def warn_of_missing_parts(parts: Sequence[str]) -> None:
    """Write notes to stderr about what a search went without, such as vectors. `parts`: the field `degraded` of the
    answer."""
    if "period" in parts:
        note("no memory is of that time: found by the words")
    if without := [part for part in parts if part != "period"]:
        known = {"vectors": "meaning (vectors)", "late": "late interaction"}
        names = ", ".join(known.get(part, line(part)) for part in without)
        note(f"answered without {names} for now; see: ormahctl status")


def warn_of_unread_vault(parts: Sequence[str]) -> None:
    """Write a note to stderr that an answer may be incomplete, if `parts` has `index`: the daemon has not read the
    whole vault yet. `parts`: the field `degraded` of the answer."""
    if "index" in parts:
        note("the daemon is still reading the vault, so this may not be all of it; see: ormahctl status")


# ---------------------------------------------------------------- JSON


def encode(value: Any, *, pretty: bool) -> str:
    """Return `value` (Structs, dicts, lists, scalars) as JSON in which all control characters are escaped, also C1."""
    import msgspec

    data = msgspec.json.encode(value)
    text = (msgspec.json.format(data, indent=2) if pretty else data).decode()
    return _JSON_CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def emit(value: Any) -> None:
    """Print the result of a command with `--json`: indented on a terminal, one line in a pipe."""
    raw(encode(value, pretty=is_terminal(sys.stdout)))


# ---------------------------------------------------------------- tables


def table(headers: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[int] = ()) -> None:
    """Print a table. `right`: columns that are aligned to the right. A terminal that is too narrow wraps its lines."""
    lines = [[line(cell) for cell in row] for row in rows]
    widths = [max(width(row[at]) for row in [headers, *lines]) for at in range(len(headers))]
    for number, row in enumerate([headers, *lines]):
        text = "  ".join(pad(cell, widths[at], right=at in right) for at, cell in enumerate(row)).rstrip()
        raw(text if number else paint(text, "bold"))


def facts(found: Mapping[str, Any], prefix: str = "") -> None:
    """Print a nested map with a line for each value, such as `period.after: 2026-11-21`. Empty values are left out.
    `prefix`: put before each name; the maps within a map get their name in it."""
    for name, value in found.items():
        if isinstance(value, Mapping):
            facts(value, f"{prefix}{name}.")
        elif isinstance(value, list) and value and isinstance(value[0], Mapping):
            for number, entry in enumerate(value, 1):
                text = ", ".join(
                    f"{part} {in_words(item)}" for part, item in entry.items() if item not in (None, [], {}, "")
                )
                out(f"{line(prefix + str(name))} {number}. {text}", hang=4)
        elif value not in (None, [], ""):
            out(f"{line(prefix + str(name))}: {in_words(value)}", hang=4)


def in_words(value: Any) -> str:
    """Return a value from a trace (`facts`) as text: yes or no, numbers with at most four decimals, lists separated
    by commas."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return " ".join(f"{name}={in_words(part)}" for name, part in value.items())
    if isinstance(value, float):
        return f"{round(value, 4) + 0.0:.4f}".rstrip("0").rstrip(".") or "0"  # + 0.0: no -0
    return ", ".join(map(in_words, value)) if isinstance(value, list) else line(str(value))


class Bar:
    """A progress bar on stderr: `with Bar("importing") as bar: bar.set(done, total, "1,200 notes, 310/s")`. Without a
    terminal it prints nothing."""

    def __init__(self, what: str, *, counts: bool = False) -> None:
        self.what = what
        self.counts = counts
        """Whether `follow` also shows the number of what is done."""
        self._drawn: Drawn | None = None
        self._task: TaskID | None = None

    @property
    def visible(self) -> bool:
        """Whether the bar is visible."""
        return self._drawn is not None

    def __enter__(self) -> Self:
        """Draw the bar, if stderr is a terminal with colours."""
        if has_colours(sys.stderr):
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

            self._drawn = Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                TaskProgressColumn(),
                TextColumn("{task.fields[text]}", markup=False),
                TimeRemainingColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self._drawn.start()
            self._task = self._drawn.add_task(self.what, total=None, text="")
        return self

    def set(self, done: float, total: float | None, text: str = "", *, what: str | None = None) -> None:
        """Show progress: `done` of `total` (None or 0: unknown). `text`: shown after the bar. `what`: replaces the
        words before it."""
        if self._drawn is not None and self._task is not None:
            words = line(what) if what else self.what
            self._drawn.update(self._task, completed=done, total=total or None, text=line(text), description=words)

    def follow(self, progress: StageProgress) -> None:
        """Show the progress that the daemon reports of a call, with its stage in place of the words before the bar."""
        done = f"{progress.done:,}" if self.counts and progress.done else ""
        self.set(progress.done, progress.total, done, what=progress.stage)

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Remove the bar."""
        if self._drawn is not None:
            self._drawn.stop()
