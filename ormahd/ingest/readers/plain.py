"""Reads a conversation in plain text. Each turn begins with `User:` or `Assistant:` at the start of a line, or with a
name such as Human, You, Me, AI or Bot."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import BinaryIO, Final

from ormahd.ingest.readers.arrays import Repaired
from ormahd.ingest.readers.lines import LONGEST, lines
from ormahd.ingest.readers.turns import Reading, Role, SessionTurn
from ormahd.ingest.readers.values import clean_text, key_of

NAME: Final = "text"

SPEAKER: Final = re.compile(
    r"(?:#{1,4} )?(?:\*\*)?(?P<name>user|human|you|me|assistant|ai|bot|claude|chatgpt|gemini|codex)(?:\*\*)?\s?[:：](?:\*\*)?(?:\s+|\Z)",
    re.IGNORECASE,
)
TELLING: Final = 100
"""Number of characters at the beginning of a conversation that distinguish it from others."""
_PERSON: Final = frozenset({"user", "human", "you", "me"})


def read(stream: BinaryIO, reading: Reading) -> Iterator[SessionTurn]:
    """Yield the turns of a text. The key of a turn is made of its text and all turns before it, so that it stays the
    same when the file grows or is renamed.

    The session's id is made of the first turns, as many as have `TELLING` characters together. The first turn alone is
    not enough, because many conversations begin with the same greeting.
    """
    begun: list[tuple[Role, str, str]] = []
    session, before, read_so_far = "", "", 0
    for role, raw in _spoken(stream, reading):
        text = clean_text(raw)
        if not text:
            continue
        before, read_so_far = key_of(before, role, text), read_so_far + len(text)
        begun.append((role, text, before))
        if read_so_far >= TELLING:
            session = session or f"text-{before[:12]}"
            yield from _turns(begun, session, reading)
            begun = []
    yield from _turns(begun, session or f"text-{before[:12]}", reading)


def _turns(found: Iterable[tuple[Role, str, str]], session: str, reading: Reading) -> Iterator[SessionTurn]:
    """Yield a turn for each (role, text, key), and give the session its title."""
    for role, text, key in found:
        if reading.name:
            reading.titles[session] = reading.name
        yield SessionTurn(role, text, None, session, key, reading.cwd)


def _spoken(stream: BinaryIO, reading: Reading) -> Iterator[tuple[Role, str]]:
    """Yield (role, text) of each part that a speaker's name begins. A name in fenced code does not count."""
    role: Role | None = None
    parts: list[str] = []
    fenced, size = False, 0
    for raw in lines(Repaired(stream), reading):  # type: ignore[arg-type]
        line = raw.decode("utf-8", "replace").rstrip("\r")
        found = None if fenced else SPEAKER.match(line)
        fenced ^= (line if found is None else line[found.end() :]).lstrip().startswith("```")
        if found is None:
            size += len(line)
            if size < LONGEST:
                parts.append(line)
            continue
        if role is not None:
            yield role, "\n".join(parts)
        role = "user" if found["name"].lower() in _PERSON else "assistant"
        parts, size = [line[found.end() :]], 0
    if role is not None:
        yield role, "\n".join(parts)
