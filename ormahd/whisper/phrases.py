"""Acknowledgements: prompts made of nothing but phrases that answer, thank, greet or wave on (`phrases.txt`).

Anchored: the whole prompt must be such phrases, so that "ok, and what did we decide about auth?" is none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from itertools import islice
from pathlib import Path

from msgspec import Struct

from ormahd.text.words import fold

MOST_WORDS = 24
"""Words (characters of Chinese, Japanese, Korean) of an acknowledgement: whoever writes more means something by it."""

_SIGNS = "\u3005\u3041-\u30ff\u3131-\u318e\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3"
"""Scripts whose phrases are compared character by character, whatever stands between: spaces are left out at will."""
_TOKENS = re.compile(rf"[{_SIGNS}]|[^\W_{_SIGNS}]+")

Words = tuple[str, ...]
Sequence = tuple["str | Choice", ...]
"""What follows one another: a word, or a choice of sequences."""


class Choice(Struct, frozen=True):
    options: tuple[Sequence, ...]


def acknowledges(text: str) -> bool:
    """True for a text that consists of phrases only; what is no letter or digit does not count."""
    words = tokens(text, MOST_WORDS + 1)
    if not words or len(words) > MOST_WORDS:
        return False
    known = _phrases()
    reached = {0}
    for start in range(len(words)):
        if start in reached:
            for phrase in known.get(words[start], ()):
                reached |= _ends(phrase, words, start)
    return len(words) in reached


def tokens(text: str, most: int) -> Words:
    """The first words of a text as phrases are compared: folded, apostrophes left out (`that's` is `thats`)."""
    folded = fold(text[: most * 40]).replace("'", "")
    return tuple(found[0] for found in islice(_TOKENS.finditer(folded), most))


def _ends(phrase: Sequence, words: Words, start: int) -> set[int]:
    """Where the phrase can end that begins at `start`; empty where it does not stand there."""
    places = {start}
    for part in phrase:
        if isinstance(part, str):
            places = {at + 1 for at in places if at < len(words) and words[at] == part}
        else:
            places = {end for at in places for option in part.options for end in _ends(option, words, at)}
        if not places:
            break
    return places


@cache
def _phrases() -> dict[str, list[Sequence]]:
    """Every phrase, under each word that it may begin with."""
    found: dict[str, list[Sequence]] = {}
    for line in Path(__file__).with_name("phrases.txt").read_text("utf-8").splitlines():
        if line.strip() and not line.startswith("#"):
            for template in line.split(","):
                phrase = _sequence(template)
                for word in _beginnings(phrase):
                    found.setdefault(word, []).append(phrase)
    return found


def _beginnings(phrase: Sequence) -> set[str]:
    """The words that a phrase may begin with; the empty one where it may be empty."""
    found = {""}
    for part in phrase:
        first = {part} if isinstance(part, str) else {word for option in part.options for word in _beginnings(option)}
        found = (found - {""}) | first
        if "" not in first:
            break
    return found


def _sequence(template: str) -> Sequence:
    parts: list[str | Choice] = []
    for part in _parts(template):
        if part[0] in "[(":
            options = tuple(_sequence(one) for one in _alternatives(part[1:-1]))
            parts.append(Choice(((), *options) if part[0] == "[" else options))
        else:
            parts.extend(tokens(part, MOST_WORDS))
    return tuple(parts)


def _parts(template: str) -> Iterator[str]:
    """A template's parts: plain words, and brackets with what is in them."""
    start = depth = 0
    for at, sign in enumerate(template):
        if sign in "[(":
            if depth == 0 and template[start:at].strip():
                yield template[start:at].strip()
            start = at if depth == 0 else start
            depth += 1
        elif sign in "])":
            depth -= 1
            if depth == 0:
                yield template[start : at + 1]
                start = at + 1
    if template[start:].strip():
        yield template[start:].strip()


def _alternatives(inner: str) -> Iterator[str]:
    """What stands between the bars of the outermost level."""
    start = depth = 0
    for at, sign in enumerate(inner):
        depth += (sign in "[(") - (sign in "])")
        if sign == "|" and depth == 0:
            yield inner[start:at]
            start = at + 1
    yield inner[start:]
