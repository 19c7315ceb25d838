"""Reads Claude.ai's export: an array of conversations, each with a list of messages that may form a tree; and its
memories, which are facts about the person."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, BinaryIO, Final

from ormahd.ingest.readers.arrays import items
from ormahd.ingest.readers.turns import ExportedFact, Reading, SessionTurn, with_last_answers
from ormahd.ingest.readers.values import branch, clean_text, iso_time, key_of, text_at, texts_of

NAME: Final = "claude-ai"
MEMORIES: Final = "claude-ai-memories"
MEMORY_KEYS: Final = frozenset({"conversations_memory", "project_memories", "memory_files"})
ORIGIN: Final = "memories of Claude.ai"
LEAST: Final = 15
"""Minimum number of characters of a paragraph. Shorter ones are left out, because they say nothing."""

_HEADING = re.compile(r"(?:#{1,6}[ \t]+|\*\*)(?P<title>[^\n*]{1,100}?)(?:\*\*)?:?[ \t]*(?:\n|$)")
_BULLET = re.compile(r"^[ \t]*[-*•]\s+", re.MULTILINE)


def read(stream: BinaryIO, reading: Reading) -> Iterator[SessionTurn]:
    """Yield the turns of all conversations in an export of claude.ai."""
    for talk in items(stream, reading):
        if isinstance(talk.get("chat_messages"), list):
            yield from with_last_answers(_conversation(talk, reading))


def _conversation(talk: dict[str, Any], reading: Reading) -> Iterator[SessionTurn]:
    """Yield the messages of one conversation, as turns, also those without text. Its title is added to `reading`."""
    session = text_at(talk, "uuid") or key_of(talk.get("name"), talk.get("created_at"))
    title = clean_text(text_at(talk, "name") or "")
    if title:
        reading.titles[session] = title
    begun = iso_time(talk.get("created_at"))
    for place, message in enumerate(_visible_messages(talk)):
        sender = message.get("sender")
        content = message.get("content")
        blocks = texts_of(content if isinstance(content, list) else [], ("text",))
        text = clean_text(blocks or text_at(message, "text") or "")
        if sender not in {"human", "assistant"}:
            continue
        time = iso_time(message.get("created_at")) or begun
        key = key_of(sender, session, text_at(message, "uuid") or place)
        yield SessionTurn("user" if sender == "human" else "assistant", text, time, session, key)


def _visible_messages(talk: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the messages of a conversation in order. If they form trees, return one branch of each tree: the branch
    that ends in the conversation's current leaf, or else the one with the newest message."""
    messages = [message for message in talk["chat_messages"] if isinstance(message, dict)]
    by_id = {message["uuid"]: message for message in messages if isinstance(message.get("uuid"), str)}
    parents = {name: message.get("parent_message_uuid") for name, message in by_id.items()}
    if by_id.keys().isdisjoint(filter(None, parents.values())):
        return messages
    roots: dict[str, str] = {}
    for name, parent in parents.items():
        roots[name] = roots.get(str(parent), name)
    leaf = talk.get("current_leaf_message_uuid")
    # Oldest first, the current leaf last: so the last message of each tree is the leaf to show.
    newest = sorted(by_id, key=lambda name: (name == leaf, iso_time(by_id[name].get("created_at")) or "9"))
    leaves = {roots[name]: name for name in newest}
    return [by_id[name] for root in dict.fromkeys(roots.values()) for name in branch(parents, leaves[root])]


def read_memories(stream: BinaryIO, reading: Reading) -> Iterator[SessionTurn]:
    """Add each paragraph of the memories in an export of claude.ai to `reading.facts`. Yields no turns."""
    yield from ()
    for account in items(stream, reading):
        _add_facts(text_at(account, "conversations_memory") or "", "Claude remembered", reading)
        projects = account.get("project_memories")
        for text in projects.values() if isinstance(projects, dict) else ():
            _add_facts(text if isinstance(text, str) else "", "Claude remembered of a project", reading)
        files = account.get("memory_files")
        for file in files if isinstance(files, list) else ():
            name = (text_at(file, "path") or "memory").rsplit("/", 1)[-1]
            _add_facts(text_at(file, "content") or "", name, reading)


def _add_facts(text: str, title: str, reading: Reading) -> None:
    """Add each paragraph of a text, or each item of a list in the text, to `reading.facts`. The fact's title is the
    heading above the paragraph, or `title` if there is none."""
    heading = title
    for paragraph in re.split(r"\n\s*\n", clean_text(text)):
        lines = paragraph.strip()
        found = _HEADING.match(lines)
        if found:
            heading, lines = found["title"].strip(), lines[found.end() :].strip()
        for part in _BULLET.split(lines) if _BULLET.match(lines) else [lines]:
            statement = " ".join(part.split())
            fact = ExportedFact(heading, statement, "fact", ORIGIN)
            if len(statement) >= LEAST and fact not in reading.facts:
                reading.facts.append(fact)
