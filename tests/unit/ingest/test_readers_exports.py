"""Exports of chat sites and plain texts give the turns of the person and the final answers, and nothing else."""

from __future__ import annotations

import io
import json

from ormahd.ingest.readers.formats import format_of
from ormahd.ingest.readers.turns import Reading
from tests.unit.ingest.reading import CHAT_TURNS, GARDEN, GARDEN_TURNS, chat, letter, node, talk, texts, turns


def test_chatgpt() -> None:
    reading = Reading()
    found = turns(json.dumps([chat(), chat(is_do_not_remember=True, conversation_id="c2")]).encode(), reading=reading)
    assert [(turn.role[0], turn.text) for turn in found] == CHAT_TURNS
    assert {(turn.session, turn.time) for turn in found} == {("c1", "2025-10-09T08:53:21.000Z")}
    assert reading.titles == {"c1": "Bike"}


def test_custom_instructions_of_chatgpt_are_facts_and_no_turns() -> None:
    about = "The user provided the following information about themselves:\n```\nI live in Graz.\n```"
    told = {"content_type": "user_editable_context", "user_profile": about, "user_instructions": "Answer briefly."}
    talks = [chat(conversation_id=name) for name in ("c1", "c2")]
    for one in talks:
        one["mapping"]["i"] = node("i", "root", [], "user", content=told)
    hidden = chat(is_do_not_remember=True)
    hidden["mapping"]["i"] = node("i", "root", [], "user", content=told | {"user_profile": "I am somebody else."})
    reading = Reading()
    turns(json.dumps([*talks, hidden]).encode(), reading=reading)
    assert [(one.type, one.text) for one in reading.facts] == [
        ("fact", "I live in Graz."), ("preference", "Answer briefly."),
    ]  # fmt: skip


def test_memories_of_claude_ai_are_facts_and_no_turns() -> None:
    account = {
        "account_uuid": "a1",
        "conversations_memory": "**Work**\n\nAda builds ferries in Graz.\nShe has done so since 2019.\n\n## Tools\n- Prefers metric units.\n- Uses a paper notebook.\n\nOk.",
        "project_memories": {"p1": "The garden has clay soil.", "p2": None},
        "memory_files": [{"path": "/memories/dogs.md", "content": "The dog is called Bjarne."}, 7],
    }
    for data in (account, [account, account]):
        reading = Reading()
        stream = io.BytesIO(json.dumps(data).encode())
        assert format_of(stream) == "claude-ai-memories"
        assert turns(stream.getvalue(), reading=reading) == []
        assert [(one.title, one.text) for one in reading.facts] == [
            ("Work", "Ada builds ferries in Graz. She has done so since 2019."),
            ("Tools", "Prefers metric units."), ("Tools", "Uses a paper notebook."),
            ("Claude remembered of a project", "The garden has clay soil."), ("dogs.md", "The dog is called Bjarne."),
        ]  # fmt: skip


def test_chatgpt_without_a_current_node_or_with_a_cycle() -> None:
    without = chat(current_node=None)
    without["mapping"]["n3"]["message"]["create_time"] = 1760000009
    assert texts(json.dumps([without]).encode()) == CHAT_TURNS
    cycle = chat()
    cycle["mapping"]["root"]["parent"] = "n3"
    assert texts(json.dumps([cycle]).encode()) == CHAT_TURNS


def test_chatgpt_export_that_breaks_off_keeps_what_is_whole() -> None:
    reading = Reading()
    data = json.dumps([chat(), chat(conversation_id="c2")]).encode()
    assert texts(data[:-40], reading=reading) == CHAT_TURNS
    assert reading.damaged == 1


def test_claude_ai() -> None:
    reading = Reading()
    assert texts(talk(*GARDEN), reading=reading) == GARDEN_TURNS
    assert reading.titles == {"k1": "Garden"}
    flat = {"uuid": "p3", "sender": "human", "text": "and in plain text", "content": None}
    assert texts(talk(*GARDEN, {**flat, "parent_message_uuid": "p2"})) == [*GARDEN_TURNS, ("u", "and in plain text")]


def test_claude_ai_follows_the_leaf_or_the_newest() -> None:
    other = letter("p9", "assistant", "Imperial, then.", "p1", 5)
    assert texts(talk(*GARDEN, other)) == GARDEN_TURNS
    assert texts(talk(*GARDEN, other, current_leaf_message_uuid="p9")) == [GARDEN_TURNS[0], ("a", "Imperial, then.")]
    root = letter("q1", "human", "A second root.", None, 20)
    assert texts(talk(*GARDEN, root)) == [*GARDEN_TURNS, ("u", "A second root.")]


def test_plain_text() -> None:
    text = "notes\n\nUser: use cents\neverywhere\n\nAssistant: done.\n```\nUser: in code\n```\n**Human:** thanks\nAI: welcome"
    found = turns(text.encode(), name="talk")
    assert [(turn.role[0], turn.text) for turn in found] == [
        ("u", "use cents\neverywhere"), ("a", "done.\n```\nUser: in code\n```"), ("u", "thanks"), ("a", "welcome"),
    ]  # fmt: skip
    begun_in_code = "User: ```sh\nUser: in code\n```\nAssistant: It lists.\nUser: thanks"
    assert [turn.text for turn in turns(begun_in_code.encode())] == ["```sh\nUser: in code\n```", "It lists.", "thanks"]
    longer = turns((text + "\nUser: and one more").encode(), name="renamed")
    assert [turn.key for turn in longer[:4]] == [turn.key for turn in found]
    long = f"{text} {'and so on ' * 10}"
    grown = turns(f"{long}\nUser: and one more".encode(), name="renamed")
    assert {turn.session for turn in grown} == {turn.session for turn in turns(long.encode())}


def test_plain_texts_that_begin_with_the_same_greeting_are_sessions_of_their_own() -> None:
    one, other = (turns(f"User: hello\nAssistant: Hi!\nUser: {said}".encode()) for said in ("To Berlin.", "Add basil."))
    assert len({turn.session for turn in one}) == len({turn.session for turn in other}) == 1
    assert one[0].session != other[0].session
    assert [turn.key for turn in one[:2]] == [turn.key for turn in other[:2]]
