"""What a harness gets back: the JSON that it wants, or nothing at all (REFERENCE part G).

Claude Code, Codex and Gemini CLI agree on one shape, `hookSpecificOutput` with the event's name and `additionalContext`.
Codex refuses any further key, so there is none. Silence is no output: each of them takes that for "go on".
"""

from __future__ import annotations

from typing import Final

import msgspec

from ormahd.whisper.render import MARK

MOST_BYTES: Final = 9_600
"""Of a context. Claude Code cuts at 10,000 characters, Codex at 2,500 tokens, which it counts as 10,000 bytes of UTF-8: for
Chinese that is 3,300 characters."""


def context(event: str, text: str) -> bytes:
    """The output that puts `text` before the agent; b"" where there is none."""
    if not text:
        return b""
    said = {"hookEventName": event, "additionalContext": fitting(text)}
    return msgspec.json.encode({"hookSpecificOutput": said})


def fitting(text: str) -> str:
    """`text` with as many whole lines as a harness takes; our mark stays the last one."""
    text = text.encode("utf-8", "replace").decode()
    if len(text.encode()) <= MOST_BYTES:
        return text
    body, _, last = text.rpartition("\n")
    if not last.startswith(MARK):
        body, last = text, ""
    room = MOST_BYTES - len(last.encode()) - 1
    return body.encode()[:room].decode("utf-8", "ignore").rpartition("\n")[0] + "\n" + last


def joined(text: str, line: str) -> str:
    """`text` with one more line, before our mark; without a text the line stands alone, with a mark of its own."""
    if not text:
        return f"{line}\n{MARK} -->"
    body, _, last = text.rpartition("\n")
    return f"{body}\n{line}\n{last}" if last.startswith(MARK) else f"{text}\n{line}"
