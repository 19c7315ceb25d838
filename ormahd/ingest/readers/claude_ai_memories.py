"""Reads the memories in Claude.ai's export, which are facts about the person, and no conversation."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO, Final

from ormahd.ingest.readers.arrays import items
from ormahd.ingest.readers.turns import ExportedFact, Reading, SessionTurn
from ormahd.ingest.readers.values import clean_text, text_at

NAME: Final = "claude-ai-memories"
KEYS: Final = frozenset({"conversations_memory", "project_memories", "memory_files"})
ORIGIN: Final = "memories of Claude.ai"
LEAST: Final = 15
"""Minimum number of characters of a paragraph. Shorter ones are left out, because they say nothing."""

_HEADING = re.compile(r"(?:#{1,6}[ \t]+|\*\*)(?P<title>[^\n*]{1,100}?)(?:\*\*)?:?[ \t]*(?:\n|$)")
_BULLET = re.compile(r"^[ \t]*[-*•]\s+", re.MULTILINE)


def read(stream: BinaryIO, reading: Reading) -> Iterator[SessionTurn]:
    """Add each paragraph of the memories in an export of claude.ai to `reading.facts`. Yields no turns."""
    yield from ()
    for account in items(stream, reading):
        _take(text_at(account, "conversations_memory") or "", "Claude remembered", reading)
        projects = account.get("project_memories")
        for text in projects.values() if isinstance(projects, dict) else ():
            _take(text if isinstance(text, str) else "", "Claude remembered of a project", reading)
        files = account.get("memory_files")
        for file in files if isinstance(files, list) else ():
            name = (text_at(file, "path") or "memory").rsplit("/", 1)[-1]
            _take(text_at(file, "content") or "", name, reading)


def _take(text: str, title: str, reading: Reading) -> None:
    """Add each paragraph of a text, or each item of a list in the text, to `reading.facts`. The fact's title is the
    heading above the paragraph, or `title` if there is none."""
    heading = title
    for paragraph in re.split(r"\n\s*\n", clean_text(text)):
        lines = paragraph.strip()
        found = _HEADING.match(lines)
        if found:
            heading, lines = found["title"].strip(), lines[found.end() :].strip()
        for part in _BULLET.split(lines) if _BULLET.match(lines) else [lines]:
            statement = " ".join(part.split())
            one = ExportedFact(heading, statement, "fact", ORIGIN)
            if len(statement) >= LEAST and one not in reading.facts:
                reading.facts.append(one)
