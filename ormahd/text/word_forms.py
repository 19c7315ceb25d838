"""Which words are forms of one word, by their letters alone: any language, no list. Pure."""

from __future__ import annotations


def stem(word: str) -> str:
    """What a word is compared as. `text.stems` costs a database; a few endings are enough to hold words together."""
    if len(word) <= 3 or not word.isalpha():
        return word
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            word = word[: -len(ending)]
            break
    return word[:-1] if len(word) > 4 and word[-1] == word[-2] and word[-1] not in "aeious" else word


def alike(one: str, other: str) -> bool:
    """Whether two keys are forms of one word: deploy and deployment, Rechnung and Rechnungen."""
    if one == other:
        return True
    if not (one.isalpha() and other.isalpha()) or min(len(one), len(other)) < 3:
        return False
    short, long = sorted((one, other), key=len)
    if len(short) == 3:
        return len(long) == 4 and long.startswith(short)
    shared = next((at for at, (a, b) in enumerate(zip(short, long, strict=False)) if a != b), len(short))
    return shared >= 4 and shared >= len(short) - 1 and len(long) - shared <= 5


_ENDINGS = (
    "ations", "ation", "ments", "ment", "ings", "ing", "ies", "ers", "ed", "es", "en", "er", "em", "s", "e", "y", "a", "o",
)  # fmt: skip
