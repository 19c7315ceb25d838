"""Build the output of a hook: JSON for the harness, or nothing (REFERENCE part G).

Claude Code, Codex and Gemini CLI accept the same JSON: `hookSpecificOutput` with the event's name and `additionalContext`.
Codex rejects any further key. A hook without output changes nothing: each harness continues as usual.
"""

from __future__ import annotations

from typing import Final

import msgspec

from ormahd.whisper.render import MARK

MOST_BYTES: Final = 9_600
"""Maximum size of the injected text, in bytes of UTF-8.

Claude Code cuts at 10,000 characters, Codex at 2,500 tokens, which it estimates as 10,000 bytes.
"""


def context(event: str, text: str) -> bytes:
    """Return the hook output that adds `text` to the agent's context; b"" if `text` is empty."""
    if not text:
        return b""
    said = {"hookEventName": event, "additionalContext": fitting(text)}
    return msgspec.json.encode({"hookSpecificOutput": said})


def fitting(text: str) -> str:
    """Cut `text` to as many whole lines as fit into MOST_BYTES. If the last line is Ormah's end mark, it is kept."""
    text = text.encode("utf-8", "replace").decode()
    if len(text.encode()) <= MOST_BYTES:
        return text
    body, _, last = text.rpartition("\n")
    if not last.startswith(MARK):
        body, last = text, ""
    room = MOST_BYTES - len(last.encode()) - 1
    return body.encode()[:room].decode("utf-8", "ignore").rpartition("\n")[0] + "\n" + last


def joined(text: str, line: str) -> str:
    """Add a line to `text`, before Ormah's end mark. If `text` is empty, return the line followed by an end mark."""
    if not text:
        return f"{line}\n{MARK} -->"
    body, _, last = text.rpartition("\n")
    return f"{body}\n{line}\n{last}" if last.startswith(MARK) else f"{text}\n{line}"
