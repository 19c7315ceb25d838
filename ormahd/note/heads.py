"""Heads of other tools, which have to stay the first thing in their file (Hugo's TOML and JSON, Logseq's page properties), and of
templates."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, date, datetime
from typing import Any

from msgspec import Struct

from ormahd.model.node import MAX_TITLE
from ormahd.note.fields import as_utc, clean_tag, one_line
from ormahd.note.times import read_time

MAX_HEAD = 100_000
"""Characters of a head that are read."""

_TOML = re.compile(r"\+\+\+[ \t]*\r?\n(.*?)^\+\+\+[ \t]*\r?$\n?", re.DOTALL | re.MULTILINE)
_TOML_OPEN = re.compile(r"\+\+\+[ \t]*\r?\n(?:[ \t]*(?:[\w.\"'-]+[ \t]*=.*|\[.*|#.*)?(?:\r?\n|\Z))+")
"""One that nobody closed: the lines that can be TOML."""
_JSON_OPEN = re.compile(r"""\{\s*"[^"\n]*"\s*:""")
_LOGSEQ = re.compile(r"(?:[\w./-]+::[ \t].*(?:\r?\n|\Z))+")
_PROPERTY = re.compile(r"([\w./-]+)::[ \t]+(.*?)\r?$", re.MULTILINE)
_FENCED = re.compile(r"(---[a-z]+|;;;)[ \t]*\r?\n(.*?)^(?:---|;;;)[ \t]*\r?$\n?", re.DOTALL | re.MULTILINE)
"""A head that names its language behind the dashes, or JSON between semicolons (gray-matter, Eleventy)."""
_ORG = re.compile(r"(?::PROPERTIES:[ \t]*\r?\n(?:.*\r?\n)*?:END:[ \t]*(?:\r?\n|\Z))?(?:#\+\w+:.*(?:\r?\n|\Z))*")
_ORG_LINE = re.compile(r"^#\+(\w+):[ \t]*(.*?)\r?$", re.MULTILINE)
_METADATA = re.compile(r"(?i:title):[ \t]+\S.*\r?\n(?:[A-Za-z][\w -]*:.*(?:\r?\n|\Z)|[ \t]+\S.*(?:\r?\n|\Z))+")
_ZIM = re.compile(r"Content-Type: text/x-zim-wiki\r?\n(?:[\w-]+:.*(?:\r?\n|\Z))*")
_LABEL = re.compile(r"^([A-Za-z][\w -]*):[ \t]*(.*?)\r?$", re.MULTILINE)
_PANDOC = re.compile(r"(?:%[ \t].*(?:\r?\n|\Z)){1,3}")
_PROGRAM = re.compile(r"#![ \t]*/.*(?:\r?\n|\Z)")


_FRONT = re.compile(r"\ufeff?---[ \t]*\r?\n(.*?)^(?:---|\.\.\.)[ \t]*\r?$", re.DOTALL | re.MULTILINE)
_PLACEHOLDER = re.compile(r"<%.*?%>|\{\{[^{}\n]+\}\}", re.DOTALL)
"""Of Templater, and of the core plug-ins and QuickAdd."""


class Head(Struct, frozen=True):
    """What a foreign head says that we know too. `end`: the first character behind it."""

    tool: str
    end: int
    title: str | None = None
    created: datetime | None = None
    tags: tuple[str, ...] = ()


def other_head(text: str) -> Head | None:
    """The head of another tool at the beginning of a text, or None. A damaged one is a head too: it is mended by its owner."""
    begin = 1 if text.startswith("\ufeff") else 0
    return next((head for read in _READERS if (head := read(text, begin)) is not None), None)


def _toml(text: str, begin: int) -> Head | None:
    found = _TOML.match(text, begin, MAX_HEAD)
    if found is None:
        found = _TOML_OPEN.match(text, begin, MAX_HEAD)
        return None if found is None else Head("TOML (+++), not closed", found.end())
    values: Mapping[str, Any] = {}
    with suppress(ValueError, RecursionError):  # its owner's to mend; the text is found all the same
        values = tomllib.loads(found[1].replace("\r\n", "\n"))
    return _head("TOML (+++)", found.end(), values)


def _json(text: str, begin: int) -> Head | None:
    if not text.startswith("{", begin):
        return None
    try:
        value, end = json.JSONDecoder().raw_decode(text[begin : begin + MAX_HEAD])
    except (ValueError, RecursionError):
        return Head("JSON, which cannot be read", begin) if _JSON_OPEN.match(text, begin, MAX_HEAD) else None
    return _head("JSON", begin + end, value)


def _fenced(text: str, begin: int) -> Head | None:
    found = _FENCED.match(text, begin, MAX_HEAD)
    return None if found is None else Head(f"{found[1]}, as gray-matter has it", found.end())


def _logseq(text: str, begin: int) -> Head | None:
    found = _LOGSEQ.match(text, begin, MAX_HEAD)
    return None if found is None else _head("Logseq's properties", found.end(), dict(_PROPERTY.findall(found[0])))


def _org(text: str, begin: int) -> Head | None:
    found = _ORG.match(text, begin, MAX_HEAD)
    if found is None or not found[0]:
        return None
    said = {key.lower(): value for key, value in _ORG_LINE.findall(found[0])}
    tags = [tag for tag in said.get("filetags", "").split(":") if tag]
    return _head("Org's", found.end(), {**said, "tags": tags, "date": said.get("date", "").strip("[]<>")})


def _metadata(text: str, begin: int) -> Head | None:
    for tool, pattern in (("MultiMarkdown's metadata", _METADATA), ("Zim's", _ZIM)):
        found = pattern.match(text, begin, MAX_HEAD)
        if found is not None:
            said = {key.lower(): value for key, value in _LABEL.findall(found[0])}
            return _head(tool, found.end(), said | {"created": said.get("creation-date")})
    return None


def _pandoc(text: str, begin: int) -> Head | None:
    found = _PANDOC.match(text, begin, MAX_HEAD)
    if found is None:
        return None
    title = found[0].splitlines()[0].removeprefix("%").strip()
    return _head("Pandoc's title block", found.end(), {"title": title})


def _program(text: str, begin: int) -> Head | None:
    found = _PROGRAM.match(text, begin, MAX_HEAD)
    return None if found is None else Head("the line that says which program runs it (#!)", found.end())


_READERS = (_toml, _json, _fenced, _logseq, _org, _metadata, _pandoc, _program)


def is_template(text: str) -> bool:
    """Whether the frontmatter of a text holds placeholders that a plug-in fills in."""
    found = _FRONT.match(text, 0, MAX_HEAD)
    return found is not None and _PLACEHOLDER.search(found[1]) is not None


def _head(tool: str, end: int, values: Mapping[str, Any]) -> Head:
    title, tags = values.get("title"), values.get("tags")
    if isinstance(tags, str):
        tags = tags.split(",")
    listed = [clean_tag(tag.strip(" []")) for tag in tags if isinstance(tag, str)] if isinstance(tags, list) else []
    created = next(filter(None, (_time(values.get(key)) for key in ("created", "created-at", "date"))), None)
    return Head(
        tool,
        end,
        one_line(title)[:MAX_TITLE] or None if isinstance(title, str) else None,
        created,
        tuple(filter(None, listed)),
    )


def _time(value: Any) -> datetime | None:
    if isinstance(value, datetime):
        return as_utc(value)
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day, tzinfo=UTC)
    try:
        return read_time(value) if isinstance(value, str) else None
    except (ValueError, OverflowError):
        return None
