"""Reads Claude.ai's export: an array of conversations, each with a list of messages that may form a tree."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO, Final

from ormahd.ingest.readers.arrays import items
from ormahd.ingest.readers.turns import (
    Reading,
    SessionTurn,
    iso_time,
    key_of,
    said,
    text_at,
    texts_of,
    with_last_answers,
)

NAME: Final = "claude-ai"


def read(stream: BinaryIO, reading: Reading) -> Iterator[SessionTurn]:
    """Yield the turns of all conversations in an export of claude.ai."""
    for talk in items(stream, reading):
        if isinstance(talk.get("chat_messages"), list):
            yield from with_last_answers(_conversation(talk, reading))


def _conversation(talk: dict[str, Any], reading: Reading) -> Iterator[SessionTurn]:
    session = text_at(talk, "uuid") or key_of(talk.get("name"), talk.get("created_at"))
    title = said(text_at(talk, "name") or "")
    if title:
        reading.titles[session] = title
    begun = iso_time(talk.get("created_at"))
    for place, message in enumerate(_shown(talk)):
        sender = message.get("sender")
        text = _text(message)
        if sender not in {"human", "assistant"} or not text:
            continue
        time = iso_time(message.get("created_at")) or begun
        key = key_of(sender, session, text_at(message, "uuid") or place)
        yield SessionTurn("user" if sender == "human" else "assistant", text, time, session, key)


def _shown(talk: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the messages of a conversation in order. If they form trees, return one branch of each tree: the branch
    that ends in the conversation's current leaf, or else the one with the newest message."""
    messages = [one for one in talk["chat_messages"] if isinstance(one, dict)]
    by_id = {one["uuid"]: one for one in messages if isinstance(one.get("uuid"), str)}
    if not any(one.get("parent_message_uuid") in by_id for one in messages):
        return messages
    leaf = talk.get("current_leaf_message_uuid")
    live = _upwards(by_id, leaf)
    newest = _newest(by_id)
    children: dict[str | None, list[dict[str, Any]]] = {}
    for one in messages:
        parent = one.get("parent_message_uuid")
        children.setdefault(parent if parent in by_id else None, []).append(one)
    found: list[dict[str, Any]] = []
    seen: set[str] = set()
    for root in children.get(None, []):
        at: dict[str, Any] | None = root
        while at is not None and at.get("uuid") not in seen:
            found.append(at)
            seen.add(str(at.get("uuid")))
            below = children.get(at.get("uuid"), [])
            on_way = [one for one in below if one["uuid"] in live]
            at = (on_way or sorted(below, key=lambda one: newest.get(one["uuid"], "")))[-1] if below else None
    return found


def _upwards(by_id: dict[str, dict[str, Any]], leaf: Any) -> set[str]:
    found: set[str] = set()
    while isinstance(leaf, str) and leaf in by_id and leaf not in found:
        found.add(leaf)
        leaf = by_id[leaf].get("parent_message_uuid")
    return found


def _newest(by_id: dict[str, dict[str, Any]]) -> dict[str, str]:
    """Return id of a message -> time of the newest message in the tree below it, itself included."""
    found: dict[str, str] = {}
    for name, one in by_id.items():
        time = iso_time(one.get("created_at")) or ""
        for above in _upwards(by_id, name):
            found[above] = max(found.get(above, ""), time)
    return found


def _text(message: dict[str, Any]) -> str:
    """Return the text of a message: the text of its text blocks, or if it has no such block, its field `text`."""
    content = message.get("content")
    text = texts_of(content if isinstance(content, list) else [], ("text",))
    return said(text or text_at(message, "text") or "")
