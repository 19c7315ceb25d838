"""Finds the sentences that a person wrote in a turn, without code, quotations, logs, stack traces and tables.

Pure functions, in time linear in the length of the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

READ: Final = 3_000
"""Number of characters that are read at the beginning and at the end of a long turn. The middle was pasted."""
LONGEST: Final = 400
"""Maximum number of characters of a sentence. Longer ones are left out."""
LETTERS: Final = 0.55
"""Minimum share of letters and spaces in a line of prose."""
DOCUMENT: Final = 800
"""Minimum number of characters of a turn that may contain a pasted document."""
MARKS: Final = 2
"""Number of headings and links from which such a turn counts as one with a pasted document."""
WRAPPED: Final = 50
"""Minimum number of characters of a line that may have been wrapped in the middle of a sentence."""
CONFIG: Final = 3
"""Number of lines of the form `key: value` in a row from which they count as a pasted configuration."""


class SaidSentence(Struct, frozen=True):
    """A sentence that a person wrote. `plain`: the `plain_form` of `text`, which has the same length."""

    text: str
    plain: str
    item: bool = False
    """Whether the sentence is in an item of a list or in a heading."""


_MARKS: Final = str.maketrans(
    {"’": "'", "‘": "'", "ʼ": "'", "`": "'", "´": "'", "\u00a0": " ", "\u202f": " ", "\t": " "}
)
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_FENCE: Final = re.compile(r"^[ \t>]*(?:```|~~~)")
_NOT_PROSE: Final = re.compile(
    r"[ \t]*(?:>|\||\$ |% |# ?!|\+\+\+|---|@@|\+ |at \S+[(:]|File \"|Traceback|Caused by|Exception|\.{3} \d+ more|<[!/?\w]|[{}\[\]()]|//|/\*|\*/|"
    r"(?:import|from|def|class|return|const|let|var|function|public|private|export|package|using|fn|pub|impl|#include)\s.*[;{:(=]|"
    r"\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d|\[?\d\d:\d\d:\d\d|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d|\[?(?:INFO|WARN|WARNING|ERROR|DEBUG|TRACE|FATAL|E|W)\]?[:\s\]]|"
    r"npm (?:ERR|WARN)|error(?:\[\w+\])?:|warning:|fatal:|panic:|\w+(?:Error|Exception):|[\w./-]+:\d+:|\d+:\d+\s|(?:GET|POST|PUT|DELETE|PATCH) /)"
)
_CODE_END: Final = re.compile(r"[;{}]\s*$|\)\s*=>|[\w)]\s*=\s*[\w\"'(\[{]|\w\(\)[.;]|&&|\|\|")
_INDENTED: Final = re.compile(r"(?: {4,}|\t)(?![-*•\d])\S")
_KEY_VALUE: Final = re.compile(r"[ \t]*[\w.\"'-]{1,40}\s*[:=]\s*\S{1,80}[ \t]*$")
_BULLET: Final = re.compile(r"[ \t]*(?:[-*•–]|\d{1,2}[.)])\s+|[ \t]*#{1,6}\s+")
_ABBREVIATIONS: Final = "e.g i.e etc vs z.b z bzw ca ggf nr dr mr mrs ms st p ex sr sra no inkl d.h u.a u usw prof ud uds approx incl abb art kap vgl"
_ORDINAL: Final = (
    "jan feb mär apr mai jun jul aug sep okt nov dez und bis oder klasse stock woche tag mal platz halbjahr quartal"
)
"""Beginnings of words that may follow a German ordinal, as in "14. september". No sentence ends before them."""
_SPLIT: Final = re.compile(
    "".join(rf"(?<!\b(?i:{re.escape(one)})\.)" for one in _ABBREVIATIONS.split())
    + r"(?:(?<!\d\.)(?<=[.!?…])[\"')\]»”“]?\s+|(?<=[?!])(?=[A-ZÄÖÜÉÈ¿¡])|(?:(?<=\.\d\.)|(?<=\.\d\d\.)|(?<=\d\d\d\.))\s+|"
    + rf"(?<=\d\.)\s+(?=[a-zà-ÿ])(?!{'|'.join(_ORDINAL.split())}))"
)
_MARKUP: Final = re.compile(r"^#{1,6} \S|^[=~^-]{4,}[ \t]*$|\]\(http|`[^`\n]{1,80} <http|^\.\. \w", re.MULTILINE)
_GOES_ON: Final = re.compile(r"[ \t]*[a-zà-ÿß0-9(`'\"](?![.)]\s)")
_TAG: Final = re.compile(r"<(\w[\w-]{0,40})[^<>]{0,200}>")
_LONGEST_ELEMENT: Final = 20_000


def sentences(text: str) -> Iterator[SaidSentence]:
    """Yield the sentences that a person wrote in a turn. `text`: the whole turn."""
    if len(text) > 2 * READ:
        text = f"{text[:READ]}\n…\n{text[-READ:]}"
    text = _without_elements(_SURROGATE.sub("\ufffd", text))
    for line in _joined(_prose(_own_words(text).splitlines())):
        bullet = _BULLET.match(line)
        bare = " ".join(line[bullet.end() if bullet else 0 :].replace("**", "").replace("__", "").split())
        plain = plain_form(bare)
        at = 0
        for match in _SPLIT.finditer(bare):
            yield from _sentence(bare[at : match.start()], plain[at : match.start()], item=bullet is not None)
            at = match.end()
        yield from _sentence(bare[at:], plain[at:], item=bullet is not None)


def _without_elements(text: str) -> str:
    """Return the text without elements in tags; each becomes a line break."""
    parts, at = [], 0
    for tag in _TAG.finditer(text):
        end_tag = f"</{tag[1]}>"
        if tag.start() >= at and (end := text.find(end_tag, tag.end(), tag.end() + _LONGEST_ELEMENT)) >= 0:
            parts.append(text[at : tag.start()])
            at = end + len(end_tag)
    return "\n".join([*parts, text[at:]])


def _own_words(text: str) -> str:
    """Return the text of a turn without a document that the person pasted. If the turn seems to have one, only its
    first and its last paragraph are returned."""
    if len(text) < DOCUMENT or sum(1 for _ in _MARKUP.finditer(text)) < MARKS:
        return text
    paragraphs = [one for one in re.split(r"\n\s*\n", text) if one.strip()]
    return "\n\n".join([paragraphs[0], paragraphs[-1]] if len(paragraphs) > 1 else [])


def _joined(lines: Iterator[tuple[int, str]]) -> Iterator[str]:
    """Yield the text of `lines`, pairs of (number, line). Lines that were wrapped in the middle of a sentence are
    joined."""
    kept, last = "", -2
    for at, line in lines:
        if at == last + 1 and len(kept) >= WRAPPED and kept.rstrip()[-1:] not in ".!?:;…" and _GOES_ON.match(line):
            kept = f"{kept.rstrip()} {line.strip()}"
        else:
            yield kept
            kept = line
        last = at
    yield kept


def plain_form(text: str) -> str:
    """Return a text in lower case, with straight quotes and plain spaces. Its length does not change."""
    lowered = text.translate(_MARKS).lower()
    return (
        lowered
        if len(lowered) == len(text)
        else "".join(c if len(c.lower()) != 1 else c.lower() for c in text.translate(_MARKS))
    )


def _sentence(text: str, plain: str, *, item: bool) -> Iterator[SaidSentence]:
    if len(text) <= LONGEST and any(c.isalpha() for c in text):
        yield SaidSentence(text, plain, item)


def _prose(lines: list[str]) -> Iterator[tuple[int, str]]:
    """Yield (number, line) for the lines that are natural language."""
    fenced = False
    trace = False
    for at, line in enumerate(lines):
        if _FENCE.match(line):
            fenced = not fenced
            continue
        if fenced or not line.strip():
            continue
        if _NOT_PROSE.match(line):
            trace = True
            continue
        if (trace and line[:1] in " \t") or _INDENTED.match(line):
            continue
        trace = False
        if _CODE_END.search(line) or _configured(lines, at) or not _mostly_letters(line):
            continue
        yield at, line


def _configured(lines: list[str], at: int) -> bool:
    """Return whether the line at index `at` is one of at least `CONFIG` lines of the form `key: value` in a row."""
    if not _KEY_VALUE.match(lines[at]):
        return False
    first = last = at
    while first > 0 and at - first < CONFIG and _KEY_VALUE.match(lines[first - 1]):
        first -= 1
    while last + 1 < len(lines) and last - at < CONFIG and _KEY_VALUE.match(lines[last + 1]):
        last += 1
    return last - first + 1 >= CONFIG


def _mostly_letters(line: str) -> bool:
    return sum(c.isalpha() or c == " " for c in line) >= LETTERS * len(line)
