"""What keeps two texts that are much alike from being two tellings of one thing: seen by their words alone.

Memories come in series (a port for each server, a rule for each branch), and a series looks like duplicates to every
measure of likeness. So nobody is asked about a pair of which each side names what the other does not, or of which one
side denies; whether these contradict is another question, for another job.
"""

from __future__ import annotations

import re
from enum import StrEnum

from ormahd.text.sameness import retold, tokens
from ormahd.text.words import fold

LONGEST = 2
"""Words in a row that may be others where two texts differ in one place only."""
_NEGATED = re.compile(
    r"\b(?:not|no|never|none|neither|nor|without|cannot|nothing|\w+n't|nicht|kein\w*|jamais|не|нет)\b"
)
_NAME = re.compile(r"[^\W\d_]")
_SENTENCE = (".", "!", "?", ":", "\u2026")
_STRIPPED = "()[]{}\"'`*_.,;:!?\u2026\u201c\u201d\u2018\u2019\u00ab\u00bb"


class Contrast(StrEnum):
    MARKS = "each names a number, a name or a word of code that the other does not"
    NEGATION = "one of them says no"
    ONE_PLACE = "one says a word where the other says another"


def contrast(one: str, other: str) -> Contrast | None:
    """What parts two texts; None: nothing that their words show."""
    ours, theirs = marks(one), marks(other)
    folded = fold(one), fold(other)
    # a name that the other side writes in small letters or within a word is no other name
    mine = any(mark not in folded[1] for mark in ours - theirs)
    yours = any(mark not in folded[0] for mark in theirs - ours)
    if mine and yours:
        return Contrast.MARKS
    if bool(_NEGATED.search(folded[0])) != bool(_NEGATED.search(folded[1])):
        return Contrast.NEGATION
    return Contrast.ONE_PLACE if _one_place(one, other) else None


def marks(text: str) -> set[str]:
    """Numbers, names and words of code in a text, folded. A capital at the beginning of a sentence marks no name."""
    found: set[str] = set()
    for line in text.split("\n"):
        begins = True
        for word in line.split():
            bare = word.strip(_STRIPPED)
            inner = bare[1:] if begins else bare
            marked = not bare.replace("-", "").replace("'", "").isalpha() or any(map(str.isupper, inner))
            if marked and bare.partition("'")[0] != "I" and (_NAME.search(bare) or bare[-1:].isdigit()):
                found.add(fold(bare))
            begins = word.rstrip("\"')*`").endswith(_SENTENCE)
    return found


def _one_place(one: str, other: str) -> bool:
    left, right = (retold(list(tokens(text)), english=True) for text in (one, other))
    if len(left) == len(right):  # one word for another throughout, in the title too
        return 0 < len({two for two in zip(left, right, strict=True) if two[0] != two[1]}) <= LONGEST
    shorter = min(len(left), len(right))
    head = next((at for at in range(shorter) if left[at] != right[at]), shorter)
    tail = next((at for at in range(shorter - head) if left[-1 - at] != right[-1 - at]), shorter - head)
    return 0 < len(left) - head - tail <= LONGEST and 0 < len(right) - head - tail <= LONGEST
