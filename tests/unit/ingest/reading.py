"""What the tests of readers share: a file's turns, and exports as chat sites write them."""

from __future__ import annotations

import io
import json
from typing import Any

from ormahd.ingest.readers.formats import READERS, format_of
from ormahd.ingest.readers.turns import Reading, SessionTurn
from ormahd.text.harness import enclose

OURS = enclose(["- **[fact]** Invoices are rendered with weasyprint (id: 1a2b3c4d)"], event="e1")


def jsonl(*objects: Any) -> bytes:
    return b"".join(json.dumps(one).encode() + b"\n" for one in objects)


def turns(data: bytes, *, name: str = "", rested: bool = True, reading: Reading | None = None) -> list[SessionTurn]:
    stream = io.BytesIO(data)
    found = format_of(stream)
    assert found is not None, "no reader knows it"
    reading = reading or Reading()
    reading.name, reading.rested = name, rested
    last = {turn.key: turn for turn in READERS[found](stream, reading)}  # an answer comes again when it has grown
    return [turn for key, turn in last.items() if key not in reading.withdrawn]


def texts(data: bytes, **more: Any) -> list[tuple[str, str]]:
    return [(turn.role[0], turn.text) for turn in turns(data, **more)]


def block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def node(
    name: str, parent: str | None, children: list[str], role: str = "", text: str = "", **more: Any
) -> dict[str, Any]:
    message = {"id": name, "author": {"role": role}, "create_time": 1760000001, "content": {"content_type": "text", "parts": [text]},
               "metadata": {}, "recipient": "all", **more}  # fmt: skip
    return {"id": name, "parent": parent, "children": children, "message": message if role else None}


def chat(**more: Any) -> dict[str, Any]:
    return {"title": "Bike", "create_time": 1760000000.1, "conversation_id": "c1", "current_node": "n3", "mapping": {
        "root": node("root", None, ["h"]),
        "h": node("h", "root", ["n1"], "system", "hidden", metadata={"is_visually_hidden_from_conversation": True}),
        "n1": node("n1", "h", ["n2", "n9"], "user", "My bike takes 28-622 tyres."),
        "n9": node("n9", "n1", [], "assistant", "(discarded answer)"),
        "n2": node("n2", "n1", ["t1"], "assistant", content={"content_type": "thoughts", "thoughts": []}),
        "t1": node("t1", "n2", ["t2"], "assistant", "search('tyres')", recipient="web"),
        "t2": node("t2", "t1", ["n3"], "tool", "results"),
        "n3": node("n3", "t2", [], "assistant", "Noted, 28-622.\ue200cite\ue202turn0search1\ue201【3†source】"),
    }, **more}  # fmt: skip


CHAT_TURNS = [("u", "My bike takes 28-622 tyres."), ("a", "Noted, 28-622.")]


def letter(name: str, sender: str, text: str, parent: str | None = None, second: int = 0) -> dict[str, Any]:
    more = {"parent_message_uuid": parent} if parent else {}
    return {"uuid": name, "sender": sender, "text": "", "content": [{"type": "thinking", "thinking": "…"}, None, block(text)],
            "created_at": f"2026-09-01T10:00:{second:02d}Z", "attachments": [], "files": [], **more}  # fmt: skip


def talk(*messages: dict[str, Any], **more: Any) -> bytes:
    return json.dumps(
        [
            {
                "uuid": "k1",
                "name": "Garden",
                "created_at": "2026-09-01T10:00:00Z",
                "account": {},
                "chat_messages": messages,
                **more,
            }
        ]
    ).encode()


GARDEN = [letter("p1", "human", "I prefer metric units."), letter("p2", "assistant", "Metric it is.", "p1", 9)]
GARDEN_TURNS = [("u", "I prefer metric units."), ("a", "Metric it is.")]
