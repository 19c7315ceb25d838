"""Transcripts and exports of every format give the turns of the person and the final answers, and nothing else."""

from __future__ import annotations

import io
import json
import uuid
from typing import Any

import pytest

from ormahd.ingest.readers import lines
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
    return list(READERS[found](stream, reading))


def texts(data: bytes, **more: Any) -> list[tuple[str, str]]:
    return [(turn.role[0], turn.text) for turn in turns(data, **more)]


# ------------------------------------------------------------ Claude Code


def claude(kind: str, uuid: str, parent: str | None, content: Any = None, **more: Any) -> dict[str, Any]:
    at = f"2026-11-02T09:00:{len(uuid) + sum(map(ord, uuid)) % 50:02d}.000Z"
    line = {"type": kind, "uuid": uuid, "parentUuid": parent, "sessionId": "s1", "timestamp": at, "cwd": "/home/dev/shop",
            "version": "2.1.293", "isSidechain": False, **more}  # fmt: skip
    if content is not None:
        line["message"] = {"role": kind, "content": content, **more.pop("message", {})}
    return line


def answer(uuid: str, parent: str, number: str, *blocks: dict[str, Any], stop: str | None = None) -> dict[str, Any]:
    line = claude("assistant", uuid, parent, list(blocks))
    line["message"] |= {"id": number, "stop_reason": stop}
    return line


def block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


CLAUDE = [
    {"type": "file-history-snapshot", "messageId": "m", "snapshot": {}},
    claude("user", "u1", None, "We ship invoices as PDF/A from now on, remember that.", turnOrigin="human"),
    claude("attachment", "a1", "u1", attachment={"type": "hook_additional_context", "content": [OURS]}),
    answer("b1", "a1", "msg_1", {"type": "thinking", "thinking": "hm", "signature": "x"}),
    answer("b1t", "b1", "msg_1", block("Let me look.")),
    answer("b2", "b1t", "msg_1", {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {}}, stop="tool_use"),
    claude("user", "t1", "b2", [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "a b"}], toolUseResult={"stdout": "a"}),
    answer("b3", "t1", "msg_2", block("Noted: PDF/A for invoices."), stop="end_turn"),
    claude("user", "c1", "b3", "<command-name>/compact</command-name><command-args></command-args>"),
    claude("system", "c2", None, subtype="compact_boundary", logicalParentUuid="b3"),
    claude("user", "c3", "c2", "This session is being continued from a previous conversation …", isCompactSummary=True),
    claude("attachment", "q1", "c3", attachment={"type": "queued_command", "commandMode": "prompt", "prompt": "also keep the old template",
                                                 "origin": {"kind": "human"}}),
    {"type": "ai-title", "sessionId": "s1", "aiTitle": "Invoices as PDF/A"},
]  # fmt: skip
CLAUDE_TURNS = [
    ("u", "We ship invoices as PDF/A from now on, remember that."),
    ("a", "Noted: PDF/A for invoices."),
    ("u", "also keep the old template"),
]


def test_claude_code() -> None:
    reading = Reading()
    found = turns(jsonl(*CLAUDE), reading=reading)
    assert [(turn.role[0], turn.text) for turn in found] == CLAUDE_TURNS
    assert {turn.session for turn in found} == {"s1"}
    assert {turn.cwd for turn in found} == {"/home/dev/shop"}
    assert found[0].time is not None
    assert found[0].time.startswith("2026-11-02T09:00:")
    assert reading.titles == {"s1": "Invoices as PDF/A"}
    assert not reading.unknown


NOT_A_PERSON: list[dict[str, Any]] = [
    claude("user", "x", "b3", "a skill's body", isMeta=True),
    claude("user", "x", "b3", "from a sub-agent", isSidechain=True),
    claude("user", "x", "b3", "seen only", isVisibleInTranscriptOnly=True),
    claude("user", "x", "b3", "cut off", interruptedMessageId="m"),
    claude("user", "x", "b3", "a task ended", turnOrigin="task_notification"),
    claude("user", "x", "b3", "a program asks", turnOrigin="sdk"),
    claude("user", "x", "b3", "a program asks", origin={"kind": "cron"}),
    claude("user", "x", "b3", "a program asks", entrypoint="sdk-cli"),
    claude("user", "x", "b3", [{"type": "tool_result", "content": "out"}, block("with a text")]),
    *(
        claude("user", "x", "b3", text)
        for text in (
            "<command-name>/clear</command-name>\n<command-message>clear</command-message>\n<command-args> </command-args>",
            "<local-command-stdout>done</local-command-stdout>",
            "<local-command-stderr>no</local-command-stderr>",
            "<local-command-caveat>Caveat: x</local-command-caveat>",
            "<bash-input>ls</bash-input>",
            "<bash-stdout>a</bash-stdout><bash-stderr></bash-stderr>",
            "<task-notification><task-id>1</task-id></task-notification>",
            "<user-prompt-submit-hook>x</user-prompt-submit-hook>",
            "Caveat: The messages below were generated by the user while running local commands.",
            "[Request interrupted by user for tool use]",
            "<system-reminder>only a reminder</system-reminder>",
            OURS,
            "  ",
        )
    ),
    claude("attachment", "x", "b3", attachment={"type": "queued_command", "commandMode": "task-notification", "prompt": "done"}),
    claude("attachment", "x", "b3", attachment={"type": "queued_command", "commandMode": "prompt", "prompt": "p", "humanTurn": False}),
    claude("attachment", "x", "b3", attachment={"type": "hook_success", "stdout": "out"}),
    claude("assistant", "x", "b3", [block("API Error: 529")], isApiErrorMessage=True),
    {"type": "user", "message": None},
    {"type": "user", "message": {"content": 7}},
    {"type": "user"},
    {"type": "assistant", "message": {"content": [None, 3, {"type": "text", "text": None}]}},
]  # fmt: skip


@pytest.mark.parametrize("line", NOT_A_PERSON, ids=str)
def test_claude_code_drops_what_no_person_said(line: dict[str, Any]) -> None:
    before = CLAUDE[:8]
    assert texts(jsonl(*before, line)) == CLAUDE_TURNS[:2]


KEPT_OF = [
    ("<system-reminder>x</system-reminder>\nuse tabs", "use tabs"),
    ("<ide_opened_file>The user opened a.py</ide_opened_file> rename it", "rename it"),
    ("<command-message>plan</command-message>\n<command-name>/plan</command-name>\n<command-args>the move to uv</command-args>",
     "/plan the move to uv"),
    ("what does a <command-name> line in a transcript mean?", "what does a <command-name> line in a transcript mean?"),
    (f"{OURS}\nwhich renderer do we use?", "which renderer do we use?"),
    ([block("look at this"), {"type": "image", "source": {}}], "look at this"),
    ("# always use uv", "# always use uv"),
]  # fmt: skip


@pytest.mark.parametrize(("content", "text"), KEPT_OF)
def test_claude_code_keeps_a_persons_part(content: Any, text: str) -> None:
    assert texts(jsonl(*CLAUDE[:8], claude("user", "x", "b3", content)))[2:] == [("u", text)]


def test_a_rewound_branch_is_withdrawn() -> None:
    asked = claude("user", "r1", "b3", "use floats for money")
    begun = [*CLAUDE[:8], asked, answer("r2", "r1", "msg_3", block("Floats it is."), stop="end_turn")]
    again = [
        claude("user", "n1", "b3", "use cents for money"),
        answer("n2", "n1", "msg_4", block("Cents."), stop="end_turn"),
    ]
    reading = Reading()
    before = turns(jsonl(*begun))
    after = turns(jsonl(*begun, *again), reading=reading)
    assert [turn.text for turn in after[2:]] == ["use cents for money", "Cents."]
    assert reading.withdrawn == {turn.key for turn in before} - {turn.key for turn in after}
    assert len(reading.withdrawn) == 2


def test_a_first_prompt_that_was_rewound_is_withdrawn() -> None:
    data = jsonl(
        claude("user", "p1", None, "first try"), answer("p2", "p1", "m1", block("No."), stop="end_turn"),
        claude("user", "p3", None, "second try"), answer("p4", "p3", "m2", block("Yes."), stop="end_turn"),
    )  # fmt: skip
    assert texts(data) == [("u", "second try"), ("a", "Yes.")]


def test_a_line_whose_parent_is_missing_is_no_rewind() -> None:
    assert texts(jsonl(CLAUDE[1], *CLAUDE[7:8])) == CLAUDE_TURNS[:2]


def test_tools_side_by_side_are_one_branch() -> None:
    use = {"type": "tool_use", "id": "t", "name": "Read", "input": {}}
    data = jsonl(
        claude("user", "u", None, "compare the two"),
        answer("a1", "u", "m1", use), answer("a2", "a1", "m1", use),
        claude("user", "r1", "a1", [{"type": "tool_result"}]), claude("user", "r2", "a2", [{"type": "tool_result"}]),
        answer("e", "r2", "m2", block("They are equal."), stop="end_turn"),
    )  # fmt: skip
    assert texts(data) == [("u", "compare the two"), ("a", "They are equal.")]


def test_an_answer_that_may_grow_is_open_until_the_session_rests() -> None:
    data = jsonl(CLAUDE[1], answer("b", "u1", "m", block("Working on it.")))
    (_, open_one) = turns(data, rested=False)
    (_, closed) = turns(data)
    assert (open_one.closed, closed.closed) == (False, True)
    (_, ended) = turns(jsonl(CLAUDE[1], answer("b", "u1", "m", block("Done."), stop="end_turn")), rested=False)
    assert ended.closed
    assert turns(data + jsonl(claude("user", "n", "b", "and now?")), rested=False)[1].closed


def test_a_fork_and_a_rewrite_have_the_same_keys() -> None:
    fork = [{**line, "sessionId": "s2", "uuid": f"f-{line.get('uuid')}", "parentUuid": line.get("parentUuid") and f"f-{line['parentUuid']}"}
            for line in CLAUDE if "uuid" in line]  # fmt: skip
    mine, its = turns(jsonl(*CLAUDE)), turns(jsonl(*fork))
    assert [turn.key for turn in its[:2]] == [turn.key for turn in mine[:2]]
    shorter = turns(jsonl(*CLAUDE[9:]))
    assert [turn.key for turn in shorter] == [mine[2].key]


# ------------------------------------------------------------ Codex

HEAD = {
    "id": "0199aaaa-0000-7000-8000-0000000000a1",
    "timestamp": "2026-10-05T08:00:00.000Z",
    "cwd": "/home/dev/shop",
    "source": "cli",
}


def codex(kind: str, payload: dict[str, Any], second: int = 1) -> dict[str, Any]:
    return {"timestamp": f"2026-10-05T08:00:{second:02d}.000Z", "type": kind, "payload": payload}


def event(kind: str, second: int = 2, **more: Any) -> dict[str, Any]:
    return codex("event_msg", {"type": kind, **more}, second)


def item(role: str, text: str, second: int = 2, **more: Any) -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    return codex(
        "response_item", {"type": "message", "role": role, "content": [{"type": kind, "text": text}], **more}, second
    )


def v7(seconds: float) -> str:
    number = int(seconds * 1000) << 80 | 7 << 76 | 0x8 << 60 | 0xABC
    return str(uuid.UUID(int=number))


TURN = v7(1_791_187_202)
CODEX = [
    codex("session_meta", HEAD, 0),
    item("user", "<environment_context>\n  <cwd>/home/dev/shop</cwd>\n</environment_context>"),
    event("task_started", turn_id=TURN),
    codex("turn_context", {"turn_id": TURN, "cwd": "/home/dev/shop", "model": "gpt-x"}),
    item("developer", OURS),
    item("user", "Use cents everywhere, never floats."),
    event("user_message", message="Use cents everywhere, never floats.", images=[]),
    event("agent_message", 3, message="Looking first.", phase="commentary"),
    codex("response_item", {"type": "function_call", "name": "exec_command", "arguments": "{}", "call_id": "c1"}, 5),
    codex("response_item", {"type": "function_call_output", "call_id": "c1", "output": "never a turn"}, 6),
    codex(
        "compacted",
        {"message": "a summary", "replacement_history": [{"type": "message", "role": "user", "content": "old"}]},
        7,
    ),
    event("agent_message", 9, message="Changed three modules to cents.", phase="final_answer"),
    item("assistant", "Changed three modules to cents.", 9, phase="final_answer"),
    event("task_complete", 9, turn_id=TURN, last_agent_message="Changed three modules to cents."),
]
CODEX_TURNS = [("u", "Use cents everywhere, never floats."), ("a", "Changed three modules to cents.")]


def test_codex() -> None:
    reading = Reading()
    found = turns(jsonl(*CODEX), rested=False, reading=reading)
    assert [(turn.role[0], turn.text) for turn in found] == CODEX_TURNS
    assert all(turn.closed and turn.session == HEAD["id"] and turn.cwd == "/home/dev/shop" for turn in found)
    assert found[1].time == "2026-10-05T08:00:09.000Z"
    assert not reading.unknown


def test_codex_without_events_reads_the_items() -> None:
    assert texts(jsonl(*(line for line in CODEX if line["type"] != "event_msg"))) == CODEX_TURNS


def test_codex_of_the_first_era() -> None:
    data = jsonl(
        {"id": "9f000000-0000-4000-8000-000000000001", "timestamp": "2025-07-01T10:00:00Z", "instructions": None, "git": {}},
        {"record_type": "state"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "<environment_context>\n<cwd>/src/old</cwd>\n</environment_context>"}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Use cents."}]},
        {"type": "reasoning", "summary": []},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "First this."}]},
        {"type": "function_call", "name": "shell", "arguments": "{}", "call_id": "1"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Cents it is."}]},
        {"record_type": "state"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "And rounding?"}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Half even."}]},
    )  # fmt: skip
    found = turns(data)
    assert [turn.text for turn in found] == ["Use cents.", "Cents it is.", "And rounding?", "Half even."]
    assert {(turn.session, turn.cwd) for turn in found} == {("9f000000-0000-4000-8000-000000000001", "/src/old")}
    assert len({turn.key for turn in found}) == 4


def test_codex_paginated() -> None:
    data = jsonl(
        codex("session_meta", {**HEAD, "history_mode": "paginated"}),
        event("turn_started", turn_id=TURN),
        event("item_completed", item={"type": "UserMessage", "content": [{"type": "text", "text": "Use cents."}]}),
        event(
            "item_completed",
            item={"type": "AgentMessage", "content": [{"type": "Text", "text": "Hm."}], "phase": "commentary"},
        ),
        event(
            "item_completed",
            item={"type": "AgentMessage", "content": [{"type": "Text", "text": "Done."}], "phase": "final_answer"},
        ),
        event("turn_complete", turn_id=TURN),
    )
    assert texts(data, rested=False) == [("u", "Use cents."), ("a", "Done.")]


INJECTED = [
    "<user_instructions>be brief</user_instructions>",
    "<permissions instructions>none</permissions instructions>",
    "<collaboration_mode>x</collaboration_mode>",
    "<multi_agent_mode>x</multi_agent_mode>",
    "<apps_instructions>x</apps_instructions>",
    "# AGENTS.md instructions for /src\n\n<INSTRUCTIONS>\nuse uv\n</INSTRUCTIONS>",
    "<skill>\n<name>pdf</name>\n</skill>",
    "<turn_aborted>The user interrupted.</turn_aborted>",
    '<subagent_notification>{"a": 1}</subagent_notification>',
    "Message Type: NEW_TASK\nTask name: x\nSender: y\nPayload: z",
]


@pytest.mark.parametrize("text", INJECTED)
def test_codex_drops_injected_text(text: str) -> None:
    assert texts(jsonl(CODEX[0], item("user", text), item("user", "Use cents."))) == [("u", "Use cents.")]


def test_codex_request_after_the_editors_context() -> None:
    text = "# Context from my IDE setup:\n\n## Active file: a.py\n\n## My request for Codex:\nUse cents."
    assert texts(jsonl(CODEX[0], item("user", text))) == [("u", "Use cents.")]


def test_codex_says_which_parts_are_a_persons() -> None:
    line = item("user", "injected")
    line["payload"]["content"].append({"type": "input_text", "text": "Use cents."})
    line["payload"]["internal_chat_message_metadata_passthrough"] = {
        "content_item_kinds": ["context.skill", "user.text"]
    }
    assert texts(jsonl(CODEX[0], line)) == [("u", "Use cents.")]


def test_codex_answer_to_a_question_is_a_persons() -> None:
    data = jsonl(
        *CODEX[:7],
        codex(
            "response_item", {"type": "function_call", "name": "request_user_input", "arguments": "{}", "call_id": "q"}
        ),
        codex(
            "response_item",
            {
                "type": "function_call_output",
                "call_id": "q",
                "output": '{"answers": {"1": {"answers": ["Round half even"]}}}',
            },
        ),
        *CODEX[11:],
    )
    assert texts(data) == [CODEX_TURNS[0], ("u", "Round half even"), CODEX_TURNS[1]]


def test_codex_turn_that_was_aborted_has_no_answer() -> None:
    data = jsonl(*CODEX[:7], event("agent_message", message="Half of"), event("turn_aborted", reason="interrupted"))
    assert texts(data) == CODEX_TURNS[:1]


def test_codex_roll_back() -> None:
    other = v7(1_791_187_300)
    more = [event("task_started", turn_id=other), event("user_message", message="Use floats."),
            event("task_complete", turn_id=other, last_agent_message="Floats.")]  # fmt: skip
    whole = turns(jsonl(*CODEX, *more))
    reading = Reading()
    assert texts(jsonl(*CODEX, *more, event("thread_rolled_back", num_turns=1)), reading=reading) == CODEX_TURNS
    assert reading.withdrawn == {turn.key for turn in whole[2:]}


def test_codex_sub_agent_gives_nothing() -> None:
    head = {**HEAD, "source": {"subagent": {"thread_spawn": {"parent_thread_id": "p"}}}}
    assert texts(jsonl(codex("session_meta", head), *CODEX[1:])) == []


def test_codex_fork_gives_only_what_is_its_own() -> None:
    own = v7(1_791_273_610)
    data = jsonl(
        codex("session_meta", {"id": v7(1_791_273_600), "forked_from_id": HEAD["id"], "timestamp": "2026-10-06T08:00:00Z", "cwd": "/home/dev/fork"}),
        *CODEX,
        event("task_started", turn_id=own), codex("turn_context", {"turn_id": own, "cwd": "/home/dev/fork"}),
        event("user_message", message="In the fork, use decimals."),
        event("task_complete", turn_id=own, last_agent_message="Decimals."),
    )  # fmt: skip
    found = turns(data)
    assert [turn.text for turn in found] == ["In the fork, use decimals.", "Decimals."]
    assert {(turn.session, turn.cwd) for turn in found} == {(v7(1_791_273_600), "/home/dev/fork")}


def test_codex_answer_is_open_until_the_task_is_complete() -> None:
    data = jsonl(*CODEX[:-1])
    assert [turn.closed for turn in turns(data, rested=False)] == [True, False]
    assert turns(data)[1].key == turns(jsonl(*CODEX))[1].key


# ------------------------------------------------------------ Gemini

GEMINI = [
    {"sessionId": "7c1e", "projectHash": "shop", "startTime": "2026-08-03T07:00:00.000Z"},
    {
        "id": "m1",
        "type": "user",
        "content": [{"text": "Staging runs on port 8443."}, {"text": f"<hook_context>{OURS}</hook_context>"}],
    },
    {"id": "m2", "type": "gemini", "content": "Got it, 8443.", "thoughts": [], "tokens": None, "model": "gemini-x"},
    {"$set": {"lastUpdated": "2026-08-03T07:00:09.000Z"}},
    {
        "id": "m2",
        "type": "gemini",
        "content": "Got it, 8443.",
        "thoughts": [],
        "tokens": {"input": 90},
        "model": "gemini-x",
    },
    {"id": "m3", "type": "user", "content": "no, forget that one"},
    {"$rewindTo": "m3"},
]
GEMINI_TURNS = [("u", "Staging runs on port 8443."), ("a", "Got it, 8443.")]


def test_gemini() -> None:
    reading = Reading()
    found = turns(jsonl(*GEMINI), rested=False, reading=reading)
    assert [(turn.role[0], turn.text) for turn in found] == GEMINI_TURNS
    assert all(turn.closed and turn.session == "7c1e" and turn.time == "2026-08-03T07:00:00.000Z" for turn in found)
    assert len(reading.withdrawn) == 1
    assert not turns(jsonl(*GEMINI[:3]), rested=False)[1].closed


GEMINI_NOT = [
    {"id": "x", "type": "user", "content": "/stats"},
    {"id": "x", "type": "user", "content": "?"},
    {"id": "x", "type": "user", "content": "<session_context>today is …</session_context>"},
    {"id": "x", "type": "user", "content": "<hook_context>cut off"},
    {"id": "x", "type": "user", "content": [{"functionResponse": {"name": "ls", "response": {"text": "out"}}}]},
    {"id": "x", "type": "info", "content": "Request cancelled."},
    {"id": "x", "type": "user", "content": None},
]


@pytest.mark.parametrize("line", GEMINI_NOT, ids=str)
def test_gemini_drops_what_no_person_said(line: dict[str, Any]) -> None:
    assert texts(jsonl(*GEMINI[:5], line)) == GEMINI_TURNS


def test_gemini_object_of_before_has_the_keys_of_its_successor() -> None:
    messages = [one for one in GEMINI[:5] if "id" in one]
    old = {
        "sessionId": "7c1e",
        "projectHash": "a" * 64,
        "startTime": GEMINI[0]["startTime"],
        "lastUpdated": "x",
        "messages": messages,
    }
    for data in (json.dumps(old).encode(), json.dumps(old, indent=2).encode()):
        assert texts(data) == GEMINI_TURNS
        assert [turn.key for turn in turns(data)] == [turn.key for turn in turns(jsonl(*GEMINI))]


def test_gemini_checkpoint_replaces_all() -> None:
    data = jsonl(
        *GEMINI[:5], {"id": "m9", "type": "user", "content": "gone"}, {"$set": {"messages": [GEMINI[1], GEMINI[4]]}}
    )
    assert texts(data) == GEMINI_TURNS


def test_gemini_rewind_to_nothing_known_takes_all_back() -> None:
    assert texts(jsonl(*GEMINI, {"$rewindTo": "nobody"})) == []


def test_gemini_sub_agent_gives_nothing() -> None:
    assert texts(jsonl({**GEMINI[0], "kind": "subagent"}, *GEMINI[1:])) == []


# ------------------------------------------------------------ exports


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


def test_chatgpt() -> None:
    reading = Reading()
    found = turns(json.dumps([chat(), chat(is_do_not_remember=True, conversation_id="c2")]).encode(), reading=reading)
    assert [(turn.role[0], turn.text) for turn in found] == CHAT_TURNS
    assert {(turn.session, turn.time) for turn in found} == {("c1", "2025-10-09T08:53:21.000Z")}
    assert reading.titles == {"c1": "Bike"}
    assert reading.dropped["not to be remembered"] == 1
    assert not reading.unknown


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
    longer = turns((text + "\nUser: and one more").encode(), name="renamed")
    assert [turn.key for turn in longer[:4]] == [turn.key for turn in found]
    assert {turn.session for turn in longer} == {turn.session for turn in found}


# ------------------------------------------------------------ what is broken

ALL = {
    "claude-code": (jsonl(*CLAUDE), CLAUDE_TURNS),
    "codex": (jsonl(*CODEX), CODEX_TURNS),
    "gemini": (jsonl(*GEMINI), GEMINI_TURNS),
    "chatgpt": (json.dumps([chat()]).encode(), CHAT_TURNS),
    "claude-ai": (talk(*GARDEN), GARDEN_TURNS),
    "text": (b"User: use cents\nAssistant: done", [("u", "use cents"), ("a", "done")]),
}


@pytest.mark.parametrize("name", ALL)
def test_the_format_is_told_by_structure(name: str) -> None:
    data, expected = ALL[name]
    assert format_of(io.BytesIO(data)) == name
    assert texts(b"\xef\xbb\xbf" + data) == expected
    assert texts(data.replace(b"\n", b"\r\n")) == expected


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n\n",
        b"hello",
        b"[]",
        b"[1, 2]",
        b"{}",
        b'{"a": 1}\n',
        b'[{"a": 1}]',
        b"\x00" * 100,
        b"{" * 9999,
        b"[" * 9999,
    ],
)
def test_other_files_have_no_format(data: bytes) -> None:
    assert format_of(io.BytesIO(data)) is None


@pytest.mark.parametrize("name", ["claude-code", "codex", "gemini"])
def test_broken_lines_cost_only_themselves(name: str) -> None:
    data, expected = ALL[name]
    first, _, rest = data.partition(b"\n")
    junk = (
        b'{"type": "user", "mess\n\x00\x00\x00\n[1]\nnull\n"x"\n'
        + b"[" * 5000
        + b"\n"
        + b'{"type": "brand-new", "$set": 3}\n'
    )
    reading = Reading()
    assert texts(first + b"\n" + junk + rest, reading=reading) == expected
    assert reading.damaged == 5
    half = Reading()
    assert texts(data + b'{"type": "user", "uuid": "z", "mess', reading=half) == expected
    assert half.damaged == 0, "the last line is not whole yet"


@pytest.mark.parametrize("name", ALL)
def test_cut_off_anywhere_nothing_is_made_up(name: str) -> None:
    data, _ = ALL[name]
    whole = {turn.key: turn.text for turn in turns(data)}
    withdrawn = Reading()
    turns(data, reading=withdrawn)
    for at in range(0, len(data), 7):
        stream = io.BytesIO(data[:at])
        found = format_of(stream)
        for turn in READERS[found](stream, Reading(rested=False)) if found else ():
            assert turn.key in whole or turn.key in withdrawn.withdrawn or not turn.closed or name == "text"


def test_odd_bytes_are_replaced() -> None:
    line = json.dumps(claude("user", "u1", None, "caf\u00e9 PLACE end")).encode()
    for odd in (b"\xff\xfe", b"\\ud83d", b"\\udc00", b"\xc3", b"\xed\xa0\xbd"):
        ((_, text),) = texts(line.replace(b"PLACE", odd) + b"\n")
        assert text.startswith("café "), odd
        assert text.endswith("end")
        text.encode()
    assert texts("User: größe\nAssistant: ok".encode("utf-16")) == [("u", "größe"), ("a", "ok")]
    assert texts(b"User: gr\xf6\xdfe") == [("u", "gr\ufffd\ufffde")]


def test_a_line_that_is_too_long_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "LONGEST", 3_000)
    monkeypatch.setattr(lines, "CHUNK", 700)
    big = claude("user", "t", "u1", [{"type": "tool_result", "content": "x" * 5_000}])
    reading = Reading()
    assert texts(jsonl(CLAUDE[1], big, *CLAUDE[2:]), reading=reading) == CLAUDE_TURNS
    assert reading.too_long == 1


def test_a_long_paste_is_bounded() -> None:
    ((_, text),) = texts(jsonl(claude("user", "u1", None, "begin " + "log line\n" * 50_000 + " end")))
    assert len(text) < 110_000
    assert text.startswith("begin")
    assert text.endswith("end")


def test_unknown_kinds_are_counted() -> None:
    reading = Reading()
    turns(jsonl(*CLAUDE, {"type": "hologram"}, claude("assistant", "x", "b3", [{"type": "smell"}])), reading=reading)
    assert reading.unknown == {"line hologram": 1, "block smell": 1}
    reading = Reading()
    turns(
        jsonl(*CODEX, codex("novelty", {}), event("sneeze"), codex("response_item", {"type": "poem"})), reading=reading
    )
    assert reading.unknown == {"line novelty": 1, "event sneeze": 1, "item poem": 1}


def test_our_own_mark_is_taken_out_of_every_carrier() -> None:
    for data, _ in ALL.values():
        assert "weasyprint" not in str(texts(data))
    quoted = jsonl(CLAUDE[1], answer("b", "u1", "m", block(f"{OURS}\nInvoices use PDF/A."), stop="end_turn"))
    assert texts(quoted)[1] == ("a", "Invoices use PDF/A.")
