"""Takes values out of the JSON of transcripts and exports, and cleans the texts in it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from ormahd.text import harness
from ormahd.text.harness import strip

MAX_CHARACTERS: Final = 100_000
"""Maximum characters of a turn that are kept: more than anybody types, fewer than a pasted log has."""
GAP: Final = "\n…\n"
QUESTION: Final = re.compile(r"(?:\A|\n\n)> asked: .*(?:\n> .*)*\n")
"""Matches the question of the agent above what a person answered to it (`dialog_answer`)."""


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
    """Return the part of a prompt that a person wrote; "" if a program wrote all of it. `program`: the agent whose
    transcript has the prompt."""
    prompt = harness.read_prompt(text, program, characters=MAX_CHARACTERS)
    noted = prompt.author is harness.Author.COMMAND and prompt.text.startswith("#")
    return prompt.text if noted or prompt.author is harness.Author.PERSON else ""


def clean_text(text: str) -> str:
    """Return a text of a conversation without whispers and other text that Ormah put into it, and without lone
    surrogates. A text longer than `MAX_CHARACTERS` is cut in its middle."""
    text = strip(text.encode("utf-8", "replace").decode("utf-8")).strip()
    return text if len(text) <= MAX_CHARACTERS else text[: MAX_CHARACTERS // 2] + GAP + text[-MAX_CHARACTERS // 2 :]


def dialog_answer(question: str, text: str) -> str:
    """Return what a person answered to a question of the agent, below the question as a quotation (`QUESTION`). Without
    a question: the answer alone."""
    return "> asked: " + question.strip().replace("\n", "\n> ") + f"\n{text.strip()}" if question else text.strip()


def between(text: str, start: str, end: str) -> str:
    """Return the text between the first `start` and the next `end`, stripped; "" if one of them is missing."""
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


def branch(parents: Mapping[str, Any], leaf: Any) -> list[str]:
    """Return the names from a root of a tree down to `leaf`; [] if `leaf` is not in the tree. `parents`: name -> the
    name of its parent."""
    found: dict[str, None] = {}
    while isinstance(leaf, str) and leaf in parents and leaf not in found:
        found[leaf] = None
        leaf = parents[leaf]
    return [*found][::-1]
