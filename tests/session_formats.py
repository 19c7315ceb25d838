"""Transcripts and exports in each format that is read, of any length."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

Said = Sequence[tuple[str, str]]
"""What a person asks, and what the agent answers."""
BEGAN = datetime(2026, 10, 5, 8, 0, tzinfo=UTC)


def _lines(rows: Sequence[Any]) -> bytes:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


def _at(number: int, seconds: int = 0) -> str:
    return (BEGAN + timedelta(minutes=number, seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S.000Z")


def claude_code(said: Said, session: str) -> bytes:
    rows: list[Any] = []
    for number, (question, answer) in enumerate(said):
        about = {"sessionId": session, "cwd": "/home/ada/shop"}
        asked, told = f"{session}-u{number}", f"{session}-a{number}"
        rows.append({"type": "user", "uuid": asked, "parentUuid": rows[-1]["uuid"] if rows else None, "timestamp": _at(number),
                     "message": {"role": "user", "content": question}, **about})  # fmt: skip
        content = [{"type": "text", "text": answer}]
        rows.append({"type": "assistant", "uuid": told, "parentUuid": asked, "timestamp": _at(number, 9), **about,
                     "message": {"id": told, "role": "assistant", "stop_reason": "end_turn", "content": content}})  # fmt: skip
    return _lines(rows)


def codex(said: Said, session: str) -> bytes:
    def row(kind: str, number: int, payload: dict[str, Any], seconds: int = 0) -> dict[str, Any]:
        return {"timestamp": _at(number, seconds), "type": kind, "payload": payload}

    rows = [
        row(
            "session_meta",
            0,
            {
                "id": session,
                "timestamp": _at(0),
                "cwd": "/home/ada/shop",
                "originator": "codex",
                "cli_version": "0.150.0",
            },
        )
    ]
    for number, (question, answer) in enumerate(said):
        turn = str(uuid.UUID(int=number + 1))
        rows += [
            row("event_msg", number, {"type": "task_started", "turn_id": turn}),
            row("event_msg", number, {"type": "user_message", "message": question, "images": []}, 1),
            row("event_msg", number, {"type": "agent_message", "message": answer, "phase": "final_answer"}, 9),
            row("event_msg", number, {"type": "task_complete", "turn_id": turn, "last_agent_message": answer}, 9),
        ]
    return _lines(rows)


def gemini(said: Said, session: str) -> bytes:
    rows: list[Any] = [{"sessionId": session, "projectHash": "shop", "startTime": _at(0)}]
    for number, (question, answer) in enumerate(said):
        rows.append(
            {"id": f"{session}-u{number}", "timestamp": _at(number), "type": "user", "content": [{"text": question}]}
        )
        rows.append(
            {
                "id": f"{session}-a{number}",
                "timestamp": _at(number, 9),
                "type": "gemini",
                "content": answer,
                "model": "g",
            }
        )
    return _lines(rows)


def chatgpt(said: Said, session: str) -> bytes:
    mapping: dict[str, Any] = {"root": {"id": "root", "parent": None, "children": [], "message": None}}
    last = "root"
    for number, pair in enumerate(said):
        for role, text in zip(("user", "assistant"), pair, strict=True):
            name = f"{session}-{role}{number}"
            mapping[last]["children"].append(name)
            message = {"id": name, "author": {"role": role}, "create_time": BEGAN.timestamp() + 60 * number, "metadata": {},
                       "recipient": "all", "content": {"content_type": "text", "parts": [text]}}  # fmt: skip
            mapping[name] = {"id": name, "parent": last, "children": [], "message": message}
            last = name
    return json.dumps([{"title": "Shop", "create_time": BEGAN.timestamp(), "conversation_id": session, "current_node": last,
                        "mapping": mapping}]).encode()  # fmt: skip


def claude_ai(said: Said, session: str) -> bytes:
    messages: list[Any] = []
    for number, pair in enumerate(said):
        for sender, text in zip(("human", "assistant"), pair, strict=True):
            before = {"parent_message_uuid": messages[-1]["uuid"]} if messages else {}
            messages.append({"uuid": f"{session}-{sender}{number}", "sender": sender, "text": text, "attachments": [], "files": [],
                             "content": [{"type": "text", "text": text}], "created_at": _at(number), **before})  # fmt: skip
    return json.dumps(
        [{"uuid": session, "name": "Shop", "created_at": _at(0), "account": {}, "chat_messages": messages}]
    ).encode()


def text(said: Said, _: str) -> bytes:
    return "".join(f"User: {question}\nAssistant: {answer}\n" for question, answer in said).encode()


FORMATS: Final[dict[str, tuple[str, Callable[[Said, str], bytes]]]] = {
    "claude-code": (".jsonl", claude_code), "codex": (".jsonl", codex), "gemini": (".jsonl", gemini),
    "chatgpt": (".json", chatgpt), "claude-ai": (".json", claude_ai), "text": (".txt", text),
}  # fmt: skip
"""{harness: (a file's ending, what writes the file of a session)}."""
