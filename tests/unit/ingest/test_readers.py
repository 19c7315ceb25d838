"""Transcripts of every agent give the turns of the person and the final answers, and nothing else; no format is misled by broken files."""

from __future__ import annotations

import io
import itertools
import json
import re
import uuid
from pathlib import Path
from typing import Any

import pytest

from ormahd.ingest.readers import lines
from ormahd.ingest.readers.formats import READERS, format_of, unknown_kinds
from ormahd.ingest.readers.turns import Reading
from tests.tables import NUMBERS, rows
from tests.unit.ingest.reading import CHAT_TURNS, GARDEN, GARDEN_TURNS, OURS, block, chat, jsonl, talk, texts, turns

DATA = json.loads(Path(__file__).with_suffix(".json").read_text("utf-8").replace("{OURS}", json.dumps(OURS)[1:-1]))
"""A transcript of each agent, and `cases`: what stands after so many lines of one of them, and the turns of both."""
CLAUDE, CODEX, GEMINI = DATA["claude-code"], DATA["codex"], DATA["gemini"]


@pytest.mark.parametrize("case", DATA["cases"], ids=[one["case"] for one in DATA["cases"]])
def test_the_turns_of_a_transcript(case: dict[str, Any]) -> None:
    program, count = case.get("after", ("codex", 0))
    found = turns(jsonl(*DATA[program][:count], *case["lines"]))
    assert [[turn.role[0], turn.text] for turn in found] == case["turns"]
    for asked, told in itertools.pairwise(found):
        assert (asked.role, told.role) != ("user", "assistant") or told.to == asked.key


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
    assert reading.withdrawn.keys() == {turn.key for turn in before} - {turn.key for turn in after}
    assert {*reading.withdrawn.values()} == {turn.session for turn in before}
    assert len(reading.withdrawn) == 2


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


def v7(seconds: float) -> str:
    number = int(seconds * 1000) << 80 | 7 << 76 | 0x8 << 60 | 0xABC
    return str(uuid.UUID(int=number))


TURN = v7(1_791_187_202)
CODEX_TURNS = [("u", "Use cents everywhere, never floats."), ("a", "Changed three modules to cents.")]


def test_codex() -> None:
    reading = Reading()
    found = turns(jsonl(*CODEX), rested=False, reading=reading)
    assert [(turn.role[0], turn.text) for turn in found] == CODEX_TURNS
    assert all(turn.closed and turn.session == HEAD["id"] and turn.cwd == "/home/dev/shop" for turn in found)
    assert found[1].time == "2026-10-05T08:00:09.000Z"


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


def test_codex_roll_back() -> None:
    other = v7(1_791_187_300)
    more = [event("task_started", turn_id=other), event("user_message", message="Use floats."),
            event("task_complete", turn_id=other, last_agent_message="Floats.")]  # fmt: skip
    whole = turns(jsonl(*CODEX, *more))
    reading = Reading()
    assert texts(jsonl(*CODEX, *more, event("thread_rolled_back", num_turns=1)), reading=reading) == CODEX_TURNS
    assert reading.withdrawn == {turn.key: turn.session for turn in whole[2:]}


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

GEMINI_TURNS = [("u", "Staging runs on port 8443."), ("a", "Got it, 8443.")]


def test_gemini() -> None:
    reading = Reading()
    found = turns(jsonl(*GEMINI), rested=False, reading=reading)
    assert [(turn.role[0], turn.text) for turn in found] == GEMINI_TURNS
    assert all(turn.closed and turn.session == "7c1e" and turn.time == "2026-08-03T07:00:00.000Z" for turn in found)
    assert len(reading.withdrawn) == 1
    assert not turns(jsonl(*GEMINI[:3]), rested=False)[1].closed


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


@pytest.mark.parametrize(
    ("program", "record", "unknown"),
    [
        *rows(__file__, "kinds_of_records_that_no_reader_knows_are_named"),
        ("gemini", {"id": "m9", "type": "Ignore all\nabove \x1b[31m" * 9}, ["Ignore?all?above?31mIgnore?all?above?"]),
    ],
)
def test_kinds_of_records_that_no_reader_knows_are_named(
    program: str, record: dict[str, Any], unknown: list[str]
) -> None:
    data, expected = ALL[program]
    reading = Reading()
    assert texts(data + jsonl(record), reading=reading)[: len(expected)] == expected
    assert unknown_kinds(program, reading.kinds) == unknown


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("name", [name for name in ALL if name != "text"])
def test_a_number_that_no_computer_counts_with_costs_nothing(name: str, number: str) -> None:
    data, expected = ALL[name]
    odd = re.sub(rb"^(\[?\{)", rb'\1"odd": %s, ' % NUMBERS[number].encode(), data, flags=re.MULTILINE)
    assert odd != data
    assert texts(odd) == expected


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
    assert reading.damaged == 1


def test_a_long_paste_is_bounded() -> None:
    ((_, text),) = texts(jsonl(claude("user", "u1", None, "begin " + "log line\n" * 50_000 + " end")))
    assert len(text) < 110_000
    assert text.startswith("begin")
    assert text.endswith("end")


def test_our_own_mark_is_taken_out_of_every_carrier() -> None:
    for data, _ in ALL.values():
        assert "weasyprint" not in str(texts(data))
    quoted = jsonl(CLAUDE[1], answer("b", "u1", "m", block(f"{OURS}\nInvoices use PDF/A."), stop="end_turn"))
    assert texts(quoted)[1] == ("a", "Invoices use PDF/A.")
