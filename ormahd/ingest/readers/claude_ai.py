"""Reads Claude.ai's export: an array of conversations, each with a list of messages that may form a tree."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO, Final

from ormahd.ingest.readers.arrays import items
from ormahd.ingest.readers.turns import Reading, SessionTurn, with_last_answers
from ormahd.ingest.readers.values import branch, clean_text, iso_time, key_of, text_at, texts_of

NAME: Final = "claude-ai"


def read(stream: BinaryIO, reading: Reading) -> Iterator[SessionTurn]:
    """Yield the turns of all conversations in an export of claude.ai."""
    for talk in items(stream, reading):
        if isinstance(talk.get("chat_messages"), list):
            yield from with_last_answers(_conversation(talk, reading))


def _conversation(talk: dict[str, Any], reading: Reading) -> Iterator[SessionTurn]:
    session = text_at(talk, "uuid") or key_of(talk.get("name"), talk.get("created_at"))
    title = clean_text(text_at(talk, "name") or "")
    if title:
        reading.titles[session] = title
    begun = iso_time(talk.get("created_at"))
    for place, message in enumerate(_shown(talk)):
        sender = message.get("sender")
        content = message.get("content")
        blocks = texts_of(content if isinstance(content, list) else [], ("text",))
        text = clean_text(blocks or text_at(message, "text") or "")
        if sender not in {"human", "assistant"}:
            continue
        time = iso_time(message.get("created_at")) or begun
        key = key_of(sender, session, text_at(message, "uuid") or place)
        yield SessionTurn("user" if sender == "human" else "assistant", text, time, session, key)


def _shown(talk: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the messages of a conversation in order. If they form trees, return one branch of each tree: the branch
    that ends in the conversation's current leaf, or else the one with the newest message."""
    messages = [one for one in talk["chat_messages"] if isinstance(one, dict)]
    by_id = {one["uuid"]: one for one in messages if isinstance(one.get("uuid"), str)}
    parents = {name: one.get("parent_message_uuid") for name, one in by_id.items()}
    if by_id.keys().isdisjoint(filter(None, parents.values())):
        return messages
    roots: dict[str, str] = {}
    for name, parent in parents.items():
        roots[name] = roots.get(str(parent), name)
    leaf = talk.get("current_leaf_message_uuid")
    newest = sorted(by_id, key=lambda name: (name == leaf, iso_time(by_id[name].get("created_at")) or "9"))
    leaves = {roots[name]: name for name in newest}
    return [by_id[name] for root in dict.fromkeys(roots.values()) for name in branch(parents, leaves[root])]
