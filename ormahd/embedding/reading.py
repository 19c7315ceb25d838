"""How well a model reads a text, computed from the number of letters in each token, and from unknown tokens.

A model's tokenizer cuts a language that the model learned into words and parts of words, and another one into single
letters or unknown tokens. Texts in a language that the model does not read have similar vectors, whatever they say.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ormahd.text.words import is_letter, is_unspaced

READABLE: Final = 0.5
"""Minimum of `read_share` for a text that the model reads. Below it, vectors are not used, only words."""
UNKNOWN: Final = frozenset({"[UNK]", "<unk>", "<UNK>"})
"""Tokens that stand for a text that is not in a model's vocabulary."""
SPACED: Final = (1.4, 2.2)
UNSPACED: Final = (1.0, 1.3)
"""(letters per token at which a text is not read, letters per token at which it is), for scripts with (`SPACED`) and
without spaces (`UNSPACED`). The default model has 4 letters per token in English, 3 in German, 1.2 in Russian; a
multilingual one has 3.5 in Russian and 1.7 in Chinese."""


def read_share(text: str, start: int, offsets: Sequence[tuple[int, int]], tokens: Sequence[str]) -> float:
    """Return how well a model reads the language of `text`, from 0 to 1, judged by the number of letters per token. 1
    for a text without letters.

    `start`: position in `text` from which letters count. `tokens`: the tokens of the text. `offsets`: (start, end) of
    each token in the text.
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
