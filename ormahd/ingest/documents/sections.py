"""Divides a text into sections by its headings. Pure functions.

Headings are those of markdown: a line with `#` marks, or a line underlined with `=` or `-`. Headings in fenced code
do not count.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct

from ormahd.model.node import MAX_TITLE

LEAST: Final = 10
"""Minimum number of characters of a section. Shorter ones are left out, because they say nothing."""
LONGEST: Final = 6_000
"""Maximum number of characters of a section. A longer one is divided into several."""
MAX_SECTIONS: Final = 5_000
"""Maximum number of sections of one file."""

_ATX = re.compile(r" {0,3}(?P<marks>#{1,6})(?P<text>[ \t].*)?")
_UNDERLINE = re.compile(r" {0,3}(?:=+|-{2,})[ \t]*")
_FENCE = re.compile(r" {0,3}(?P<fence>`{3,}|~{3,})(?P<rest>.*)")
_FRONT = re.compile(r"---[ \t]*\n(?P<block>(?:(?!---[ \t]*\n).*\n){0,500}?)(?:---|\.\.\.)[ \t]*(?:\n|\Z)")
_FRONT_LINE = re.compile(r"(?:[A-Za-z_][\w .-]*:(?:[ \t].*)?|[ \t]*-[ \t].*|[ \t]+.*|#.*|[ \t]*)")
_FRONT_TITLE = re.compile(r"^title:(?P<title>.*)$", re.MULTILINE)
_LINK = re.compile(r"!?\[(?P<text>[^\]\[]*)\]\([^()]*\)|\[\[(?:[^\]|\[]*\|)?(?P<name>[^\]|\[]*)\]\]")
_MARKS = re.compile(r"(?<!\w)[*_]{1,3}(?=\S)|(?<=\S)[*_]{1,3}(?!\w)|`")


class Section(Struct, frozen=True):
    """A section of a file. `place`: its headings from the outermost to its own, joined by `>`; it identifies the
    section after an edit. `title`: the same, without the outermost headings if it would be too long."""

    place: str
    title: str
    text: str
    line: int = 1
    """The line of the file in which it begins, from 1; in a PDF the page."""

    @property
    def key(self) -> str:
        """The key of the section's title and text: a hash of 24 hexadecimal digits."""
        return key_of(self.title, self.text)


class _Open(Struct):
    """A section while it is being read. `headings`: (level, text) of each of its headings."""

    headings: tuple[tuple[int, str], ...]
    lines: list[str]
    line: int = 1


def key_of(title: str | None, text: str) -> str:
    """Return the key of a section, or of the memory made from it: a hash of title and text."""
    return hashlib.blake2b(f"{title or ''}\0{text}".encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


def sections(text: str, name: str) -> list[Section]:
    """Return the sections of a markdown text. The title of the part before the first heading is the title in the
    text's frontmatter, or `name` if there is none."""
    text = text.replace("\r\n", "\n").replace("\r", "\n").removeprefix("\ufeff")
    body, title = _without_front(text)
    before = text.count("\n") - body.count("\n")
    found = (
        (tuple(heading for _, heading in part.headings), "\n".join(part.lines), before + part.line)
        for part in _parts_by_heading(body)
    )
    return make_sections([(headings or (title or name,), part, line) for headings, part, line in found])


def make_sections(parts: Sequence[tuple[Sequence[str], str, int]]) -> list[Section]:
    """Make sections of `parts`, tuples of (headings, text, line). Empty parts are left out, and long ones are split
    into several sections. Sections with the same headings are numbered."""
    seen: Counter[str] = Counter()
    found: list[Section] = []
    for headings, body, line in parts:
        place = " > ".join(headings)
        above = [heading for heading in headings if heading]
        while len(above) > 1 and len(" > ".join(above)) > MAX_TITLE:
            del above[0]
        title = " > ".join(above)[:MAX_TITLE]
        for number, text in enumerate(_split_long(body.strip("\n").rstrip()), 1):
            if len(text.strip()) < LEAST:
                continue
            seen[place] += 1
            again = f" ({seen[place]})" if seen[place] > 1 else ""
            part = f" ({number})" if number > 1 else ""
            found.append(Section(f"{place}{again}", f"{title[: MAX_TITLE - len(part)]}{part}", text, line))
    return found


def _without_front(text: str) -> tuple[str, str]:
    """Return (text without its frontmatter, title in the frontmatter or ""). Lines between two `---` that do not have
    the form of frontmatter, such as a letterhead, belong to the text."""
    found = _FRONT.match(text)
    if found is None or not all(_FRONT_LINE.fullmatch(line) for line in found["block"].splitlines()):
        return text, ""
    title = _FRONT_TITLE.search(found["block"])
    return text[found.end() :], plain_heading(title["title"].strip().strip("\"'")) if title else ""


def _parts_by_heading(text: str) -> Iterator[_Open]:
    """Yield the parts of a markdown text, one for each heading, and first the part before any heading."""
    # `now`: the part that is being read. `fence`: the marks that opened fenced code; "" outside of it.
    now = _Open((), [])
    fence = ""
    for number, line in enumerate(text.split("\n"), 1):
        mark = _FENCE.fullmatch(line)
        if fence:
            if mark and mark["fence"].startswith(fence) and not mark["rest"].strip():
                fence = ""
            now.lines.append(line)
            continue
        if mark and not (mark["fence"][0] == "`" and "`" in mark["rest"]):
            fence = mark["fence"]
            now.lines.append(line)
            continue

        # A heading ends the part. One of a lower level belongs to those above it.
        level, heading = _heading_at(line, now.lines)
        if level == 0:
            now.lines.append(line)
            continue
        if _UNDERLINE.fullmatch(line):
            now.lines.pop()
        yield now
        above = tuple((depth, text) for depth, text in now.headings if depth < level)
        now = _Open((*above, (level, heading)), [], number)
    yield now


def _heading_at(line: str, before: Sequence[str]) -> tuple[int, str]:
    """Return (level, text) of a heading if `line` is one, or if it underlines one, which is then the last of the lines
    `before`. Otherwise return (0, ""). `before`: the earlier lines of the section."""
    found = _ATX.fullmatch(line)
    if found is not None:
        text = (found["text"] or "").rstrip()
        if (bare := text.rstrip("#")) != bare.rstrip():  # a closing sequence of marks
            text = bare
        text = plain_heading(text)
        return (len(found["marks"]), text) if text else (0, "")
    if _UNDERLINE.fullmatch(line) and before:
        above = before[-1]
        alone = len(before) == 1 or not before[-2].strip()
        if above.strip() and alone and not re.match(r" {4}|\t| {0,3}(?:[-*+>|]|\d+[.)])", above):
            return (1 if line.strip().startswith("=") else 2), plain_heading(above)
    return 0, ""


def plain_heading(text: str) -> str:
    """Return a heading as one line of plain text, without markdown's signs for links, emphasis and code."""
    text = _LINK.sub(lambda found: found["text"] or found["name"] or "", text)
    return " ".join(_MARKS.sub("", text).split())


def _split_long(text: str) -> Iterator[str]:
    """Yield a text in parts of at most `LONGEST` characters. It is cut between paragraphs if possible, else between
    lines, else between words."""
    while len(text) > LONGEST:
        end = LONGEST
        for mark in ("\n\n", "\n", " "):
            at = text.rfind(mark, LONGEST // 3, LONGEST)
            if at > 0:
                end = at
                break
        yield text[:end].rstrip()
        text = text[end:].lstrip("\n ")
    yield text
