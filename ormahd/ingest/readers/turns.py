"""The types that all readers share: a turn of a conversation, and a reader's input and counts."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, Final, Literal

from msgspec import Struct, field

from ormahd.text import harness
from ormahd.text.harness import strip

Role = Literal["user", "assistant"]

MOST: Final = 100_000
"""Maximum characters of a turn that are kept: more than anybody types, fewer than a pasted log has."""
GAP: Final = "\n…\n"


class SessionTurn(Struct, frozen=True):
    """A turn: one prompt of the person, or one answer of the agent. `closed`: False while an answer may still grow."""

    role: Role
    text: str
    time: str | None
    """ISO 8601 in UTC; None if the source does not state it."""
    session: str
    key: str
    """Identifies the turn. It stays the same when the file is extended, cut, rewritten, renamed, forked or
    compacted."""
    cwd: str | None = None
    closed: bool = True


class ExportedFact(Struct, frozen=True):
    """A fact about the person that another program had stored. It may be wrong, so it is only proposed as a memory."""

    title: str
    text: str
    type: Literal["fact", "preference"]
    origin: str
    """Where the fact was found, in words for people."""


class Reading(Struct):
    """What a reader is told about the file that it reads, and what it finds there besides turns."""

    name: str = ""
    """The file's name without its endings. It is the session's id if the lines do not state one."""
    cwd: str | None = None
    """The project's folder, if it is known from the path of the file; the lines may state another one."""
    rested: bool = True
    """Whether no program writes to the file any more. An answer at its end is then complete."""
    damaged: int = 0
    """Number of lines that could not be parsed, or are longer than `lines.LONGEST`."""
    titles: dict[str, str] = field(default_factory=dict)
    """Session -> its title, for sessions to which the source gives one."""
    facts: list[ExportedFact] = field(default_factory=list)
    withdrawn: dict[str, str] = field(default_factory=dict)
    """Key of a turn that the person took back by a rewind or a roll-back -> the session in which that happened."""


def key_of(*parts: object) -> str:
    """Return the key of a turn: a hash of `parts`, the values that identify the turn in its format."""
    return hashlib.blake2b("\x1f".join(map(str, parts)).encode("utf-8", "replace"), digest_size=12).hexdigest()


def iso_time(value: Any) -> str | None:
    """Return a time (ISO text, or Unix time in seconds or milliseconds) as ISO text in UTC; None if `value` is no
    time."""
    try:
        if isinstance(value, bool) or value is None:
            return None
        if isinstance(value, str):
            found = datetime.fromisoformat(value)
            found = found if found.tzinfo else found.replace(tzinfo=UTC)
        else:
            seconds = float(value)
            found = datetime.fromtimestamp(seconds / 1000 if seconds > 1e11 else seconds, UTC)
        return found.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError, TypeError):
        return None


def local_time(time: str | None) -> str | None:
    """Return an ISO time as ISO text in the person's time zone, with its offset, so that its date is the person's."""
    found = iso_time(time)
    return found and datetime.fromisoformat(found).astimezone().isoformat(timespec="seconds")


def typed(text: str, program: str) -> str:
    """Return the part of a prompt that a person wrote; "" if a program wrote all of it. `program`: the agent in whose
    transcript the prompt is."""
    prompt = harness.read(text, program, most=MOST)
    noted = prompt.author is harness.Author.COMMAND and prompt.text.startswith("#")
    return prompt.text if noted or prompt.author is harness.Author.PERSON else ""


def said(text: str) -> str:
    """Return a text of a conversation without whispers and other text that Ormah put into it, and without lone
    surrogates. A text longer than `MOST` is cut in its middle."""
    text = strip(text.encode("utf-8", "replace").decode("utf-8")).strip()
    return text if len(text) <= MOST else text[: MOST // 2] + GAP + text[-MOST // 2 :]


def between(text: str, start: str, end: str) -> str:
    """Return what is between the first `start` and the next `end` in a text, stripped; "" if there is no such part."""
    inside, found, _ = text.partition(start)[2].partition(end)
    return inside.strip() if found else ""


def texts_of(parts: Any, kinds: Iterable[str]) -> str:
    """Return the text of a message's content, which is a string, a part, or a list of parts. Parts whose `type` is
    not in `kinds` are left out."""
    if isinstance(parts, str):
        return parts
    if isinstance(parts, dict):
        parts = [parts]
    if not isinstance(parts, list):
        return ""
    found = []
    for part in parts:
        if isinstance(part, str):
            found.append(part)
        elif isinstance(part, dict) and part.get("type", "text") in kinds and isinstance(part.get("text"), str):
            found.append(part["text"])
    return "\n\n".join(text for text in found if text.strip())


def text_at(value: Any, *path: str) -> str | None:
    """Return the string at `path` in nested dicts; None if there is none, or if it is empty."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, str) and value else None


def with_last_answers(turns: Iterable[SessionTurn]) -> Iterator[SessionTurn]:
    """Yield the turns of one conversation. Of several answers in a row, only the last one is yielded."""
    answer: SessionTurn | None = None
    for turn in turns:
        if turn.role == "assistant":
            answer = turn
            continue
        if answer is not None:
            yield answer
        answer = None
        yield turn
    if answer is not None:
        yield answer
