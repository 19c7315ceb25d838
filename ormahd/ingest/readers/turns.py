"""A turn of a conversation, what a reader is told about a source, and what it counts on the way."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, Final, Literal

from msgspec import Struct, field

from ormahd.text import harness
from ormahd.text.harness import strip

Role = Literal["user", "assistant"]

MOST: Final = 100_000
"""Characters of a turn that are kept: more than anybody types, less than a pasted log."""
GAP: Final = "\n…\n"


class SessionTurn(Struct, frozen=True):
    """What one side said. `closed` is false while an answer may still grow."""

    role: Role
    text: str
    time: str | None
    """ISO 8601 in UTC; None where the source does not say."""
    session: str
    key: str
    """The same for the same turn, whatever happens to the file: it may grow, shrink, be rewritten, renamed, forked or compacted."""
    cwd: str | None = None
    closed: bool = True


class ExportedFact(Struct, frozen=True):
    """What another program remembered of the person, or was told about the person: to be proposed, not to be believed."""

    title: str
    text: str
    type: Literal["fact", "preference"]
    origin: str
    """Where it stood, in words."""


class Reading(Struct):
    """What a reader is told about a source, and what it found there beside turns."""

    name: str = ""
    """The file's name without its endings: the session's id where the lines do not say it."""
    cwd: str | None = None
    """The project's folder, where only the place of the file tells it."""
    at: int = 0
    """Offset of the line that is being read."""
    resume: tuple[int, str] | None = None
    """Where the next read may begin, in a format that allows it: an offset, and what that read has to know of the lines before. Of
    Claude Code the last prompt, and the id of the line before it; of Codex the last exchange, and its session."""
    known: str = ""
    """What an earlier read stored with the place where this one begins; "" at the beginning of the file."""
    rested: bool = True
    """True if no program writes the file any more: an answer at its end is then closed."""
    unknown: Counter[str] = field(default_factory=Counter)
    """Kinds of lines and parts that no reader knows, counted."""
    dropped: Counter[str] = field(default_factory=Counter)
    """What was left out on purpose, counted by reason."""
    damaged: int = 0
    """Lines that could not be read."""
    too_long: int = 0
    """Lines that are longer than `lines.LONGEST`."""
    too_long_at: int | None = None
    """Offset of the first of them."""
    titles: dict[str, str] = field(default_factory=dict)
    """Titles of sessions, where the source has some."""
    facts: list[ExportedFact] = field(default_factory=list)
    withdrawn: dict[str, str] = field(default_factory=dict)
    """Turns that the person took back, by a rewind or a roll-back: {key: session in which that was}."""


def key_of(*parts: object) -> str:
    """Return a turn's key, made of what identifies it in its format."""
    return hashlib.blake2b("\x1f".join(map(str, parts)).encode("utf-8", "replace"), digest_size=12).hexdigest()


def iso_time(value: Any) -> str | None:
    """Return a time (ISO text or Unix seconds) as ISO text in UTC; None if it is none."""
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


def typed(text: str, reading: Reading, program: str) -> str:
    """Return what a person wrote in `text`, a prompt in a transcript of `program`; "" if a program wrote all of it."""
    prompt = harness.read(text, program, most=MOST)
    if prompt.author is harness.Author.PERSON or (
        prompt.author is harness.Author.COMMAND and prompt.text.startswith("#")
    ):
        return prompt.text
    reading.dropped["command" if prompt.author is harness.Author.COMMAND else "injected"] += 1
    return ""


def said(text: str) -> str:
    """Return a text of a chat without what we injected into it, and without lone surrogates; bounded."""
    text = strip(text.encode("utf-8", "replace").decode("utf-8")).strip()
    return text if len(text) <= MOST else text[: MOST // 2] + GAP + text[-MOST // 2 :]


def texts_of(parts: Any, kinds: Iterable[str]) -> str:
    """Return the text of a message's content: a string, a part, or a list of parts of which those of `kinds` have text."""
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
    """Return the text that lies at `path` in nested objects; None if there is none."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, str) and value else None


def with_last_answers(turns: Iterable[SessionTurn]) -> Iterator[SessionTurn]:
    """Yield the turns of one conversation with only the last of the agent's answers to each turn of the person."""
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
