"""Reads Gemini CLI's chats: `~/.gemini/tmp/<project>/chats/session-*.jsonl`, and the `.json` files of older versions.

A message is written again under the same id when tokens or tool calls are added. `$rewindTo` takes messages back.
`$set.messages` replaces the list of messages: after a compression by the model's summary, and the last messages under
new ids. Text that hooks added is an element in the person's own message.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, Final

from msgspec import Struct, field
from msgspec.structs import replace

from ormahd.ingest.readers.arrays import CHUNK, items
from ormahd.ingest.readers.deeds import FAILED, DeedPlace, add_deed, call_of, status_of
from ormahd.ingest.readers.lines import decoded, objects
from ormahd.ingest.readers.turns import Reading, SessionTurn, answer_turn
from ormahd.ingest.readers.values import clean_text, iso_time, key_of, text_at, texts_of, typed
from ormahd.process.own_files import open_regular

NAME: Final = "gemini"
MESSAGES: Final = "messages"
MAX_KNOWN: Final = 100_000
"""Number of messages after which the earlier ones are no longer recognised in a new list."""

_HOOK = re.compile(r"<hook_context>.*?(?:</hook_context>|\Z)", re.DOTALL)
_LIST: Final = re.compile(rb'"messages"\s{0,100}:\s{0,100}\[')
_SUMMARY: Final = re.compile(rb'"timestamp":"([\w:.+-]{1,40})","type":"user","content":\[\{"text":"<state_snapshot>')
TAIL: Final = 4_000_000
"""Number of bytes at the end of a chat in which a compression is looked for: more than one turn adds."""
_ADDED: Final = ("<session_context>", "<hook_context>", "<state_snapshot>")


class _Message(Struct, frozen=True):
    """A message that was read. `digest`: a hash of its text. `key`: the key of a prompt, or of the prompt that an answer
    belongs to; "" if there is none."""

    role: str
    digest: int
    key: str


class _Chat(Struct):
    """The state of reading one chat. `begun`: when it began. `subagent`: whether a sub-agent wrote it, so that it has
    no turns."""

    reading: Reading
    session: str = ""
    begun: str | None = None
    subagent: bool = False
    known: dict[str, _Message] = field(default_factory=dict)
    """Id -> message, of all messages; `texts`: role and digest -> the ids of these messages."""
    texts: dict[tuple[str, int], list[str]] = field(default_factory=dict)
    listed: dict[str, None] = field(default_factory=dict)
    """The ids of the messages that the chat has now, in order."""
    asked: str = ""
    """The key of the last prompt; "" if it is no turn."""
    waiting: SessionTurn | None = None
    """The answer to it so far; `last`: the id of its message."""
    last: str = ""
    finished: set[str] = field(default_factory=set)
    """The ids of the tool calls that were read."""

    def read_line(self, line: dict[str, Any]) -> Iterator[SessionTurn]:
        """Read a line. Yield the turns that are complete with it."""
        if "$rewindTo" in line:
            yield from self._rewind(str(line["$rewindTo"]))
        elif "id" in line:
            yield from self._read_message(line)
        elif isinstance(line.get("$set"), dict):
            self._read_head(line["$set"])
            if isinstance(line["$set"].get(MESSAGES), list):
                messages = line["$set"][MESSAGES]
                yield from self._replace([entry for entry in messages if isinstance(entry, dict) and "id" in entry])
        elif "sessionId" in line:
            self._read_head(line)

    def _read_head(self, line: dict[str, Any]) -> None:
        """Read the fields that describe the chat."""
        self.session = self.session or text_at(line, "sessionId") or ""
        self.begun = iso_time(line.get("startTime")) or self.begun
        self.subagent = self.subagent or line.get("kind") == "subagent"

    def _record_deeds(self, line: dict[str, Any]) -> None:
        """Record the deeds of those tool calls of a message that have ended."""
        calls = line.get("toolCalls")
        for record in calls if isinstance(calls, list) else ():
            number, state = text_at(record, "id") or "", text_at(record, "status")
            call = call_of(text_at(record, "name") or "", record.get("args")) if state in {"success", "error"} else None
            if call is None or number in self.finished:
                continue
            self.finished.add(number)
            result = record.get("result")
            answer = result[0] if isinstance(result, list) and result else result
            texts = (text_at(answer, "functionResponse", "response", name) for name in ("error", "output"))
            text = next(filter(None, texts), "")
            status = (status_of(text.partition("<hook_context>")[0]) or 0) if call.command else 0
            status = status or (FAILED if state == "error" else 0)
            time = iso_time(record.get("timestamp")) or iso_time(line.get("timestamp"))
            at = DeedPlace(self.asked, self.session or self.reading.name, self.reading.cwd, time)
            add_deed(self.reading, call, number, at, status=status, text=text)

    def _read_message(self, line: dict[str, Any]) -> Iterator[SessionTurn]:
        """Read a message, which may be new, changed or repeated. Yield the turns that are complete with it."""
        number, (role, text) = str(line["id"]), _role_and_text(line)
        if role == "assistant":
            self._record_deeds(line)
        if not role or (role == "assistant" and not text):
            return
        self.session = self.session or self.reading.name

        # The key: that of the same message before; a new prompt's own; or for an answer that of its prompt.
        before, digest = self.known.get(number), hash(text)
        key = before.key if before else key_of(role, self.session, number) if role == "user" and text else ""
        if role == "assistant":
            key = key or self.asked

        # Remember the message, to recognise it when it is written again.
        self.known[number] = _Message(role, digest, key)
        self.listed[number] = None
        if before is None and text:
            self.texts.setdefault((role, digest), []).append(number)
        if len(self.known) > MAX_KNOWN:
            self.known.clear()
            self.texts.clear()

        # A prompt ends the answer before it. An answer waits, because the message may be written again.
        time, cwd = iso_time(line.get("timestamp")) or self.begun, self.reading.cwd
        if role == "user":
            yield from self.pending_answer(closed=True)
            self.asked, self.last = key, ""
            self.reading.withdrawn.pop(key, None)
            if key and before is None:
                yield SessionTurn("user", text, time, self.session, key, cwd)
        elif key:
            whole = line.get("tokens") is not None and not line.get("toolCalls")
            reply = answer_turn(key, text, time, self.session, cwd, closed=whole or key != self.asked)
            self.reading.withdrawn.pop(reply.key, None)
            if before is not None and before.digest == digest and number != self.last:
                return
            if key == self.asked:
                self.waiting, self.last = reply, number
            else:
                yield reply

    def pending_answer(self, *, closed: bool) -> Iterator[SessionTurn]:
        """Yield the answer to the last prompt, if there is one that was not yielded. `closed`: it cannot grow any
        more."""
        if self.waiting is not None:
            yield replace(self.waiting, closed=closed or self.waiting.closed)
        self.waiting = None

    def _replace(self, messages: list[dict[str, Any]]) -> Iterator[SessionTurn]:
        """Replace the chat's messages by a list, and yield the turns that are complete with it.

        A message under a new id is recognised by role and text: it is the last such message that is not in the list,
        and keeps its key.
        """
        taken = {str(message["id"]) for message in messages}
        for line in reversed(messages):
            number, (role, text) = str(line["id"]), _role_and_text(line)
            earlier = reversed(self.texts.get((role, hash(text)), [])) if number not in self.known else ()
            same = next((known for known in earlier if known not in taken), None)
            if same is not None:
                taken.add(same)
                self.known[number] = self.known[same]
        self.listed.clear()
        for line in messages:
            yield from self._read_message(line)

    def _rewind(self, to: str) -> Iterator[SessionTurn]:
        """Take back the message with the id `to` and all later ones; all messages if no message has that id. First
        yield the answer to the last prompt."""
        yield from self.pending_answer(closed=True)
        number = ""
        while self.listed and number != to:
            number, _ = self.listed.popitem()
            removed = self.known.get(number)
            if removed is not None and removed.key:
                key = removed.key if removed.role == "user" else key_of("answer", removed.key)
                self.reading.withdrawn[key] = self.session
        latest = (self.known.get(number) for number in reversed(self.listed))
        self.asked = next((message.key for message in latest if message is not None and message.role == "user"), "")


def read(stream: BinaryIO, reading: Reading) -> Iterator[SessionTurn]:
    """Yield the turns of a chat."""
    chat, head = _Chat(reading), head_of(stream)
    for line in chain([head], items(stream, reading, inside=1)) if head else objects(stream, reading):
        if not chat.subagent:
            yield from chat.read_line(line)
    yield from chat.pending_answer(closed=reading.rested)


def last_compression(chat: str | None) -> str:
    """Return the time, as written, of the last compression in the file `chat`, of which only the end is read. "" if it
    shows none, or does not exist yet: the file is written with the first answer."""
    try:
        with open_regular(Path(chat or "")) as opened:
            opened.seek(max(0, os.fstat(opened.fileno()).st_size - TAIL))
            return b"".join(_SUMMARY.findall(opened.read(TAIL))[-1:]).decode()
    except OSError:
        return ""


def head_of(stream: BinaryIO) -> dict[str, Any]:
    """Return the fields before the list of messages, if a chat is a single object, as older versions wrote it; {} for
    any other stream. The stream is set back to its beginning."""
    begin = stream.read(CHUNK)
    stream.seek(0)
    listed = _LIST.search(begin)
    head = decoded(begin[: listed.end()] + b"]}") if listed else None
    return head if isinstance(head, dict) else {}


def _role_and_text(line: dict[str, Any]) -> tuple[str, str]:
    """Return (role, text) of a message. The role is "" if it is no part of the conversation, such as a tool's result.
    The text is "" if no person wrote the prompt, or it has no words."""
    content = line.get("content")
    if line.get("type") == "gemini":
        return "assistant", clean_text(texts_of(content, ("text",)))
    if line.get("type") != "user" or (
        isinstance(content, list) and any(isinstance(part, dict) and "functionResponse" in part for part in content)
    ):
        return "", ""
    text = texts_of(line.get("displayContent"), ("text",)) or texts_of(content, ("text",))
    text = _HOOK.sub("", text).strip()
    return "user", "" if text.startswith(_ADDED) or text == "?" else typed(text, NAME)
