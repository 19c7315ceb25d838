"""How well a model reads a text: from the letters that its tokens cover, and the tokens that it does not know.

A model cuts a language that it learned into pieces of words, and one that it did not learn into single letters or unknown
tokens. Two texts of one script that is not read look alike to it, whatever they say.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ormahd.text.words import is_letter, is_unspaced

READABLE: Final = 0.5
"""Share below which the vectors of a text say nothing, and its words decide alone."""
UNKNOWN: Final = frozenset({"[UNK]", "<unk>", "<UNK>"})
"""Tokens that stand for text outside of a model's vocabulary."""
SPACED: Final = (1.4, 2.2)
UNSPACED: Final = (1.0, 1.3)
"""Letters a token at which a script with and without spaces is not read, and at which it is. A token of the default
model has 4 letters of English, 3 of German, 1.2 of Russian; one of a multilingual model has 3.5 of Russian, 1.7 of Chinese."""


def read_share(text: str, start: int, offsets: Sequence[tuple[int, int]], tokens: Sequence[str]) -> float:
    """Return how much of `text`, from `start` on, a model reads: 0 to 1; 1 for a text without letters.

    `offsets`, `tokens`: where each token stands in the text, and the token itself.
    """
    covered: list[set[int]] = [set(), set()]
    counts = [0, 0]
    lost = 0
    for (first, last), token in zip(offsets, tokens, strict=True):
        letters = [at for at in range(max(first, start), last) if is_letter(text[at])]
        if not letters:
            continue
        if token in UNKNOWN:
            lost += len(letters)
            continue
        script = is_unspaced(text[letters[0]])
        covered[script].update(letters)
        counts[script] += 1
    total = lost + sum(map(len, covered))
    if not total:
        return 1.0
    read = 0.0
    for found, count, (none, whole) in zip(covered, counts, (SPACED, UNSPACED), strict=True):
        if count:
            read += len(found) * min(1.0, max(0.0, (len(found) / count - none) / (whole - none)))
    return read / total
