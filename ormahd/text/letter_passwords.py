"""Rules for passwords of letters alone: `password = swordfish`, "my password is swordfish", `--password swordfish`.

Such a password looks like any other word, so three conditions must hold. It follows a label of a password with a sign
or verb. It ends a line or clause. It is not in `plain_words.txt`, and is no participle and no name in code. Labels
are those of English, German, French and Spanish.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Final

from ormahd.text.tables import patterns, sections
from ormahd.text.tokens import Span

SENTENCES: Final = "words of sentences"
"""Name of the section of `plain_words.txt` with words of sentences. A phrase with one of them is no password."""
KIND: Final = "Password"
_PATTERN: Final = patterns("secrets.toml", "letters")


def spans(text: str) -> Iterator[Span]:
    """Yield every password that consists of letters alone, in no order. Takes time linear in the text's length."""
    for found in _PATTERN["before"].finditer(text):
        word = _after(text, found.end(), verb=found["verb"] is not None, sign=found["how"])
        if word is not None:
            yield Span(*word.span("word"), KIND)
    for found in _PATTERN["beside"].finditer(text):
        word = _after(text, found.end(), verb=True)
        if word is None or describes(word["word"]):
            continue
        # it ends its clause: in `password "reset" link` the word `reset` does not, so it is no password
        closed = _PATTERN["closer"].match(text, word.end())
        end = closed.end() if closed else word.end()
        if _PATTERN["ends"].match(text, end) or _PATTERN["goes_on"].match(text, end):
            yield Span(*word.span("word"), KIND)
    for pattern in (_PATTERN["flag"], _PATTERN["called"]):
        for found in pattern.finditer(text):
            if not is_plain(found["word"]) and not found["word"].isupper():
                yield Span(*found.span("word"), KIND)


def _after(text: str, start: int, *, verb: bool, sign: str = "") -> re.Match[str] | None:
    """Return a match whose group `word` is the password that begins at `start`; None if there is none.

    `verb`: whether a verb stands between the label ("password") and the password; `sign`: the sign between them, else
    empty.
    """
    if quoted := _PATTERN["quoted"].match(text, start):
        return None if is_plain(quoted["word"]) else quoted
    if phrase := _PATTERN["phrase"].match(text, start):
        return phrase if _words()[SENTENCES].isdisjoint(phrase["word"].split()) else None
    if slug := _PATTERN["slug"].match(text, start):
        prose = verb or not _words()[SENTENCES].isdisjoint(slug["word"].split("-"))
        return slug if not prose and _PATTERN["ends"].match(text, slug.end()) else None
    bare = _PATTERN["bare"].match(text, start)
    if bare is None:
        return None
    end = bare.end()
    goes_on = ("=" in sign and _PATTERN["goes_on"].match(text, end)) or (sign == "=" and text[end : end + 1] == " ")
    if not goes_on and not _PATTERN["ends"].match(text, end):
        return None
    word = bare["word"]
    is_code = word.isupper() or _PATTERN["capital_inside"].search(word) is not None
    return None if is_code or describes(word) else bare


def describes(word: str) -> bool:
    """Return whether a word after "password" describes one instead of being it: `wrong`, `required`, `abgelaufen`."""
    return is_plain(word) or _PATTERN["participle"].fullmatch(word.casefold()) is not None


def is_plain(word: str) -> bool:
    """Return whether a word is probably no password: a type, a state, a label or the name of a program."""
    known = any(word.casefold() in listed for listed in _words().values())
    return known or len(set(word)) < 4 or _PATTERN["of_a_label"].search(word) is not None


@cache
def _words() -> dict[str, frozenset[str]]:
    """Return `{section: folded words}` of `plain_words.txt`."""
    return {name: frozenset(" ".join(lines).split()) for name, lines in sections("plain_words.txt").items()}
