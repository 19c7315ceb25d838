"""Finds the format of a stream by its structure, never by a file's name. `READERS` has the reader of each format."""

from __future__ import annotations

import fnmatch
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from importlib import resources
from itertools import islice
from typing import Any, BinaryIO, Final

from ormahd.ingest.readers import chatgpt, claude_ai, claude_code, codex, gemini, plain
from ormahd.ingest.readers.arrays import Repaired, first_sign, items
from ormahd.ingest.readers.lines import lines, objects
from ormahd.ingest.readers.turns import Reading, SessionTurn
from ormahd.ingest.readers.values import text_at

Reader = Callable[[BinaryIO, Reading], Iterator[SessionTurn]]

READERS: Final[dict[str, Reader]] = {
    module.NAME: module.read for module in (claude_code, codex, gemini, chatgpt, claude_ai, plain)
} | {claude_ai.MEMORIES: claude_ai.read_memories}
WHOLE: Final = frozenset({gemini.NAME, chatgpt.NAME, claude_ai.NAME, claude_ai.MEMORIES})
"""The formats of files that are an array or a single object."""
LOOKED_AT: Final = 60
"""Number of JSON lines that are examined: several lines without conversation may come before the first prompt."""


def format_of(stream: BinaryIO) -> str | None:
    """Return the name of a stream's format; None if no reader knows the format. The stream is set back to its
    beginning."""
    try:
        return _detect_format(stream)
    finally:
        stream.seek(0)


@cache
def _known_kinds(program: str) -> re.Pattern[str]:
    """Return a pattern of the kinds of records that a program is known to write."""
    file = tomllib.loads(resources.files(__package__).joinpath("kinds.toml").read_text("utf-8"))
    return re.compile("|".join(map(fnmatch.translate, file.get(program, "*").split())))


def unknown_kinds(program: str, kinds: Iterable[str]) -> list[str]:
    """Return the kinds in `kinds` (see `lines.kind_of`) that the reader of a program's transcripts does not know,
    sorted."""
    return sorted(kind for kind in kinds if kind and not _known_kinds(program).match(kind))


def _detect_format(stream: BinaryIO) -> str | None:
    """Do what `format_of` does, without setting the stream back."""
    sign = first_sign(stream)
    if sign in {b"{", b"["}:
        for line in islice(objects(stream, Reading()), LOOKED_AT) if sign == b"{" else ():
            found = _format_of_line(line)
            if found is not None:
                return found
        stream.seek(0)
        found = _format_of_line(gemini.head_of(stream) or next(items(stream, Reading()), {}))
        return found if found in WHOLE else None
    texts = (line.decode("utf-8", "replace") for line in islice(lines(Repaired(stream), Reading()), 400))  # type: ignore[arg-type]
    return plain.NAME if any(plain.SPEAKER.match(text) for text in texts) else None


def _format_of_line(line: dict[str, Any]) -> str | None:
    """Return the format of a JSON line with these fields; None if the fields do not show the format."""
    kind, has = text_at(line, "type"), line.keys()
    headed = "sessionId" in line and ("projectHash" in line or "startTime" in line)
    if kind is None and (headed or "$rewindTo" in line or "$set" in line):
        return gemini.NAME
    if isinstance(line.get("mapping"), dict):
        return chatgpt.NAME
    if isinstance(line.get("chat_messages"), list):
        return claude_ai.NAME
    if kind is None and not has.isdisjoint(claude_ai.MEMORY_KEYS):
        return claude_ai.MEMORIES
    opened = kind is None and has >= {"id", "timestamp"} and not has.isdisjoint({"instructions", "git"})
    if opened or "record_type" in line or (kind is not None and isinstance(line.get("payload"), dict)):
        return codex.NAME
    if kind in claude_code.CONVERSATION and ("uuid" in line or isinstance(line.get("message"), dict)):
        return claude_code.NAME
    if kind in {"user", "gemini"} and has >= {"id", "content"}:
        return gemini.NAME
    return codex.NAME if kind == "message" and has >= {"role", "content"} else None
