"""Find and redact secrets in texts from agents, hooks and imports, before they are written to a file.

The rules are those of `ormahd.text.secret_rules`. Nothing is verified over the network.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from msgspec import Struct

from ormahd.model.strength import Pace
from ormahd.text import secret_rules
from ormahd.text.secret_rules import Span

WINDOW: Final = 32_000
"""Number of characters of a long text that are searched at once, without margins."""
MARGIN: Final = 8_000
"""Number of characters before and after a window that are searched with it. A label and its value are shorter."""

_REST = re.compile(r"[A-Za-z0-9_.+/=-]*+")


class Secret(Struct, frozen=True):
    """A secret that was redacted: its kind, and its line (from 1) in the original text."""

    kind: str
    line: int


class Redacted(Struct, frozen=True):
    """A text without its secrets, and the kind and line of each secret that was found, never the secret itself."""

    text: str
    found: tuple[Secret, ...]


_PLAIN_NAME: Final = re.compile(r"[a-z][a-z0-9-]{0,19}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""Matches names that need no search: short ones, and UUIDs."""


def redact(text: str, *, pace: Pace = iter) -> Redacted:
    """Return `text` with `[redacted: <kind>]` in place of every secret, and the kinds and lines of the secrets.
    Thread-safe.

    Redacting the result changes nothing more. A pattern holds the GIL while it searches, so a long text is searched in
    overlapping sections (windows). `pace`: iterates over the patterns, and may let other threads run between two of
    them.
    """
    found: list[tuple[int, Secret]] = []
    cuts: list[tuple[int, int]] = []
    # Search again, because a token right after a private key now begins a word.
    while spans := list(_joined(sorted(_spans(text, pace), key=_sort_key))):
        text, cuts = _replace_spans(text, spans, cuts, found)
    return Redacted(text, tuple(finding for _, finding in sorted(found, key=lambda at: (at[1].line, at[0]))))


@lru_cache(maxsize=1024)
def redact_name(name: str) -> Redacted:
    """Return the result of `redact` for a name, such as that of a space, an agent or a session.

    Results are cached, because every request contains such names.
    """
    return Redacted(name, ()) if _PLAIN_NAME.fullmatch(name) else redact(name)


def _replace_spans(
    text: str, spans: list[Span], cuts: list[tuple[int, int]], found: list[tuple[int, Secret]]
) -> tuple[str, list[tuple[int, int]]]:
    """Return (`text` with a marker in place of each span, the updated `cuts`). Appends (position, secret) to `found`.

    `cuts`: (position in the text, number of line ends that the marker there replaced) for each earlier marker. With it
    the lines of secrets are counted as in the original text.
    """
    # `line`: the line of `end` in the original text; `size`: the length of the new text up to `end`
    parts: list[str] = []
    moved: list[tuple[int, int]] = []
    earlier = iter([*cuts, (len(text) + 1, 0)])
    cut = next(earlier)
    line, end, size = 1, 0, 0
    for span in spans:
        # earlier markers before the span: they move with the text
        while cut[0] <= span.start:
            moved.append((cut[0] + size - end, cut[1]))
            line += cut[1]
            cut = next(earlier)
        line += text.count("\n", end, span.start)
        found.append((span.start, Secret(span.kind, line)))
        parts += (text[end : span.start], f"[redacted: {span.kind}]")
        size += span.start - end + len(parts[-1])

        # the new marker replaces the line ends in the span, and those that earlier markers in it replaced
        swallowed = text.count("\n", span.start, span.end)
        while cut[0] < span.end:
            swallowed += cut[1]
            cut = next(earlier)
        moved.append((size, swallowed))
        line += swallowed
        end = span.end
    while cut[0] <= len(text):
        moved.append((cut[0] + size - end, cut[1]))
        cut = next(earlier)
    return "".join(parts) + text[end:], [place for place in moved if place[1]]


def _spans(text: str, pace: Pace) -> Iterator[Span]:
    """Yield the secrets that all rules find in a text. A long text is searched in windows."""
    if len(text) <= WINDOW + MARGIN:
        yield from _spans_of(text, pace)
        return
    yield from secret_rules.long_secrets(text)
    for start in range(0, len(text), WINDOW):
        first, last = max(0, start - MARGIN), min(len(text), start + WINDOW + MARGIN)
        for span in _spans_of(text[first:last], pace):
            begins, ends = first + span.start, first + span.end
            if start <= begins < start + WINDOW or (begins < start <= ends):
                if ends == last:  # the secret may continue after the window
                    rest = _REST.match(text, ends)
                    ends = rest.end() if rest else ends
                yield Span(begins, ends, span.kind)


def _spans_of(text: str, pace: Pace) -> Iterator[Span]:
    """Yield the secrets that all rules find in `text`, a short text or a window of a long one. Example keys and names
    of programs are left out."""
    for span in secret_rules.spans(text, pace):
        value = text[span.start : span.end]
        if "EXAMPLE" not in value and not secret_rules.is_product(text, span.end):
            yield span


def _sort_key(span: Span) -> tuple[int, int]:
    """Return the sort key of a span: by its start, the longer one first."""
    return span.start, -span.end


def _joined(spans: list[Span]) -> Iterator[Span]:
    """Yield the spans, overlapping ones joined to one with the kind of the first. `spans`: sorted by `_sort_key`."""
    current: Span | None = None
    for span in spans:
        if current is not None and span.start < current.end:
            current = Span(current.start, max(current.end, span.end), current.kind)
            continue
        if current is not None:
            yield current
        current = span
    if current is not None:
        yield current
