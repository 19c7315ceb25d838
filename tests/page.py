"""The page as a browser without scripts sees it: documents that are asked for by the cookie of a session, and read by a parser."""

from __future__ import annotations

import re
import urllib.parse
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any

from tests.web import Web

VOID = {"meta", "link", "input", "br", "hr", "img", "wbr"}
LOADING = {"src", "srcset", "data", "poster", "background", "action", "formaction"}
"""Attributes by which a document loads something, or sends something somewhere."""


class Document(HTMLParser):
    """A parsed document: its text, its elements, and what is wrong with it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.raw = text
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.wrong: list[str] = []
        self._open: list[str] = []
        self._text: list[str] = []
        self.feed(text)
        self.close()
        self.text = " ".join("".join(self._text).split())
        self.wrong += [f"<{name}> is not closed" for name in self._open]
        if re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]", text):
            self.wrong.append("a control character")

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.elements.append((tag, given))
        for name, value in given.items():
            inside = value.startswith(("/", "?")) and not value.startswith("//")
            if (name in LOADING and not inside) or name == "style" or name.startswith("on"):
                self.wrong.append(f"<{tag} {name}={value[:80]}>")
            if name == "href" and not re.match(r"/(?!/)|\?|#|https?://|mailto:", value):
                self.wrong.append(f"a link to {value[:80]}")
        if tag in {"img", "iframe", "object", "embed", "base", "style", "picture", "video", "audio"}:
            self.wrong.append(f"<{tag}>")
        if tag == "script" and not given.get("src", "").startswith("/static/"):
            self.wrong.append("a script of its own")
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open.pop() != tag:
            self.wrong.append(f"</{tag}> closes nothing")

    def handle_data(self, data: str) -> None:
        self._text.append(data)

    def all(self, tag: str, **attributes: str) -> list[dict[str, str]]:
        """The attributes of each element of this kind that has the given ones."""
        return [given for name, given in self.elements if name == tag and attributes.items() <= given.items()]


@dataclass
class Reader:
    """A person's browser at the page of a house."""

    web: Web
    cookie: str = field(init=False)

    def __post_init__(self) -> None:
        self.cookie = self.web.session()

    def get(self, path: str, status: int = 200) -> Document:
        """The page at a path, whole and harmless."""
        found, headers, body = self.web.raw("GET", path, {"Cookie": self.cookie, "Accept": "text/html"})
        return self._read(path, found, status, headers, body)

    def post(self, path: str, status: int = 303, **fields: Any) -> str:
        """Send a form as the page's script does; returns where it leads (status 303), or the text of the answer."""
        headers: dict[str, str | None] = {
            "Cookie": self.cookie, "Accept": "text/html", "X-Ormah-Part": "main", "Sec-Fetch-Site": "same-origin",
            "Content-Type": "application/x-www-form-urlencoded;charset=UTF-8",
        }  # fmt: skip
        body = urllib.parse.urlencode(fields, doseq=True).encode()
        found, answered, data = self.web.raw("POST", path, headers, body)
        if found == status == 303:
            return answered["location"]
        return self._read(path, found, status, answered, data).text

    def _read(self, path: str, found: int, status: int, headers: dict[str, str], body: bytes) -> Document:
        assert found == status, (path, found, body[:2_000])
        assert headers["content-type"].startswith("text/html"), path
        document = Document(body.decode())
        assert not document.wrong, (path, document.wrong[:5])
        return document
