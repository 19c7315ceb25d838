"""Wrap coloured text at words, and leave whole what a person copies: links, paths and commands.

A terminal wraps a line that is too long by itself, and copies it as one line. A line break of ours would be copied too.
So a link, a path or a command that is longer than the terminal stays one piece.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

PAINT = re.compile("\x1b\\[[0-9;]*m")
"""Matches what `render.paint` puts around a text."""
_OFF = "\x1b[0m"
TAB = 4
_USES = (
    "adopt", "all", "apply", "approve", "check", "codex", "cursor", "default", "gemini", "list", "opencode", "pause", "reject",
    "release", "resume", "run", "service", "set", "setup", "show", "test", "use", "vscode",
)  # fmt: skip
"""Plain words that may follow a command's name. Others belong to the sentence around it, as in `ormahctl status shows it`."""
_WORD = r"[^\s;,()`]+"
_PLAIN = r"[a-z]+(?:[\s;,()`:]|\.?(?:\s|$))"
_ARGUMENT = rf"(?:\"[^\"]*\"|'[^']*'|(?:{'|'.join(_USES)})\b(?!-)|(?!{_PLAIN}){_WORD})"
_OURS = rf"ormahctl(?: -{_WORD}(?: [^\s;,()`]*/{_WORD})?)*(?: [a-z]+\b)?(?:(?<![.:]) {_ARGUMENT})*"
_UNIT = re.compile(rf"\S*?\b(?:{_OURS}|git -C(?: {_WORD})+)\S*|\S+")
"""A word, or a command with its arguments."""
_WIDE = 2
"""Columns of the widest character: where a long word, or a text without spaces (Japanese), may be broken."""
_PATH = re.compile(r"[^/\s]*/[^/\s]")


def wrapped(text: str, room: int, hang: int = 2) -> list[str]:
    """Return a line as several lines of at most `room` columns, broken between words. Longer words are broken too,
    except links, paths and commands.

    `hang`: columns by which the second and further lines are indented more than the first.
    """
    plain = PAINT.sub("", text).expandtabs(TAB)
    if _width(plain) <= room:
        return [text]
    indent = min(len(plain) - len(plain.lstrip(" ")), room // 2)
    further = min(indent + hang, room // 2)
    start = len(plain) - len(plain.lstrip(" "))
    spans = list(_lines(plain, start, room, indent, further))
    painted = _Paint(text)
    return [" " * (further if number else indent) + painted.slice(*span) for number, span in enumerate(spans)]


def _lines(plain: str, start: int, room: int, indent: int, further: int) -> Iterator[tuple[int, int]]:
    """Yield the begin and end of each line in `plain`."""
    begin = end = start
    margin = indent
    for first, last in _units(plain, start, room - further):
        used = margin + _width(plain[begin:last])
        alone = margin + _width(plain[begin:first]) <= further  # nothing stands before it but the head of the line
        if begin == end or used <= room or (alone and _width(plain[first:last]) > room - further):
            end = last
            continue
        yield begin, end
        begin, end, margin = first, last, further
    if end > begin:
        yield begin, end


def _units(plain: str, start: int, room: int) -> Iterator[tuple[int, int]]:
    """Yield the begin and end of each piece of `plain` that stays on one line."""
    from rich.cells import chop_cells

    for found in _UNIT.finditer(plain, start):
        whole = found[0]
        if _width(whole) <= room or " " in whole or _PATH.search(whole):
            yield found.span()
        else:
            at = found.start()
            for piece in chop_cells(whole, _WIDE):
                yield at, at + len(piece)
                at += len(piece)


def _width(plain: str) -> int:
    from rich.cells import cell_len

    return cell_len(plain)


class _Paint:
    """The colours of a text, for each part of it."""

    def __init__(self, text: str) -> None:
        self._plain = ""
        self._codes: list[tuple[int, str]] = []
        at = 0
        for code in PAINT.finditer(text):
            self._plain += text[at : code.start()]
            self._codes.append((len(self._plain.expandtabs(TAB)), code[0]))
            at = code.end()
        self._plain = (self._plain + text[at:]).expandtabs(TAB)

    def slice(self, begin: int, end: int) -> str:
        """Return the text from `begin` to `end`, in its colour from its first column to its last."""
        active = ""
        for place, code in self._codes:
            if place <= begin:
                active = "" if code == _OFF else code
        drawn = active
        at = begin
        for place, code in self._codes:
            if begin < place < end:
                drawn += self._plain[at:place] + code
                at, active = place, "" if code == _OFF else code
        return drawn + self._plain[at:end] + (_OFF if active else "")
