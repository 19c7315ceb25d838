"""Exact tokens: what a text names letter by letter, such as `OPS-2310`, `0.5.2`, `ada@example.org`, `src/app.py`, `parseTide`.

Meaning and word pieces cannot tell one code from its neighbour; only its letters can. A token is told by its form: digits, `@ _ . / -`
inside, a capital behind a small letter. So are phrases in quotes or backticks.
"""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct

from ormahd.text.words import fold

MOST: Final = 6
"""Tokens of one text that are looked at: a pasted log names hundreds."""
READ: Final = 20_000
"""Characters of a text in which they are looked for."""
LONGEST: Final = 200
"""Characters of a token; what is longer is no name."""

_QUOTED = re.compile(r"`([^`\n]{2,200})`|\"([^\"\n]{2,200})\"|“([^”\n]{2,200})”|«\s?([^»\n]{2,200}?)\s?»")
_GAPS = re.compile(
    r"[\s()\[\]{}<>\"`“”„«»|=]+|,(?!\d)|;|…|[\u3000-\u30ff\u3400-\u9fff\uac00-\ud7ff\uff01-\uff1f\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]+"
)
"""What parts tokens: blanks, brackets, quotes, and letters of scripts that are written without blanks."""
_EDGES = ".,:;!?'’‘*~#%$&+/\\-–—"
_MARKED = re.compile(r"\w[@_./:\-]+\w")
_NO_NAME = re.compile(r"(?:[^\W\d_]\.)+[^\W\d_]?|\d{1,2}(?:st|nd|rd|th|am|pm)?|(?:19|20)\d\d", re.IGNORECASE)
"""Abbreviations, small numbers, hours and years: they stand in texts about everything."""
_CAMEL = re.compile(r"[a-z0-9][A-Z]")
_NUMBER = re.compile(r"\d+(?:[.,]\d{3})*")
_WORDS = re.compile(r"[^\W\d_]+(?:[-/][^\W\d_]+)*")


class Token(Struct, frozen=True):
    """`plain`: it may well be written in another way (a number, a word with a hyphen, a product's capitals), so that a text without it
    can mean the same."""

    text: str
    plain: bool

    def stands_in(self, folded: str) -> bool:
        """Whether a folded text has it letter by letter, and not as a part of a longer name or number."""
        return self._pattern().search(folded) is not None

    def _pattern(self) -> re.Pattern[str]:
        name = fold(self.text)
        version = re.fullmatch(r"v(\d.*)", name)
        inner = r"\s+".join(map(re.escape, (version[1] if version else name).split()))
        before = r"(?<!\w)(?<!\w[@.\-])"
        if inner[:1].isdigit():
            before = rf"(?:{before}v?|(?<=[^\W\d_][-_]))"
        return re.compile(rf"{before}{inner}(?!\w)(?![@.\-]\w)")


def exact_tokens(text: str) -> list[Token]:
    """The exact tokens of a text, each once, as it has them; at most `MOST`."""
    found: dict[str, Token] = {}
    text = text[:READ]
    for quoted in _QUOTED.finditer(text):
        phrase = " ".join(next(filter(None, quoted.groups())).split())
        if " " in phrase:
            found.setdefault(fold(phrase), Token(phrase, plain=True))
    for piece in _GAPS.split(text):
        token = _token(piece.strip(_EDGES).removesuffix("'s").removesuffix("’s"))
        if token is not None:
            found.setdefault(fold(token.text), token)
        if len(found) >= MOST:
            break
    return list(found.values())[:MOST]


def _token(name: str) -> Token | None:
    if len(name) < 2 or len(name) > LONGEST or _NO_NAME.fullmatch(name):
        return None
    digits = any(char.isdigit() for char in name)
    if not (digits or _MARKED.search(name) or _CAMEL.search(name)):
        return None
    plain = (
        _NUMBER.fullmatch(name) is not None
        or (_WORDS.fullmatch(name) is not None and not (_CAMEL.search(name) and name[0].islower()))
    )  # fmt: skip
    return Token(name, plain=plain)
