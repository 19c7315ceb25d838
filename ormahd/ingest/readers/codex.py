"""Reads the transcripts of Codex CLI, which it calls rollouts: `~/.codex/sessions/**/rollout-*.jsonl`, of all its
versions.

In the first versions each line is a bare item; later ones wrap each line as `{timestamp, type, payload}`. What a
person typed is in `user_message` events (or completed `UserMessage` items). If a turn of Codex has none, it is in
`user` messages, from which the text added by Codex is removed. `task_complete` ends a turn of Codex. The file of a
fork begins with a copy of its parent's history; that of a sub-agent has nothing that a person wrote.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from datetime import datetime
from typing import Any, BinaryIO, Final

from msgspec import Struct, field

from ormahd.ingest.readers.deeds import FAILED, DeedPlace, ToolCall, add_deed, call_of, status_of
from ormahd.ingest.readers.lines import decoded, objects
from ormahd.ingest.readers.turns import Reading, SessionTurn, answer_turn
from ormahd.ingest.readers.values import between, clean_text, dialog_answer, iso_time, key_of, text_at, texts_of, typed

NAME: Final = "codex"

TEXTS: Final = ("input_text", "output_text", "text", "Text")
ROLLED_BACK: Final = "thread_rolled_back"
"""The event by which the person takes back the last turns."""
_ENDED: Final = frozenset({"task_complete", "turn_complete"})
_SPOKEN: Final = frozenset({"user_message", "agent_message", "item_completed"})
_BEGUN: Final = frozenset({"task_started", "turn_started"})
_CALLS: Final = frozenset({"function_call", "custom_tool_call", "local_shell_call"})
_RUNNING: Final = re.compile(r"Process running with session ID (\d+)")
_TOOK: Final = re.compile(r"Wall time: ([\d.]+)|\"duration_seconds\":\s*([\d.]+)")
_OUTPUT: Final = re.compile(r"(?:\A|\n)Output:\n|\"output\":\s*\"")


MAX_EXCHANGES: Final = 10_000
"""Maximum number of exchanges that the person can take back: those that were read last."""
CALLS: Final = 1_000
"""Maximum number of tool calls that wait for their results."""


class _Words(Struct):
    """A text with the time at which it was said."""

    text: str
    time: str | None


class _Exchange(Struct):
    """What Codex calls a turn: prompts, and the answer to the last of them. `turn_id`: its id; "" if the rollout states
    none. `number`: its number, from 1. `keys`: the keys of its prompts that were yielded."""

    turn_id: str
    number: int
    cwd: str | None = None
    keys: list[str] = field(default_factory=list)
    items: list[_Words] = field(default_factory=list)
    """Prompts from lines that are items. They count if no event had the prompt before the agent began to answer."""
    answer: _Words | None = None
    begun: bool = False
    closed: bool = False


class _Rollout(Struct):
    """The state of reading one rollout. `cwd`: the folder at the last line; `counted`: number of exchanges so far."""

    reading: Reading
    session: str
    cwd: str | None
    forked_at: float | None = None
    """When the fork was made, in Unix seconds, while the copy of its parent's history is being read; else None."""
    exchanges: deque[_Exchange] = field(default_factory=lambda: deque(maxlen=MAX_EXCHANGES))
    counted: int = 0
    found: list[SessionTurn] = field(default_factory=list)
    """The turns that were read and are to be yielded."""
    withdrawn: dict[str, str] = field(default_factory=dict)
    questions: dict[str, dict[str, str]] = field(default_factory=dict)
    """Id of the last tool call by which the agent asked the person something -> the questions by their ids."""
    calls: dict[str, tuple[ToolCall, str, str | None]] = field(default_factory=dict)
    """Id of a tool call without a result, or `session N` of a command that still runs -> (what it does, the key of its
    prompt, when it began)."""

    def current(self) -> _Exchange:
        """Return the exchange to which the present line belongs: the last exchange, or a new one if the last is
        closed."""
        if not self.exchanges or self.exchanges[-1].closed:
            self.begin("")
        return self.exchanges[-1]

    def begin(self, turn_id: str) -> _Exchange:
        """Close the last exchange, and return a new one."""
        self.close_last()
        self.counted += 1
        self.exchanges.append(_Exchange(turn_id, self.counted, self.cwd, begun=bool(turn_id)))
        return self.exchanges[-1]

    def prompt_key(self, exchange: _Exchange, text: str) -> str:
        """Return the key of a prompt with this text in an exchange."""
        return key_of("user", exchange.turn_id or f"{self.session}\x1f{exchange.number}", text)

    def last_prompt_key(self, exchange: _Exchange) -> str:
        """Return the key of the last prompt of an exchange; "" if it has none."""
        if exchange.keys:
            return exchange.keys[-1]
        return self.prompt_key(exchange, exchange.items[-1].text) if exchange.items else ""

    def add_prompt(self, exchange: _Exchange, text: str, time: str | None) -> None:
        """Add a prompt to an exchange, and to the turns to be yielded. The answer so far was not to this prompt, and is
        dropped."""
        exchange.answer = None
        key = self.prompt_key(exchange, text)
        exchange.keys.append(key)
        self.found.append(SessionTurn("user", text, time, self.session, key, exchange.cwd))

    def add_item_prompts(self, exchange: _Exchange) -> None:
        """Turn the prompts of an exchange that were read from items into turns, if no event had a prompt."""
        for prompt in exchange.items if not exchange.keys else ():
            self.add_prompt(exchange, prompt.text, prompt.time)
        exchange.items.clear()

    def close_last(self, *, whole: bool = True) -> None:
        """Close the last exchange, unless it is closed. `whole`: whether its answer is complete."""
        if not self.exchanges or self.exchanges[-1].closed:
            return
        exchange = self.exchanges[-1]
        self.add_item_prompts(exchange)
        if exchange.answer is not None and exchange.keys:
            key, last = exchange.keys[-1], exchange.answer
            self.found.append(answer_turn(key, last.text, last.time, self.session, exchange.cwd, closed=whole))
        exchange.closed, exchange.answer = True, None


def read(stream: BinaryIO, reading: Reading) -> Iterator[SessionTurn]:
    """Yield the turns of a rollout."""
    rollout: _Rollout | None = None
    for line in objects(stream, reading):
        if rollout is None:
            rollout = _new_rollout(line, reading)
            if rollout is None:
                return
        payload = line.get("payload")
        if isinstance(payload, dict) and isinstance(line.get("type"), str):
            _read_wrapped(rollout, line["type"], payload, iso_time(line.get("timestamp")))
        elif "record_type" not in line and "type" in line:  # an item of the first versions
            _read_item(rollout, line, iso_time(line.get("timestamp")))
        yield from rollout.found
        rollout.found.clear()
    if rollout is not None:
        rollout.close_last(whole=reading.rested)
        yield from rollout.found
        reading.withdrawn |= rollout.withdrawn


def _new_rollout(line: dict[str, Any], reading: Reading) -> _Rollout | None:
    """Return a new rollout for the session that the first line of a file states; None if the file is that of a
    sub-agent."""
    head = line.get("payload") if line.get("type") == "session_meta" else line if "type" not in line else None
    if not isinstance(head, dict):
        return _Rollout(reading, _session_by_name(reading), reading.cwd)
    source = head.get("source")
    if (isinstance(source, dict) and "subagent" in source) or source == "subagent":
        return None
    if head.get("thread_source") == "subagent" or (head.get("parent_thread_id") and not head.get("forked_from_id")):
        return None
    rollout = _Rollout(reading, text_at(head, "id") or _session_by_name(reading), text_at(head, "cwd") or reading.cwd)
    if head.get("forked_from_id"):
        made = iso_time(head.get("timestamp") or line.get("timestamp"))
        at = _time_in_uuid(rollout.session)
        rollout.forked_at = datetime.fromisoformat(made).timestamp() if made else at or 0.0
    return rollout


def _session_by_name(reading: Reading) -> str:
    """Return the session's id from the name of the file, `rollout-<time>-<id>`; the whole name if it has no id."""
    found = re.search(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$", reading.name)
    return found[0] if found else reading.name


def _time_in_uuid(turn_id: str) -> float | None:
    """Return the time that a UUIDv7 contains, in Unix seconds; None if `turn_id` is no UUIDv7."""
    plain = turn_id.replace("-", "")
    if len(plain) != 32 or plain[12] != "7":
        return None
    try:
        return int(plain[:12], 16) / 1000
    except ValueError:
        return None


def _read_wrapped(rollout: _Rollout, kind: str, payload: dict[str, Any], time: str | None) -> None:
    """Process a line in the format of Codex's later versions. `kind`: the line's `type`; `payload`: its content."""
    turn_id = text_at(payload, "turn_id") or ""
    what = str(payload.get("type", ""))
    if rollout.forked_at is not None:
        at = _time_in_uuid(turn_id) if kind == "turn_context" or what in _BEGUN else None
        if at is None or at < rollout.forked_at - 0.001:
            return
        rollout.forked_at = None
    if kind == "turn_context":
        rollout.cwd = text_at(payload, "cwd") or rollout.cwd
        now = rollout.exchanges[-1] if rollout.exchanges else None
        if turn_id and (now is None or now.turn_id != turn_id):
            now = rollout.begin(turn_id)
        if now is not None:
            now.cwd = rollout.cwd
    elif kind == "event_msg":
        _read_event(rollout, what, payload, time)
    elif kind == "response_item":
        _read_item(rollout, payload, time)
    elif kind == "compacted" and rollout.exchanges:
        rollout.exchanges[-1].answer = None  # it was the summary


def _read_event(rollout: _Rollout, what: str, payload: dict[str, Any], time: str | None) -> None:
    """Process an event in the format of later versions. `what`: its type; `payload`: its content."""
    turn_id = text_at(payload, "turn_id") or ""
    if what in _BEGUN:
        if not rollout.exchanges or rollout.exchanges[-1].turn_id != turn_id or not turn_id:
            rollout.begin(turn_id).begun = True
    elif what in _SPOKEN:
        item = payload.get("item", payload)
        kind = (text_at(item, "type") or "").replace("_", "").lower()
        if kind in {"usermessage", "agentmessage"}:
            text = texts_of(item.get("content"), TEXTS) or text_at(item, "text") or text_at(item, "message")
            if kind == "usermessage":
                _add_prompt(rollout, typed(text or "", NAME), time)
            elif item.get("phase") != "commentary":
                _set_answer(rollout, text, time)
    elif what in _ENDED:
        if rollout.exchanges and not rollout.exchanges[-1].closed:
            _set_answer(rollout, text_at(payload, "last_agent_message"), time)
        rollout.close_last()
    elif what == "turn_aborted":
        if rollout.exchanges:
            rollout.exchanges[-1].answer = None
        rollout.close_last()
    elif what == ROLLED_BACK:
        _roll_back(rollout, payload.get("num_turns"))


def _roll_back(rollout: _Rollout, number: Any) -> None:
    """Take back exchanges from the end, until `number` of them have a prompt of the person."""
    rollout.close_last()
    remaining = number if isinstance(number, int) and not isinstance(number, bool) else 0
    while remaining > 0 and rollout.exchanges:
        keys = rollout.exchanges.pop().keys
        rollout.withdrawn |= dict.fromkeys([*keys, *(key_of("answer", key) for key in keys)], rollout.session)
        remaining -= bool(keys)


def _record_call(rollout: _Rollout, item: dict[str, Any], time: str | None) -> None:
    """Record a tool call, which then waits for its result."""
    number = text_at(item, "call_id") or text_at(item, "id") or ""
    given: Any = item.get("input", item.get("action"))
    if isinstance(item.get("arguments"), str):
        given = decoded(item["arguments"].encode("utf-8", "replace"))
    name = text_at(item, "name") or "local_shell"
    if name == "write_stdin" and isinstance(given, dict):  # it waits for a command that was begun before
        waiting = rollout.calls.pop(f"session {given.get('session_id')}", None)
        if waiting is not None:
            rollout.calls[number] = waiting
        return
    call = call_of(name, given)
    if call is not None:
        rollout.calls[number] = call, rollout.last_prompt_key(rollout.exchanges[-1]) if rollout.exchanges else "", time
        if len(rollout.calls) > CALLS:
            del rollout.calls[next(iter(rollout.calls))]


def _record_result(rollout: _Rollout, item: dict[str, Any]) -> None:
    """Record the deed of a tool call, from its result `item`. A call that the person refused is no deed; a command that
    still runs goes on waiting."""
    number, output = text_at(item, "call_id") or "", item.get("output")
    call, to, time = rollout.calls.pop(number)
    text = output if isinstance(output, str) else texts_of(output, TEXTS) or _joined_strings(output)
    printed = _OUTPUT.search(text)
    head = text[: printed.end()] if printed else text
    if running := _RUNNING.search(head):
        rollout.calls[f"session {running[1]}"] = call, to, time
        return
    status = status_of(head if printed else text)
    if text.startswith("aborted by user") or "rejected by user" in text[:200]:
        return
    if status is None:
        status = 0 if printed or "Success" in text[:200] else FAILED
    took = _TOOK.search(text)
    seconds = float(next(filter(None, took.groups()))) if took else None
    body = text[printed.end() :].replace("\\n", "\n") if printed else text
    at = DeedPlace(to, rollout.session, rollout.cwd, time)
    add_deed(rollout.reading, call, number, at, status=status, text=body, seconds=seconds)


def _read_item(rollout: _Rollout, item: dict[str, Any], time: str | None) -> None:
    """Process an item: a tool call, a tool's result or a message."""
    kind = str(item.get("type", ""))
    if kind in _CALLS:
        _record_call(rollout, item, time)
    elif kind.endswith("_output") and text_at(item, "call_id") in rollout.calls:
        _record_result(rollout, item)
    if kind == "function_call" and item.get("name") == "request_user_input":
        given = decoded(str(item.get("arguments")).encode("utf-8", "replace"))
        asked = given.get("questions") if isinstance(given, dict) else None
        questions = [] if not isinstance(asked, list) else asked
        texts = {text_at(question, "id") or "": text_at(question, "question") or "" for question in questions}
        rollout.questions = {str(item.get("call_id")): texts}
    elif kind == "function_call_output" and str(item.get("call_id")) in rollout.questions:
        text = clean_text(_dialog_text(item.get("output"), rollout.questions.pop(str(item.get("call_id")))))
        if text:
            rollout.add_item_prompts(rollout.current())
            rollout.add_prompt(rollout.current(), text, time)
    elif kind == "message":
        _read_message(rollout, item, time)


def _read_message(rollout: _Rollout, item: dict[str, Any], time: str | None) -> None:
    """Process a message of the person or the agent."""
    role = item.get("role")
    if role == "assistant":
        if item.get("phase") != "commentary":
            _set_answer(rollout, texts_of(item.get("content"), TEXTS), time)
    elif role == "user":
        text = texts_of(_person_content(item), TEXTS)
        if rollout.cwd is None:
            rollout.cwd = between(text, "<cwd>", "</cwd>") or None
        written = typed(text, NAME)
        if written:
            _exchange_for_prompt(rollout).items.append(_Words(written, time))
        elif not text and item.get("content"):
            _exchange_for_prompt(rollout)  # a picture


def _person_content(item: dict[str, Any]) -> Any:
    """Return the content of a `user` message: the parts that the person wrote, if Codex states who wrote each, else all
    parts."""
    content = item.get("content")
    about = item.get("internal_chat_message_metadata_passthrough")
    kinds = about.get("content_item_kinds") if isinstance(about, dict) else None
    if not isinstance(kinds, list) or not isinstance(content, list) or len(kinds) != len(content):
        return content
    return [part for part, kind in zip(content, kinds, strict=True) if str(kind).startswith("user.")]


def _exchange_for_prompt(rollout: _Rollout) -> _Exchange:
    """Return the exchange to which a new prompt belongs. If the rollout does not mark where turns begin, a new
    exchange begins with the first prompt after an answer."""
    now = rollout.current()
    return rollout.begin("") if now.answer is not None and not now.begun else now


def _add_prompt(rollout: _Rollout, text: str, time: str | None) -> None:
    """Process a prompt of the person from an event. Nothing happens if it is empty."""
    if not text:
        return
    now = rollout.current()
    repeated = bool(now.items) and now.items[-1].text == text  # Codex writes one prompt as an item, then as an event
    now = now if repeated else _exchange_for_prompt(rollout)
    now.items.clear()
    rollout.add_prompt(now, text, time)


def _set_answer(rollout: _Rollout, text: str | None, time: str | None) -> None:
    """Process a text of the agent: it is now the answer of the exchange, instead of earlier texts. Nothing happens if
    it is empty."""
    text = clean_text(text or "")
    if text:
        now = rollout.current()
        rollout.add_item_prompts(now)
        if now.answer is None or now.answer.text != text:
            now.answer = _Words(text, time)


def _dialog_text(output: Any, questions: dict[str, str]) -> str:
    """Return what the person answered to questions of the agent. `output`: of the tool call that asked; `questions`: id
    -> question."""
    found = decoded(output.encode("utf-8", "replace")) if isinstance(output, str) else output
    answers = found.get("answers") if isinstance(found, dict) else None
    if not isinstance(answers, dict):
        return _joined_strings(found) or (output if isinstance(output, str) else "")
    texts = {number: _joined_strings(value) for number, value in answers.items()}
    return "\n\n".join(dialog_answer(questions.get(number, ""), text) for number, text in texts.items() if text)


def _joined_strings(value: Any) -> str:
    """Return the strings in a JSON value, a line each."""
    if isinstance(value, str):
        return value
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return "\n".join(filter(None, map(_joined_strings, parts)))
