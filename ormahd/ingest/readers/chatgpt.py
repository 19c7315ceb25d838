"""Reads ChatGPT's export: an array of conversations. Each is a tree of messages; `current_node` names the last
message of the branch that ChatGPT shows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, BinaryIO, Final, Literal

from ormahd.ingest.readers.arrays import items
from ormahd.ingest.readers.turns import ExportedFact, Reading, SessionTurn, with_last_answers
from ormahd.ingest.readers.values import branch, clean_text, iso_time, key_of, text_at, texts_of

NAME: Final = "chatgpt"

_TEXT: Final = frozenset({"text", "multimodal_text"})
_CITED = re.compile(r"【[^】\n]{0,200}†[^】\n]{0,200}】|\ue200[^\ue201\n]{0,500}\ue201")
_FENCED = re.compile(r"```(?:\w*\n)?(?P<text>.*?)```", re.DOTALL)
_PRIVATE = re.compile(r"[\ue000-\uf8ff]")


def read(stream: BinaryIO, reading: Reading) -> Iterator[SessionTurn]:
    """Yield the turns of all conversations in an export of ChatGPT, except those conversations that are marked as not
    to be remembered."""
    for talk in items(stream, reading):
        if isinstance(talk.get("mapping"), dict) and talk.get("is_do_not_remember") is not True:
            yield from with_last_answers(_conversation(talk, reading))


def _conversation(talk: dict[str, Any], reading: Reading) -> Iterator[SessionTurn]:
    """Yield the messages of one conversation, as turns, also those without text. Its title and the person's custom
    instructions are added to `reading`."""
    session = text_at(talk, "conversation_id") or text_at(talk, "id")
    session = session or key_of(talk.get("title"), talk.get("create_time"))
    title = clean_text(text_at(talk, "title") or "")
    if title:
        reading.titles[session] = title
    begun = iso_time(talk.get("create_time"))
    _add_instructions(talk["mapping"], reading)
    for node_id, message in _visible_branch(talk):
        role, text = _role_and_text(message)
        if not role:
            continue
        time = iso_time(message.get("create_time")) or begun
        key = key_of(role, session, text_at(message, "id") or node_id)
        yield SessionTurn("user" if role == "user" else "assistant", text, time, session, key)


def _visible_branch(talk: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Return the messages of the branch of a conversation that ChatGPT shows, from root to leaf, as (id of the
    message's node, message)."""
    nodes = {name: node for name, node in talk["mapping"].items() if isinstance(node, dict)}
    leaf = talk.get("current_node")
    if leaf not in nodes:
        made = {name: iso_time((node.get("message") or {}).get("create_time")) or "" for name, node in nodes.items()}
        leaves = [name for name, node in nodes.items() if not node.get("children")]
        leaf = max(leaves, key=made.__getitem__, default=None)
    names = branch({name: node.get("parent") for name, node in nodes.items()}, leaf)
    return [(name, nodes[name]["message"]) for name in names if isinstance(nodes[name].get("message"), dict)]


def _add_instructions(nodes: dict[str, Any], reading: Reading) -> None:
    """Add the person's custom instructions to `reading.facts`. Every conversation repeats the instructions; each text
    is added once."""
    for node in nodes.values():
        content = node.get("message", {}).get("content") if isinstance(node, dict) and node.get("message") else None
        if not isinstance(content, dict) or content.get("content_type") != "user_editable_context":
            continue
        for field, title in (
            ("user_profile", "What you told ChatGPT about yourself"),
            ("user_instructions", "How you asked ChatGPT to answer"),
        ):
            text = clean_text(text_at(content, field) or "")
            fenced = _FENCED.search(text)
            text = (fenced["text"] if fenced else text).strip()
            kind: Literal["fact", "preference"] = "fact" if field == "user_profile" else "preference"
            fact = ExportedFact(title, text, kind, "custom instructions of ChatGPT")
            if text and fact not in reading.facts:
                reading.facts.append(fact)


def _role_and_text(message: dict[str, Any]) -> tuple[str, str]:
    """Return (role, text) of a message between the person and ChatGPT; the role is "" for any other, such as a tool
    call."""
    role = text_at(message, "author", "role") or ""
    about = message.get("metadata")
    about = about if isinstance(about, dict) else {}
    content = message.get("content")
    content = content if isinstance(content, dict) else {}
    visible = (
        role in {"user", "assistant"}
        and not about.get("is_visually_hidden_from_conversation")
        and not about.get("is_user_system_message")
        and message.get("channel") not in {"analysis", "commentary"}
        and message.get("recipient") in (None, "all")
        and content.get("content_type") in _TEXT
    )
    if not visible:
        return "", ""
    return role, clean_text(_PRIVATE.sub("", _CITED.sub("", texts_of(content.get("parts"), ("text",)))))
