"""Reads Gemini CLI's chats: `~/.gemini/tmp/<project>/chats/session-*.jsonl`, and the `.json` files of older versions.

A message is written again under the same id when tokens or tool calls are added. `$rewindTo` takes messages back, and
`$set.messages` replaces all. Text that hooks added is an element in the person's own message.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Iterator
from typing import Any, BinaryIO, Final

from msgspec import Struct, field

from ormahd.ingest.readers.arrays import first_sign, items, members
from ormahd.ingest.readers.lines import decoded, lines, objects
from ormahd.ingest.readers.turns import Reading, SessionTurn, iso_time, key_of, said, text_at, texts_of, typed

NAME: Final = "gemini"
MESSAGES: Final = "messages"

_HOOK = re.compile(r"<hook_context>.*?(?:</hook_context>|\Z)", re.DOTALL)
_SUMMARY: Final = re.compile(rb'"timestamp":"([\w:.+-]{1,40})","type":"user","content":\[\{"text":"<state_snapshot>')
TAIL: Final = 4_000_000
"""Number of bytes at the end of a chat in which a compression is looked for: more than one turn adds."""
_ADDED: Final = ("<session_context>", "<hook_context>")


class _Message(Struct):
    role: str
    text: str
    time: str | None
    whole: bool = False


class _Chat(Struct):
    session: str = ""
    begun: str | None = None
    subagent: bool = False
    broken: bool = False
    """Whether the chat is a single JSON object that breaks off before its end."""
    messages: dict[str, _Message | None] = field(default_factory=dict)
    """Id -> message, in order; None for a message that is no part of the conversation."""
    back: dict[str, _Message] = field(default_factory=dict)
    """Id -> message, for those that the person took back."""


def read(stream: BinaryIO, reading: Reading) -> Iterator[SessionTurn]:
    """Yield the turns of a chat. All of the chat is read first, because later lines may change or take back
    messages."""
    chat = _Chat()
    for line in _parts(stream, reading, chat):
        _take(chat, line)
    if chat.broken and not chat.session:
        return  # the session's id is missing: the turns would get other keys than when the file is complete
    if chat.subagent:
        return
    session = chat.session or reading.name
    turns = list(_turns(session, chat.messages, chat.begun, reading))
    gone = {_key(session, number, one.role) for number, one in chat.back.items()}
    reading.withdrawn |= dict.fromkeys(gone - {turn.key for turn in turns}, session)
    yield from turns


def last_compression(chat: str | None) -> str:
    """Return the time, as written, of the last compression that the end of a chat's file shows; "" if it shows none, or
    cannot be opened: it is written with the first answer."""
    with (
        contextlib.suppress(OSError),
        open(os.open(chat or "", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as opened,
    ):
        found = os.fstat(opened.fileno())
        if stat.S_ISREG(found.st_mode):
            opened.seek(max(0, found.st_size - TAIL))
            return b"".join(_SUMMARY.findall(opened.read(TAIL))[-1:]).decode()
    return ""


def _parts(stream: BinaryIO, reading: Reading, chat: _Chat) -> Iterator[dict[str, Any]]:
    """Yield the lines of a chat as JSON objects. A chat of older versions is a single object instead: yield its
    messages and its other fields as if they were lines. If that object spans several lines, or is a line that is too
    long, it is read message by message."""
    first = next((one for one in lines(stream, Reading()) if one.strip()), b"")
    stream.seek(0)
    if not isinstance(decoded(first), dict):
        before = reading.damaged
        yield from members(stream, reading, MESSAGES) if first_sign(stream) == b"{" else items(stream, reading)
        chat.broken = reading.damaged > before
        return
    for line in objects(stream, reading):
        messages = line.get(MESSAGES)
        if isinstance(messages, list) and "$set" not in line and "sessionId" in line:
            yield {name: value for name, value in line.items() if name != MESSAGES}
            yield from (one for one in messages if isinstance(one, dict))
        else:
            yield line


def _take(chat: _Chat, line: dict[str, Any]) -> None:
    if "$rewindTo" in line:
        _rewind(chat, line["$rewindTo"])
    elif "id" in line:
        _put(chat, line)
    elif isinstance(line.get("$set"), dict):
        _head(chat, line["$set"])
        messages = line["$set"].get("messages")
        if isinstance(messages, list):
            chat.messages.clear()
            for one in messages:
                if isinstance(one, dict) and "id" in one:
                    _put(chat, one)
    elif "sessionId" in line:
        _head(chat, line)


def _head(chat: _Chat, line: dict[str, Any]) -> None:
    chat.session = text_at(line, "sessionId") or chat.session
    chat.begun = iso_time(line.get("startTime")) or chat.begun
    chat.subagent = chat.subagent or line.get("kind") == "subagent"


def _rewind(chat: _Chat, to: Any) -> None:
    """Move the message whose id is `to`, and all later messages, from `chat.messages` to `chat.back`. If no message
    has this id, move all."""
    numbers = list(chat.messages)
    place = numbers.index(str(to)) if str(to) in chat.messages else 0
    for number in numbers[place:]:
        gone = chat.messages.pop(number)
        if gone is not None:
            chat.back[number] = gone


def _put(chat: _Chat, line: dict[str, Any]) -> None:
    number, kind = str(line["id"]), line.get("type")
    time = iso_time(line.get("timestamp"))
    found: _Message | None = None
    if kind == "user":
        text = _prompt(line)
        found = _Message("user", text, time) if text else None
    elif kind == "gemini":
        whole = line.get("tokens") is not None and not line.get("toolCalls")
        text = said(texts_of(line.get("content"), ("text",)))
        found = _Message("assistant", text, time, whole) if text else None
    before = chat.messages.get(number)
    if found is not None and before is not None and found.time is None:
        found.time = before.time
    chat.messages[number] = found


def _prompt(line: dict[str, Any]) -> str:
    """Return the text that a person typed in a `user` message; "" if it is a tool's result, a command, or text that a
    program added."""
    shown = texts_of(line.get("displayContent"), ("text",))
    text = _HOOK.sub("", shown or texts_of(line.get("content"), ("text",))).strip()
    return "" if not text or text.startswith(("/", "?", *_ADDED)) else typed(text, NAME)


def _key(session: str, number: str, role: str) -> str:
    return key_of(role, session, number)


def _turns(
    session: str, messages: dict[str, _Message | None], begun: str | None, reading: Reading
) -> Iterator[SessionTurn]:
    answer: tuple[str, _Message] | None = None

    def answered(*, last: bool) -> Iterator[SessionTurn]:
        if answer is not None:
            number, one = answer
            closed = not last or one.whole or reading.rested
            key = _key(session, number, "assistant")
            yield SessionTurn("assistant", one.text, one.time or begun, session, key, reading.cwd, closed)

    for number, one in messages.items():
        if one is None:
            continue
        if one.role == "user":
            yield from answered(last=False)
            answer = None
            yield SessionTurn("user", one.text, one.time or begun, session, _key(session, number, "user"), reading.cwd)
        else:
            answer = number, one
    yield from answered(last=True)
