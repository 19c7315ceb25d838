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

from ormahd.core.node import MAX_TITLE
from ormahd.core.note_fields import as_utc, clean_tag, one_line
from ormahd.core.note_times import read_time

MAX_HEAD = 100_000
"""Characters of a head that are read."""

_TOML = re.compile(r"\+\+\+[ \t]*\r?\n(.*?)^\+\+\+[ \t]*\r?$\n?", re.DOTALL | re.MULTILINE)
_LOGSEQ = re.compile(r"(?:[\w-]+::[ \t].*(?:\r?\n|\Z))+")
_PROPERTY = re.compile(r"([\w-]+)::[ \t]+(.*?)\r?$", re.MULTILINE)


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
    found = _TOML.match(text, 0, MAX_HEAD)
    if found is not None:
        values: Mapping[str, Any] = {}
        with suppress(ValueError, RecursionError):  # its owner's to mend; the text is found all the same
            values = tomllib.loads(found[1].replace("\r\n", "\n"))
        return _head("TOML (+++)", found.end(), values)
    if text.startswith("{"):
        try:
            value, end = json.JSONDecoder().raw_decode(text[:MAX_HEAD])
        except (ValueError, RecursionError):
            return None
        return _head("JSON", end, value)
    found = _LOGSEQ.match(text, 0, MAX_HEAD)
    return None if found is None else _head("Logseq's properties", found.end(), dict(_PROPERTY.findall(found[0])))


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
