"""The natural language of a text: without inline images, encoded data, minified code, hashes and logs. Pure, linear.

The rest stays in the note and is shown; it is not embedded, quoted or used as a title, because one run of it outweighs a whole note.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

LONG: Final = 160
"""Characters without a space from which an ASCII run is data, no word, path or address."""
PART: Final = 64_000
LONGEST: Final = 128_000
"""Long texts are read in parts of `PART` to `LONGEST` characters."""
MOST: Final = 1_000_000
"""Characters of a text in which language is searched."""
SMALL: Final = 24
"""Characters; shorter tokens are never hashes."""
WIDE: Final = 240
"""Characters of a line from which it may be minified code."""
SPACED: Final = 0.09
"""Share of spaces below which a wide ASCII line is no prose."""
WRAPPED: Final = 3
"""Lines of encoded data or of a log from which they are data, not an example."""

_DATA_URL = re.compile(r"data:[\w.+/-]{0,100}(?:;[\w.=+-]{1,100}){0,8},[^\s)\"'>\]]*", re.IGNORECASE)
_LONG_RUN = re.compile(rf"[!-~]{{{LONG},}}")
_CHARS = "[A-Za-z0-9+/_=-]"
_HASH = re.compile(
    rf"(?<![\w/+=.:-])(?=(?:{_CHARS}*?[0-9]){{4}})(?={_CHARS}*[A-Za-z])(?:[0-9a-f]{{{SMALL},}}|[0-9A-F]{{{SMALL},}}|"
    rf"(?={_CHARS}*[a-z])(?={_CHARS}*[A-Z])[A-Za-z0-9+/_]{{32,}}={{0,2}})(?![\w/+=-])"
)
_ENCODED_LINE = re.compile(r"[ \t>]*[A-Za-z0-9+/_-]{48,}={0,2}[ \t\r]*")
_LAST_LINE = re.compile(r"[ \t>]*[A-Za-z0-9+/_-]{1,80}={0,2}[ \t\r]*")
_STAMPED_LINE = re.compile(
    r"[ \t>]*\[?(?:\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d|\d\d:\d\d:\d\d[.,]\d{3}|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d |"
    r"\d{10}(?:\.\d{3,9})|(?:\d{1,3}\.){3}\d{1,3} \S+ \S+ \[)"
)
_EMPTY_IMAGE = re.compile(r"!\[([^\]\n]{0,300})\]\(\s*\)")
_SUSPECT = re.compile(rf"data:|DATA:|[!-~]{{{SMALL},}}|\d\d:\d\d:\d\d|^.{{{WIDE},}}$", re.MULTILINE)
_LETTER = re.compile(r"[^\W\d_]")
_BLANKS = re.compile(r"[ \t]{2,}")


def language(text: str) -> str:
    """Return `text` without data; the text itself where there is none."""
    if len(text) > 2 * PART:
        parts = [language(part) for part in _parts(text)]
        return text if "".join(parts) == text else "\n".join(filter(None, (part.strip() for part in parts)))
    if not _may_hold_other(text):
        return text
    found = _DATA_URL.sub("", text) if "data:" in text or "DATA:" in text else text
    if found is not text:
        found = _EMPTY_IMAGE.sub(r"\1", found)
    found = "\n".join(map(_without_hashes, _lines(_LONG_RUN.sub("…", found).split("\n"))))
    if found == text:
        return text
    return _BLANKS.sub(" ", found).strip() if _LETTER.search(found) else ""


def beginning(text: str, characters: int) -> str:
    """Return about the first `characters` of a text's language. No more of a huge text is read than needed."""
    for read in (4 * characters + 1_000, PART, MOST):
        found = language(text[:read])
        if len(found) >= characters or read >= len(text):
            break
    return found[:characters]


def findable(text: str) -> str:
    """Return `text` without inline images and runs of data. Hashes, code and logs stay searchable."""
    if len(text) > 2 * PART:
        return "".join(map(findable, _parts(text)))
    if not _DATA_URL.search(text) and not _LONG_RUN.search(text):
        return text
    return _LONG_RUN.sub(" ", _DATA_URL.sub(" ", text))


def _parts(text: str) -> Iterator[str]:
    """Yield a long text in parts that end with a line, so that no pattern holds the interpreter for long."""
    start = 0
    while start < len(text):
        end = text.find("\n", start + PART, start + LONGEST) + 1 or start + LONGEST
        yield text[start:end]
        start = end


def _may_hold_other(text: str) -> bool:
    """Return whether the text may hold data; most notes do not."""
    return _SUSPECT.search(text) is not None


def _lines(lines: list[str]) -> Iterator[str]:
    """Yield the lines that are language. Data and logs of several lines go; a single line may be an example."""
    block: list[str] = []
    kind = ""
    for line in lines:
        here = "encoded" if _ENCODED_LINE.fullmatch(line) else "stamped" if _STAMPED_LINE.match(line) else ""
        if not here and kind == "encoded" and len(block) + 1 >= WRAPPED and _LAST_LINE.fullmatch(line):
            here = kind
        if here != kind:
            yield from block if len(block) < WRAPPED else ()
            block, kind = [], here
        if here:
            block.append(line)
        elif not _is_minified(line):
            yield line
    yield from block if len(block) < WRAPPED else ()


def _without_hashes(line: str) -> str:
    """Return "" for a line of digests; hashes within a sentence stay."""
    if len(line) < SMALL:
        return "" if line.strip(" \t\r>") == "…" else line
    rest = _HASH.sub("", line)
    return rest if len(rest) < len(line) / 2 else line


def _is_minified(line: str) -> bool:
    return len(line) >= WIDE and line.isascii() and line.count(" ") < SPACED * len(line)
