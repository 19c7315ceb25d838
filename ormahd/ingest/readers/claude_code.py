"""Reads Claude Code's transcripts: `~/.claude/projects/**.jsonl`, whose lines form a tree.

A person's prompt is a `user` line that has no sign of a tool's result, of injected text or of a sub-agent. A prompt
that was typed while Claude worked is an `attachment` of the kind `queued_command`. An answer is the text of the last
`assistant` message before the next prompt; a message may be spread over several lines with the same id. Branches that
a rewind has left are reported as withdrawn.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO, Final

from msgspec import Struct, field

from ormahd.ingest.readers.lines import objects
from ormahd.ingest.readers.turns import (
    Reading,
    SessionTurn,
    between,
    iso_time,
    key_of,
    said,
    text_at,
    texts_of,
    typed,
)

NAME: Final = "claude-code"

TOLD: Final = frozenset({"user", "assistant", "system", "attachment"})
_END: Final = frozenset({"end_turn", "stop_sequence", "max_tokens", "refusal"})
"""Values of `stop_reason` after which an answer is complete."""


class _Line(Struct):
    """The part of the conversation in one line of a transcript: a prompt, or a part of an answer. `whole`: whether
    the answer is complete with this line."""

    uuid: str | None
    role: str
    text: str
    time: str | None
    session: str
    cwd: str | None
    message: str = ""
    """The id of the message of which the line is a part; "" for a prompt."""
    whole: bool = False
    root: bool = False
    """Whether the line is a prompt with an explicit null as its parent: the conversation begins with it."""


class _Tree(Struct):
    """The tree that the lines of a transcript form. `parents`: uuid of a line -> uuid of its parent; `leaf`: uuid of
    the newest line; `by_message`: id of a message -> uuid of the first line of that message."""

    parents: dict[str, str | None] = field(default_factory=dict)
    leaf: str | None = None
    by_message: dict[str, str] = field(default_factory=dict)

    def live(self) -> set[str]:
        """Return the live branch: the uuids of the lines from the newest one up to its root."""
        found: set[str] = set()
        at = self.leaf
        while at is not None and at not in found:
            found.add(at)
            at = self.parents.get(at)
        return found

    def left(self, uuid: str, live: set[str]) -> bool:
        """Return whether a line is on a branch that a rewind has left: its branch forks off the live branch, whose
        uuids are `live`. False for a line of another tree."""
        seen: set[str] = set()
        at: str | None = uuid
        while at is not None and at not in live and at not in seen:
            seen.add(at)
            at = self.parents.get(at)
        return at is not None and at in live and bool(seen)


def read(stream: BinaryIO, reading: Reading) -> Iterator[SessionTurn]:
    """Yield the turns of a transcript in the order of its lines, without the turns that the person took back by a
    rewind."""
    tree = _Tree()
    found: list[_Line] = []
    for line in objects(stream, reading):
        kind = line.get("type")
        if not isinstance(kind, str) or kind not in TOLD:
            _take_title(line, kind, reading)
            continue
        if line.get("isSidechain") is True:
            continue
        _grow(tree, line)
        one = _heard(line, reading)
        if one is not None:
            found.append(one)
    live = tree.live()
    roots: dict[str, list[int]] = {}
    for at, one in enumerate(found):
        if one.root:
            roots.setdefault(one.session, []).append(at)
    kept: list[_Line] = []
    left: list[_Line] = []
    for at, one in enumerate(found):
        first, *_, last = roots.get(one.session, [0]) * 2
        gone = (one.uuid is not None and tree.left(one.uuid, live)) or first <= at < last
        (left if gone else kept).append(one)
    if left:
        reading.withdrawn |= {turn.key: turn.session for turn in _turns(left, rested=True)}
        for turn in _turns(kept, rested=True):
            reading.withdrawn.pop(turn.key, None)
    yield from _turns(kept, rested=reading.rested)


def _take_title(line: dict[str, Any], kind: Any, reading: Reading) -> None:
    """Store the session's title if a line has one. A title that the person gave comes before one that was made."""
    title = text_at(line, "customTitle") or text_at(line, "aiTitle")
    session = text_at(line, "sessionId") or reading.name
    if title and session and not (kind == "ai-title" and session in reading.titles):
        reading.titles[session] = title


def _grow(tree: _Tree, line: dict[str, Any]) -> None:
    uuid = text_at(line, "uuid")
    if uuid is None:
        return
    tree.parents[uuid] = text_at(line, "parentUuid") or text_at(line, "logicalParentUuid")
    message = text_at(line, "message", "id")
    if line["type"] == "assistant" and message:
        # lines of one message may have the same parent: they are no branches, so hang them below the first of them
        before = tree.by_message.setdefault(message, uuid)
        if before != uuid and tree.parents[uuid] == tree.parents.get(before):
            tree.parents[uuid] = before
    if line["type"] in {"user", "assistant"} or tree.leaf is None or tree.parents[uuid] == tree.leaf:
        tree.leaf = uuid


def _heard(line: dict[str, Any], reading: Reading) -> _Line | None:
    """Return the prompt or the part of an answer in a line; None if the line is no part of the conversation."""
    kind = line["type"]
    if kind == "system" or str(line.get("entrypoint", "")).startswith("sdk"):
        return None
    if kind == "assistant":
        return _answer(line, reading)
    text = _queued(line) if kind == "attachment" else _prompt(line)
    text = text and (_command(text) or typed(text, NAME))
    if not text:
        return None
    root = kind == "user" and "parentUuid" in line and line["parentUuid"] is None
    root = root and not text_at(line, "logicalParentUuid")
    return _line(line, "user", text, reading, root=root)


def _line(
    line: dict[str, Any], role: str, text: str, reading: Reading, *, message: str = "", whole: bool = False, root: bool = False
) -> _Line:  # fmt: skip
    session, cwd = text_at(line, "sessionId") or reading.name, text_at(line, "cwd") or reading.cwd
    time = iso_time(line.get("timestamp"))
    return _Line(text_at(line, "uuid"), role, text, time, session, cwd, message, whole, root)


def _prompt(line: dict[str, Any]) -> str:
    """Return the text of a `user` line if a person typed it; "" otherwise."""
    message = line.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    origin = line.get("origin")
    result = line.get("toolUseResult") is not None or (
        isinstance(content, list) and any(text_at(part, "type") == "tool_result" for part in content)
    )
    injected = any(line.get(name) is True for name in ("isMeta", "isCompactSummary", "isVisibleInTranscriptOnly"))
    program = line.get("turnOrigin") not in (None, "human") or (
        isinstance(origin, dict) and origin.get("kind") not in (None, "human")
    )
    return "" if result or injected or program or line.get("interruptedMessageId") else texts_of(content, ("text",))


def _queued(line: dict[str, Any]) -> str:
    """Return the text of an attachment if it is a prompt that a person typed while Claude worked; "" otherwise."""
    found = line.get("attachment")
    if not isinstance(found, dict) or found.get("type") != "queued_command":
        return ""
    origin = found.get("origin")
    human = found.get("humanTurn") is True or (isinstance(origin, dict) and origin.get("kind") == "human")
    if found.get("commandMode", "prompt") != "prompt" or not (human or (origin is None and "humanTurn" not in found)):
        return ""
    return texts_of(found.get("prompt"), ("text",))


def _command(text: str) -> str:
    """Return a slash command with its arguments as text; "" if `text` is no slash command, or one without arguments."""
    if not text.lstrip().startswith("<command-"):
        return ""
    asked = said(between(text, "<command-args>", "</command-args>"))
    return f"{between(text, '<command-name>', '</command-name>')} {asked}".strip() if asked else ""


def _answer(line: dict[str, Any], reading: Reading) -> _Line | None:
    message = line.get("message")
    if not isinstance(message, dict) or line.get("isApiErrorMessage") is True or message.get("model") == "<synthetic>":
        return None
    text = said(texts_of(message.get("content"), ("text",)))
    number = text_at(message, "id") or text_at(line, "uuid") or ""
    whole = message.get("stop_reason") in _END
    return _line(line, "assistant", text, reading, message=number, whole=whole) if text or whole else None


def _turns(lines: list[_Line], *, rested: bool) -> Iterator[SessionTurn]:
    """Yield a turn for each prompt, and one for the answer to it: the last message with text before the next prompt.
    `rested`: no program writes to the transcript any more, so that the last answer is complete."""
    answer: list[_Line] = []
    for one in lines:
        if one.role == "user":
            yield from _closing(answer, closed=True)
            answer = []
            key = key_of("user", one.time or one.uuid, one.text)
            yield SessionTurn("user", one.text, one.time, one.session, key, one.cwd)
        elif answer and answer[-1].message != one.message and one.text:
            answer = [one]
        else:
            answer.append(one)
    yield from _closing(answer, closed=rested or any(one.whole for one in answer))


def _closing(answer: list[_Line], *, closed: bool) -> Iterator[SessionTurn]:
    parts = [one for one in answer if one.text]
    if not parts:
        return
    first = parts[0]
    text = "\n\n".join(dict.fromkeys(one.text for one in parts))
    key = key_of("assistant", first.time or first.message, text)
    yield SessionTurn("assistant", text, first.time, first.session, key, first.cwd, closed)
