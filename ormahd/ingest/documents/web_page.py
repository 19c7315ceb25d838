"""Turns a page of HTML into text with markdown's headings and lists. Pure functions, in time linear in the page."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Final

_SKIPPED: Final = frozenset({"script", "style", "template", "noscript"})
_HEADINGS: Final = {f"h{level}": f"\n\n{'#' * level} " for level in range(1, 7)}
_IN_LINES: Final = "a abbr b bdi cite code em i kbd mark q s small span strong sub sup time u var"
_INLINE: Final = frozenset(_IN_LINES.split())
_NO_TAG: Final = re.compile(r"<(?![a-zA-Z/!?][^<>]{0,4000}>)")
"""Matches a `<` that begins no tag: the parser would look for its end in all of the text."""
_PAGE: Final = re.compile(r"\s*(?:<\?xml[^<>]{0,200}>\s*)?<(?:!doctype html|html|head|body)\b", re.IGNORECASE)


def is_page(text: str) -> bool:
    """Return whether a text is a page of HTML, judged by its beginning."""
    return _PAGE.match(text.removeprefix("\ufeff")) is not None


def markdown_of(text: str) -> tuple[str, str]:
    """Return (text of a page without tags, its title). Scripts, styles and comments are left out."""
    page, at = _Page(), 0
    while (begin := text.find("<!--", at)) >= 0 and (end := text.find("-->", begin)) >= 0:
        page.feed(_NO_TAG.sub("&lt;", text[at:begin]))
        at = end + 3
    page.feed(_NO_TAG.sub("&lt;", text[at:]))
    page.close()
    lines = [" ".join(line.split()) for line in "".join(page.parts).split("\n")]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip(), " ".join("".join(page.title).split())


class _Page(HTMLParser):
    """Collects the text of a page, with line breaks where its blocks begin and end."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []
        self.title: list[str] = []
        self._inside = ""
        """The tag whose text is not part of the page: a skipped one, or `title`."""

    def handle_starttag(self, tag: str, _attrs: object) -> None:
        """Called by the parser: begin a heading, list item, table cell or line; or leave out what follows, such as a
        script."""
        if tag in _SKIPPED or tag == "title":
            self._inside = self._inside or tag
        elif tag not in _INLINE:
            self.parts.append(_HEADINGS.get(tag, "\n- " if tag == "li" else " " if tag in {"td", "th"} else "\n"))

    def handle_endtag(self, tag: str) -> None:
        """Called by the parser: end what the tag began."""
        if tag == self._inside:
            self._inside = ""
        elif tag not in _INLINE and tag not in {"li", "td", "th"}:
            self.parts.append("\n\n" if tag in _HEADINGS or tag == "p" else "\n")

    def handle_data(self, data: str) -> None:
        """Called by the parser: add a text to the page or to its title."""
        if self._inside in {"", "title"}:
            (self.title if self._inside else self.parts).append(data.replace("\n", " "))
