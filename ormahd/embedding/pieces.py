"""Split a text that is longer than the model's window into overlapping pieces, cut at the best place near the end of
each.

Works on token positions in the text, so it fits any tokenizer.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

SEARCH_BACK = 0.35
"""Share of a piece, counted from its end, in which the best place for the cut is searched."""
OVERLAP = 0.125
"""Share of a piece that the next piece repeats, so that a sentence at the cut is complete in one of them."""

_SENTENCE = re.compile(r"[.!?;:…]['\")\]»”’]*\s$|[。！？；…]['\")\]»”’]*$")


def split(text: str, spans: Sequence[tuple[int, int]], window: int, most: int) -> list[tuple[int, int]]:
    """Return (first token, end token) of at most `most` pieces of at most `window` tokens each; the end is exclusive.

    `spans`: start and end of each token in `text`, ascending. Every token up to the end of the last piece is in some
    piece.
    """
    if len(spans) <= window:
        return [(0, len(spans))] if spans else []
    found: list[tuple[int, int]] = []
    first = 0
    while len(found) < most:
        if len(spans) - first <= window:
            found.append((first, len(spans)))
            break
        last = _best(text, spans, first + window - int(window * SEARCH_BACK), first + window)
        found.append((first, last))
        # The next piece begins at the start of a sentence within the overlap, or else just after this piece.
        back = last - max(1, int(window * OVERLAP))
        first = max(_best(text, spans, back, last, first=True), first + 1)
    return found


def _best(text: str, spans: Sequence[tuple[int, int]], low: int, high: int, *, first: bool = False) -> int:
    """Return the token in (low, high] before which to cut: the start of a paragraph, else of a sentence, a line or a
    word.

    Among equally good places the last is taken, or with `first` the first.
    """
    best, rank = (high, -1)
    places = range(low + 1, high + 1) if first else range(high, low, -1)
    for at in places:
        if at >= len(spans):
            continue
        here = _rank(text, spans[at - 1][1], spans[at][0])
        if here > rank:
            best, rank = at, here
    return best


def _rank(text: str, end: int, start: int) -> int:
    """Return how good a cut is between a token that ends at `end` and one that starts at `start`; higher is better."""
    gap = text[end:start]
    if gap.count("\n") > 1:
        return 4
    if _SENTENCE.search(text[max(0, end - 4) : start]):
        return 3
    if "\n" in gap:
        return 2
    return 1 if gap else 0
