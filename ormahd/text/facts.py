"""Facts in a text that are exact: numbers, dates, addresses, paths, code, names, and tokens that a search matches letter by letter.

`exact_tokens` finds what a query names exactly (`OPS-2310`, `0.5.2`, `src/app.py`, `parseTide`); `lost` says what a summary dropped.
Both work by form alone. A fact in another form ("21 November" for "2026-11-21") counts as lost: that costs a summary, never a fact.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from msgspec import Struct

from ormahd.text.words import FUNCTION_WORDS, fold

MOST: Final = 6
"""Tokens per text; a pasted log names hundreds."""
READ: Final = 20_000
"""Characters of a text that are searched."""
LONGEST: Final = 200
"""Characters of a token."""

_QUOTED = re.compile(r"`([^`\n]{2,200})`|\"([^\"\n]{2,200})\"|“([^”\n]{2,200})”|«\s?([^»\n]{2,200}?)\s?»")
_GAPS = re.compile(
    r"[\s()\[\]{}<>\"`“”„«»|=]+|,(?!\d)|;|…|[\u3000-\u30ff\u3400-\u9fff\uac00-\ud7ff\uff01-\uff1f\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]+"
)
"""Separators of tokens: blanks, brackets, quotes, and scripts without spaces."""
_EDGES = ".,:;!?'’‘*~#%$&+/\\-–—"
_MARKED = re.compile(r"\w[@_./:\-]+\w")
_NO_NAME = re.compile(r"(?:[^\W\d_]\.)+[^\W\d_]?|\d{1,2}(?:st|nd|rd|th|am|pm)?|(?:19|20)\d\d", re.IGNORECASE)
"""Abbreviations, small numbers, hours and years, which occur in texts about anything."""
_CAMEL = re.compile(r"[a-z0-9][A-Z]")
_WHOLE_NUMBER = re.compile(r"\d+(?:[.,]\d{3})*")
_WORDS = re.compile(r"[^\W\d_]+(?:[-/][^\W\d_]+)*")


class ExactToken(Struct, frozen=True):
    """An exact token. `plain`: it may be written in another way, so a text without it can mean the same."""

    text: str
    plain: bool

    def stands_in(self, folded: str) -> bool:
        """Return whether a folded text has it, and not as a part of a longer name or number."""
        return self._pattern().search(folded) is not None

    def _pattern(self) -> re.Pattern[str]:
        name = fold(self.text)
        version = re.fullmatch(r"v(\d.*)", name)
        inner = r"\s+".join(map(re.escape, (version[1] if version else name).split()))
        before = r"(?<!\w)(?<!\w[@.\-])"
        if inner[:1].isdigit():
            before = rf"(?:{before}v?|(?<=[^\W\d_][-_]))"
        return re.compile(rf"{before}{inner}(?!\w)(?![@.\-]\w)")


def exact_tokens(text: str) -> list[ExactToken]:
    """Return the exact tokens of a text, each once, as written; at most `MOST`."""
    found: dict[str, ExactToken] = {}
    text = text[:READ]
    for quoted in _QUOTED.finditer(text):
        phrase = " ".join(next(filter(None, quoted.groups())).split())
        if " " in phrase:
            found.setdefault(fold(phrase), ExactToken(phrase, plain=True))
    for piece in _GAPS.split(text):
        token = _token(piece.strip(_EDGES).removesuffix("'s").removesuffix("’s"))
        if token is not None:
            found.setdefault(fold(token.text), token)
        if len(found) >= MOST:
            break
    return list(found.values())[:MOST]


def _token(name: str) -> ExactToken | None:
    if len(name) < 2 or len(name) > LONGEST or _NO_NAME.fullmatch(name):
        return None
    digits = any(char.isdigit() for char in name)
    if not (digits or _MARKED.search(name) or _CAMEL.search(name)):
        return None
    plain = (
        _WHOLE_NUMBER.fullmatch(name) is not None
        or (_WORDS.fullmatch(name) is not None and not (_CAMEL.search(name) and name[0].islower()))
    )  # fmt: skip
    return ExactToken(name, plain=plain)


_URL = re.compile(r"\b[a-z][a-z0-9+.-]{0,30}://[^\s<>\"'`|\\^{}\[\]]+", re.IGNORECASE)
_ADDRESS = re.compile(r"(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_CODE = re.compile(r"(?<!`)`([^`\n]{1,200})`(?!`)")
_PATH = re.compile(
    r"(?<![\w/.~:@%+-])(?:(?:~|\.{1,2})?(?:/[\w@%+=.-]+)+/?|[A-Za-z]:\\[\w\\.@ -]+|[\w@%+.-]+(?:/[\w@%+.-]+){2,}"
    r"|[\w@%+.-]+/[\w@%+-]+\.[A-Za-z]\w{0,7})(?![\w/])"
)
_FILE = re.compile(
    r"(?<![\w./@-])(?!(?:\w\.)+\w(?!\w))(?:[\w-]+\.)+(?=[A-Za-z])\w{1,8}(?![\w/@-])|(?<![\w./@-])\.[A-Za-z][\w-]+(?![\w/@])"
)
_NUMBER = re.compile(r"\d+(?:[.,:/\u2019'-]?\d+)*")
_WORD = re.compile(r"[^\W\d_][\w'\u2019+#&-]*")
_SENTENCE_END = re.compile(r"(?:[.!?…:]['\")\]»”]*|^|\n)\s*(?:[-*#>]+\s*|\d+[.)]\s+)*['\"(\[«“]*$")
_TRAILING = ".,;:!?…)]}»”'\""
_VERB_ENDINGS = ("s", "ed", "ing", "es")
_STEM = 4
"""Letters that the first word of a sentence must share with a word of the summary (prefers, preferred)."""
_LATER = 3
"""Letters at its end that may differ."""


def lost(sources: Iterable[tuple[str | None, str]], summary: str) -> list[str]:
    """Return what is in `sources` (title, content) and not in `summary`, as written, in order, each once."""
    texts = [text for title, content in sources for text in (title or "", content)]
    whole = "\n".join(texts)
    there = _There(summary)
    found: dict[str, None] = {}
    for text in texts:
        rest = text
        for pattern in (_URL, _ADDRESS, _CODE, _PATH, _FILE):
            for match in pattern.finditer(rest):
                said = match[match.lastindex or 0].strip().rstrip(_TRAILING)
                if said and not there.literally(said):
                    found[said] = None
            rest = pattern.sub(lambda match: " " * len(match[0]), rest)
        found |= dict.fromkeys(number for number in _numbers(rest) if _plain(number) not in there.numbers)
    lower = frozenset(word for word in _WORD.findall(whole) if word[0].islower())
    for text in texts[1::2]:
        found |= dict.fromkeys(name for name, sure in _names(text, lower) if not there.named(name, sure=sure))
    return list(found)


class _There:
    """Looks facts up in a summary."""

    def __init__(self, summary: str) -> None:
        self._folded = fold(summary)
        self.numbers = {_plain(number) for number in _numbers(summary)}
        self._words = {fold(word.rstrip("-&")) for word in _WORD.findall(summary)}
        self._words |= {part for word in self._words for part in re.split(r"['\u2019&-]", word) if part}

    def literally(self, said: str) -> bool:
        return fold(said) in self._folded

    def named(self, name: str, *, sure: bool) -> bool:
        folded = fold(name)
        if folded in self._words:
            return True
        if sure:  # a plural or a genitive of it names it too
            return any(f"{folded}{ending}" in self._words for ending in ("s", "es")) or (
                folded.endswith("s") and folded[:-1] in self._words
            )
        stem = folded[: max(_STEM, len(folded) - _LATER)]
        return any(word.startswith(stem) for word in self._words)


def _numbers(text: str) -> Iterator[str]:
    return (match[0] for match in _NUMBER.finditer(text))


def _plain(number: str) -> str:
    """Return a number without separators of thousands; dates, versions and fractions as they are."""
    thousands = re.fullmatch(r"\d{1,3}(?:[,\u2019']\d{3})+", number)
    return re.sub(r"[,\u2019']", "", number) if thousands else number


def _names(text: str, lower: frozenset[str]) -> Iterator[tuple[str, bool]]:
    """Yield (name, sure) for words that look like names, without genitives.

    `sure`: more than the beginning of a sentence makes it a name. `lower`: words that the texts also write in small letters.
    """
    for match in _WORD.finditer(text):
        word = re.sub(r"['\u2019](?:s|re|ve|ll|d|m|t)?$", "", match[0]).rstrip("-&")
        if not word or fold(word) in FUNCTION_WORDS:
            continue
        inner = any(letter.isupper() for letter in word[1:])
        if inner:
            yield word, True
        elif word[0].isupper() and len(word) > 1 and word.lower() not in lower:
            first = _SENTENCE_END.search(text[max(0, match.start() - 40) : match.start()]) is not None
            if not first:
                yield word, True
            elif match[0] != word or not _verb_like(word, text[match.end() : match.end() + 2]):
                yield word, False


def _verb_like(word: str, after: str) -> bool:
    """Return whether a first word looks like a verb: `Uses uv`, `Decided to`."""
    return word.endswith(_VERB_ENDINGS) and len(after) == 2 and after[0] == " " and not after[1].isupper()


def sentences(text: str, most: int, characters: int = 200) -> Sequence[str]:
    """Return the first sentences of a text, at most `most`, each cut to `characters`, without marks of headings and lists."""
    found: list[str] = []
    for line in text.splitlines():
        clean = line.strip().lstrip("#>*-+ \t").strip()
        for sentence in re.split(r"(?<=[.!?…])\s+|(?<=[。！？])", clean):
            if any(letter.isalnum() for letter in sentence):
                found.append(sentence[:characters].strip())
            if len(found) == most:
                return found
    return found
