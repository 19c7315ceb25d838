"""Reads the transcripts of Codex CLI, which it calls rollouts: `~/.codex/sessions/**/rollout-*.jsonl`, of all its
versions.

In the first versions each line is a bare item; later ones wrap each line as `{timestamp, type, payload}`. What a
person typed is in `user_message` events (or completed `UserMessage` items). If a turn of Codex has none, it is in
`user` messages, from which the text added by Codex is removed. `task_complete` ends a turn of Codex. The file of a
fork begins with a copy of its parent's history; that of a sub-agent has nothing that a person wrote.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any, BinaryIO, Final

from msgspec import Struct, field

from ormahd.ingest.readers.lines import decoded, objects
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

NAME: Final = "codex"

TEXTS: Final = ("input_text", "output_text", "text", "Text")
ROLLED_BACK: Final = "thread_rolled_back"
"""The event by which the person takes back the last turns."""
_ENDED: Final = frozenset({"task_complete", "turn_complete"})
_BEGUN: Final = frozenset({"task_started", "turn_started"})


class _Asked(Struct):
    text: str
    time: str | None


class _Exchange(Struct):
    """What Codex calls a turn: prompts and the answer to them. `typed`: the prompts from lines that are events;
    `heard`: the prompts from lines that are items, used only if `typed` is empty. `turn_id`: "" if the rollout states
    none; `number`: counted from 1."""

    turn_id: str
    number: int
    cwd: str | None = None
    typed: list[_Asked] = field(default_factory=list)
    heard: list[_Asked] = field(default_factory=list)
    chosen: list[_Asked] = field(default_factory=list)
    """The person's answers to questions of the agent."""
    answer: _Asked | None = None
    begun: bool = False
    closed: bool = False
    aborted: bool = False


class _Rollout(Struct):
    session: str
    cwd: str | None
    forked_at: float | None = None
    """When the fork was made, in Unix seconds, while the copy of its parent's history is being read; else None."""
    exchanges: list[_Exchange] = field(default_factory=list)
    counted: int = 0
    back: list[_Exchange] = field(default_factory=list)
    """Exchanges that the person took back."""
    questions: set[str] = field(default_factory=set)
    """Ids of the tool calls by which the agent asked the person something."""

    def now(self) -> _Exchange:
        """Return the exchange to which the line that is being read belongs: the last exchange, or a new one if the
        last is closed."""
        if not self.exchanges or self.exchanges[-1].closed:
            self.begin("")
        return self.exchanges[-1]

    def begin(self, turn_id: str) -> _Exchange:
        if self.exchanges:
            self.exchanges[-1].closed = True
        self.counted += 1
        self.exchanges.append(_Exchange(turn_id, self.counted, self.cwd, begun=bool(turn_id)))
        return self.exchanges[-1]


def read(stream: BinaryIO, reading: Reading) -> Iterator[SessionTurn]:
    """Yield the turns of a rollout."""
    rollout: _Rollout | None = None
    for line in objects(stream, reading):
        if rollout is None:
            rollout = _opened(line, reading)
            if rollout is None:
                return
        payload = line.get("payload")
        if isinstance(payload, dict) and isinstance(line.get("type"), str):
            _wrapped(rollout, line["type"], payload, iso_time(line.get("timestamp")))
        elif "record_type" not in line and "type" in line:  # an item of the first versions
            _item(rollout, line, iso_time(line.get("timestamp")))
    if rollout is None:
        return
    if rollout.exchanges and reading.rested:
        rollout.exchanges[-1].closed = True
    turns = [turn for one in rollout.exchanges for turn in _turns(rollout.session, one)]
    gone = {turn.key for one in rollout.back for turn in _turns(rollout.session, one)}
    reading.withdrawn |= dict.fromkeys(gone - {turn.key for turn in turns}, rollout.session)
    yield from turns


def _opened(line: dict[str, Any], reading: Reading) -> _Rollout | None:
    """Return a new rollout for the session that the first line of a file states; None if the file is that of a
    sub-agent."""
    head = line.get("payload") if line.get("type") == "session_meta" else line if "type" not in line else None
    if not isinstance(head, dict):
        return _Rollout(_by_name(reading), reading.cwd)
    source = head.get("source")
    if (isinstance(source, dict) and "subagent" in source) or source == "subagent":
        return None
    if head.get("thread_source") == "subagent" or (head.get("parent_thread_id") and not head.get("forked_from_id")):
        return None
    rollout = _Rollout(text_at(head, "id") or _by_name(reading), text_at(head, "cwd") or reading.cwd)
    if head.get("forked_from_id"):
        made = iso_time(head.get("timestamp") or line.get("timestamp"))
        at = _seconds(rollout.session)
        rollout.forked_at = datetime.fromisoformat(made).timestamp() if made else at or 0.0
    return rollout


def _by_name(reading: Reading) -> str:
    """Return the session's id from the name of the file, which is `rollout-<time>-<id>`."""
    found = re.search(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$", reading.name)
    return found[0] if found else reading.name


def _seconds(turn_id: str) -> float | None:
    """Return the time that a UUIDv7 contains, in Unix seconds; None if `turn_id` is no UUIDv7."""
    plain = turn_id.replace("-", "")
    if len(plain) != 32 or plain[12] != "7":
        return None
    try:
        return int(plain[:12], 16) / 1000
    except ValueError:
        return None


def _wrapped(rollout: _Rollout, kind: str, payload: dict[str, Any], time: str | None) -> None:
    """Process a line in the format of Codex's later versions. `kind`: the line's `type`; `payload`: its content."""
    turn_id = text_at(payload, "turn_id") or ""
    what = str(payload.get("type", ""))
    if rollout.forked_at is not None:
        at = _seconds(turn_id) if kind == "turn_context" or what in _BEGUN else None
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
        _event(rollout, what, payload, time)
    elif kind == "response_item":
        _item(rollout, payload, time)


def _event(rollout: _Rollout, what: str, payload: dict[str, Any], time: str | None) -> None:
    turn_id = text_at(payload, "turn_id") or ""
    if what in _BEGUN:
        if not rollout.exchanges or rollout.exchanges[-1].turn_id != turn_id or not turn_id:
            rollout.begin(turn_id).begun = True
    elif what == "user_message":
        _ask(rollout, _written(text_at(payload, "message") or ""), time)
    elif what == "agent_message":
        if payload.get("phase") != "commentary":
            _reply(rollout, text_at(payload, "message"), time)
    elif what == "item_completed":
        item = payload.get("item")
        if isinstance(item, dict):
            _completed(rollout, item, time)
    elif what in _ENDED:
        if rollout.exchanges and not rollout.exchanges[-1].closed:
            _reply(rollout, text_at(payload, "last_agent_message"), time)
            rollout.exchanges[-1].closed = True
    elif what == "turn_aborted":
        if rollout.exchanges and not rollout.exchanges[-1].closed:
            rollout.exchanges[-1].closed = rollout.exchanges[-1].aborted = True
    elif what == ROLLED_BACK:
        _roll_back(rollout, payload.get("num_turns"))


def _roll_back(rollout: _Rollout, number: Any) -> None:
    """Move exchanges from the end of `rollout.exchanges` to `rollout.back`, until `number` of the moved ones have a
    prompt of the person."""
    left = number if isinstance(number, int) and not isinstance(number, bool) else 0
    while left > 0 and rollout.exchanges:
        gone = rollout.exchanges.pop()
        rollout.back.append(gone)
        left -= bool(gone.typed or gone.heard)


def _completed(rollout: _Rollout, item: dict[str, Any], time: str | None) -> None:
    kind = item.get("type")
    text = texts_of(item.get("content"), TEXTS) or text_at(item, "text") or text_at(item, "message") or ""
    if kind in {"UserMessage", "userMessage", "user_message"}:
        _ask(rollout, _written(text), time)
    elif kind in {"AgentMessage", "agentMessage", "agent_message"} and item.get("phase") != "commentary":
        _reply(rollout, text, time)


def _item(rollout: _Rollout, item: dict[str, Any], time: str | None) -> None:
    kind = str(item.get("type", ""))
    if kind == "function_call" and item.get("name") == "request_user_input":
        rollout.questions.add(str(item.get("call_id")))
    elif kind == "function_call_output" and str(item.get("call_id")) in rollout.questions:
        text = said(_chosen(item.get("output")))
        if text:
            rollout.now().chosen.append(_Asked(text, time))
    elif kind == "message":
        _message(rollout, item, time)


def _message(rollout: _Rollout, item: dict[str, Any], time: str | None) -> None:
    role = item.get("role")
    if role == "assistant":
        if item.get("phase") != "commentary":
            _reply(rollout, texts_of(item.get("content"), TEXTS), time)
    elif role == "user":
        text = texts_of(_human(item), TEXTS)
        if rollout.cwd is None:
            rollout.cwd = between(text, "<cwd>", "</cwd>") or None
        text = _written(text)
        if text:
            _open_for(rollout).heard.append(_Asked(text, time))


def _human(item: dict[str, Any]) -> Any:
    """Return the parts of a `user` message that the person wrote, if Codex states who wrote each; else all."""
    content = item.get("content")
    about = item.get("internal_chat_message_metadata_passthrough")
    kinds = about.get("content_item_kinds") if isinstance(about, dict) else None
    if not isinstance(kinds, list) or not isinstance(content, list) or len(kinds) != len(content):
        return content
    return [part for part, kind in zip(content, kinds, strict=True) if str(kind).startswith("user.")]


def _written(text: str) -> str:
    return typed(text, NAME) if text.strip() else ""


def _open_for(rollout: _Rollout) -> _Exchange:
    """Return the exchange to which a new prompt belongs. If the rollout does not mark where turns begin, a new
    exchange begins with the first prompt after an answer."""
    now = rollout.now()
    return rollout.begin("") if now.answer is not None and not now.begun else now


def _ask(rollout: _Rollout, text: str, time: str | None) -> None:
    if not text:
        return
    now = rollout.now()
    repeated = bool(now.heard) and now.heard[-1].text == text  # Codex writes one prompt as an item, then as an event
    (now if repeated else _open_for(rollout)).typed.append(_Asked(text, time))


def _reply(rollout: _Rollout, text: str | None, time: str | None) -> None:
    text = said(text or "")
    if text:
        now = rollout.now()
        if now.answer is None or now.answer.text != text:
            now.answer = _Asked(text, time)


def _chosen(output: Any) -> str:
    """Return the text of a person's answer to a question of the agent, from the output of that tool call."""
    if isinstance(output, str):
        value = decoded(output.encode("utf-8", "replace"))
        return _chosen(value) if isinstance(value, dict | list) else output
    if isinstance(output, dict):
        return "\n".join(filter(None, (_chosen(part) for part in output.values())))
    if isinstance(output, list):
        return "\n".join(filter(None, (_chosen(part) for part in output)))
    return ""


def _turns(session: str, one: _Exchange) -> Iterator[SessionTurn]:
    place = one.turn_id or f"{session}\x1f{one.number}"
    for asked in [*(one.typed or one.heard), *one.chosen]:
        yield SessionTurn("user", asked.text, asked.time, session, key_of("user", place, asked.text), one.cwd)
    if one.answer is not None and not one.aborted:
        key = key_of("assistant", place, one.answer.text)
        yield SessionTurn("assistant", one.answer.text, one.answer.time, session, key, one.cwd, one.closed)
