"""What hooks make of frames and texts, without a process: transcripts handed over, limits, words of each harness."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ormahd.actions.amend import Caller
from ormahd.actions.remember import store_memory
from ormahd.api import CHECK_SESSION
from ormahd.errors import BadRequest
from ormahd.ingest.capture import Capture
from ormahd.model.node import CreateNodeRequest, Tier
from ormahd.ormah import Ormah
from ormahd.process import priority
from ormahd.rpc import hooks as hook_reply
from ormahd.rpc.connection import Channel, LoopWaker
from ormahd.rpc.hooks import HARNESSES, HookAct, Hooks, read
from ormahd.rpc.pools import WHISPERERS
from ormahd.rpc.wire import connect
from ormahd.state import whispers
from ormahd.whisper.pipeline import Whisper
from tests.contract.archiving import opened
from tests.contract.serving import Answers, serving, until
from tests.tables import rows


@pytest.fixture
def handed() -> list[Any]:
    """What the hooks handed over to ingestion."""
    return []


@pytest.fixture
def hooks(tmp_path: Path, handed: list[Any]) -> Iterator[Hooks]:
    class Desk(Capture):
        def report(self, *grown: Any) -> None:  # type: ignore[override]
            handed.append(grown)

    with opened(tmp_path, variables={"ORMAH_WHISPER_NUDGE_INTERVAL": "0"}) as ormah:
        yield Hooks(Whisper(ormah), Desk(ormah))


def body(harness: str, event: str, space: str = "", **said: Any) -> bytes:
    return b"\0".join((harness.encode(), event.encode(), b"/tmp/shop", space.encode(), json.dumps(said).encode()))


def test_each_end_of_something_hands_its_transcript_over(hooks: Hooks, handed: list[Any]) -> None:
    for harness, events in HARNESSES.items():
        for event, act in events.items():
            handed.clear()
            assert (
                act in (HookAct.PROMPT, HookAct.STATUS)
                or hooks.answer(body(harness, event, session_id="s", transcript_path="/t/s.jsonl")) == b""
            )
            expected = [("/t/s.jsonl", "", False)] if act is HookAct.TRANSCRIPT else []
            assert handed == expected, (harness, event)


def test_each_prompt_of_a_person_hands_its_transcript_over(hooks: Hooks, handed: list[Any]) -> None:
    fields = {"session_id": "s", "transcript_path": "/t"}
    for number in range(2):
        hooks.answer(body("claude-code", "UserPromptSubmit", "kiosk", prompt=f"a prompt of {number}", **fields))
        hooks.answer(body("claude-code", "UserPromptSubmit", prompt="/clear", agent_id="a", **fields))
    assert handed == [("/t", "", True)] * 2


def test_who_has_gone_was_told_nothing(hooks: Hooks) -> None:
    ormah = hooks._ormah
    store_memory(
        ormah,
        CreateNodeRequest(content="Deploys happen on Fridays.", title="Deploy day", tier=Tier.CORE),
        Caller("test"),
    )
    start = body("claude-code", "SessionStart", session_id="s", source="startup")
    resume = body("claude-code", "SessionStart", session_id="s", source="resume")
    ours, theirs = socket.socketpair()
    theirs.close()
    assert b"Deploy day" in hooks.answer(start, Channel(ours, 1_000, 0.0, LoopWaker()))
    assert b"Deploy day" in hooks.answer(resume)
    assert hooks.answer(resume) == b""


CORE = "Deploys happen on Fridays."
LATER = "Releases are tagged by Noor alone."
GEMINI = dict(rows(__file__, "gemini"))
"""{case: steps}. A step is a cause of SessionStart, something that happens, or a prompt with (what it brings, what not)."""


@pytest.mark.parametrize("steps", GEMINI.values(), ids=GEMINI)
def test_gemini_is_greeted_with_its_first_prompt(tmp_path: Path, steps: list[str | tuple[str, str]]) -> None:
    now = datetime(2026, 11, 27, 12, 0, tzinfo=UTC)
    chat = tmp_path / "chat.jsonl"
    with opened(tmp_path, variables={"ORMAH_WHISPER_NUDGE_INTERVAL": "0"}) as ormah:
        hooks, about = Hooks(Whisper(ormah)), {"session_id": "s", "transcript_path": str(chat)}
        store(ormah, CORE)
        for step in steps:
            now += timedelta(seconds=30)
            line = {
                "id": "1",
                "timestamp": now.isoformat(),
                "type": "user",
                "content": [{"text": "<state_snapshot>\nx"}],
            }
            match step:
                case (brings, not_again):
                    said = hooks.answer(body("gemini", "BeforeAgent", prompt="zebras of Madagascar", **about)).decode()
                    assert brings in said
                    assert not not_again or not_again not in said
                case "remember":
                    store(ormah, LATER)
                case "compress" | "quote":
                    quoted = json.dumps(line) if step == "quote" else ""
                    written = {**line, "content": [{"text": quoted}]} if quoted else {"$set": {"messages": [line]}}
                    with chat.open("a") as opened_chat:
                        opened_chat.write(json.dumps(written, separators=(",", ":")) + "\n")
                case "command":
                    assert hooks.answer(body("gemini", "BeforeAgent", prompt="/stats", **about)) == b""
                case "PreCompress":
                    assert hooks.answer(body("gemini", "PreCompress", trigger="auto", **about)) == b""
                case cause:
                    assert hooks.answer(body("gemini", "SessionStart", source=cause, **about)) == b""


def store(ormah: Ormah, text: str) -> None:
    store_memory(ormah, CreateNodeRequest(content=text, title="Deploys", tier=Tier.CORE), Caller("test"))


@pytest.mark.parametrize(("harness", "event"), [("claude-code", "UserPromptSubmit"), ("gemini", "BeforeAgent")])
def test_a_check_of_setup_is_answered_and_leaves_no_trace(hooks: Hooks, harness: str, event: str) -> None:
    assert b"Ormah hears this agent" in hooks.answer(
        body(harness, event, session_id=CHECK_SESSION, prompt="connected?")
    )
    assert whispers.figures(hooks._ormah.state).prompts == 0
    assert not hooks._whisper.sessions.before(CHECK_SESSION).prompts


def test_a_memory_without_a_title_is_said_once(hooks: Hooks) -> None:
    store_memory(hooks._ormah, CreateNodeRequest(content="Allergic to peanuts.", tier=Tier.CORE), Caller("test"))
    said = hooks.answer(body("claude-code", "SessionStart", session_id="s", source="startup"))
    assert said.count(b"Allergic to peanuts.") == 1


def test_what_cannot_be_read_is_refused_without_being_quoted() -> None:
    for given in (
        b"",
        b"a\0b",
        b"claude-code\0NoEvent\0\0\0{}",
        b"emacs\0Stop\0\0\0{}",
        b"gemini\0UserPromptSubmit\0\0\0{}",
    ):
        with pytest.raises(BadRequest):
            read(given)
    with pytest.raises(BadRequest) as refused:
        read(body("claude-code", "UserPromptSubmit", prompt="a secret of mine")[:-3])
    assert "secret" not in refused.value.message


ODD = [
    b'{"prompt": "why?", "session_id": "s", "x": "\\ud83d"}',
    b'{"x": ["\\ud83d", {"y": "]"}], "prompt": "why?", "session_id": "s"}',
    b'\xef\xbb\xbf{"prompt": "why?", "session_id": "s"}',
    b'{"cost": NaN, "prompt": "why?", "max": Infinity, "session_id": "s", "min": -Infinity}',
    b'{"prompt": "why?", "session_id": "s", "raw": "\xff\xfe"}',
    b'{"prompt": "why?", "session_id": "s", "tab": "a\tb\nc"}',
    b'{"prompt": "why?", "session_id": "s", "quote": "\\"}, \\"prompt\\": \\"no"}',
    b'{"prompt": "first", "prompt": "why?", "session_id": "s", "x": "\\udc00"}',
]


@pytest.mark.parametrize("said", ODD, ids=range(len(ODD)))
def test_what_strict_json_refuses_is_read(said: bytes) -> None:
    event = read(b"claude-code\0UserPromptSubmit\0/tmp\0\0" + said)
    assert (event.prompt, event.session_id) == ("why?", "s")


def test_a_session_belongs_to_the_project_that_it_began_in(hooks: Hooks, tmp_path: Path) -> None:
    def told(event: str, session: str, cwd: str, frame: str = "/tmp/hook", **said: Any) -> str | None:
        given = json.dumps({"session_id": session, "cwd": cwd, "prompt": "ok", **said}).encode()
        hooks.answer(b"\0".join((b"claude-code", event.encode(), frame.encode(), b"", given)))
        hooks.answer(b"\0".join((b"claude-code", b"UserPromptSubmit", frame.encode(), b"", given)))
        logged = whispers.last(hooks._ormah.state, spoken="short")
        assert logged is not None
        return logged.space

    assert told("SessionStart", "one", "/tmp/shop", source="startup") == "shop"
    assert told("UserPromptSubmit", "one", "/tmp/library") == "shop"
    assert told("SessionStart", "one", "/tmp/library", source="compact") == "shop"
    assert told("SessionStart", "one", "/tmp/library", source="resume") == "shop"
    assert told("SessionStart", "one", "/tmp/library", source="startup") == "library"
    assert told("UserPromptSubmit", "two", "/tmp/shop") == "shop"  # its start was not heard
    assert told("UserPromptSubmit", "two", "/tmp/library") == "shop"
    assert told("UserPromptSubmit", "three", str(Path.home())) is None
    assert told("UserPromptSubmit", "three", "/tmp/library") is None
    # where the harness names the project, that counts
    assert told("UserPromptSubmit", "four", "/tmp/library", "project=/tmp/shop") == "shop"
    assert told("UserPromptSubmit", "one", "/tmp/shop", "project=/tmp/kiosk") == "kiosk"
    assert told("UserPromptSubmit", "five", "/tmp/library", "project=") == "library"
    # an id of another form than harnesses give is kept by its digest alone
    assert told("SessionStart", "what Ada said", "/tmp/shop", source="startup") == "shop"
    assert told("UserPromptSubmit", "what Ada said", "/tmp/library") == "shop"
    with hooks._ormah.state.transaction() as db:
        kept = [row[0] for row in db.execute("SELECT session_id FROM session_place")]
    assert sum(one.startswith("sha256:") for one in kept) == 1
    assert not [one for one in kept if "Ada" in one]


def test_halves_of_characters_reach_nothing() -> None:
    said = b'{"prompt": "why \\ud83d?", "session_id": "a\\ud83d", "cwd": "/tmp/\\udc80", "agent_id": null}'
    event = read(b"claude-code\0UserPromptSubmit\0/tmp\0\0" + said)
    assert (event.session_id, event.cwds[0], event.of_sub_agent) == ("a?", "/tmp/?", False)
    assert event.prompt == "why ??"


@pytest.mark.parametrize(
    "said", [b"", b"\xef\xbb\xbf", b"[1]", b'{"a" 1}', b'{"a":}', b'{"a": [1', b'{"a": "\\ud83d', b'{"prompt": NaN']
)
def test_what_ends_in_the_middle_is_refused(said: bytes) -> None:
    with pytest.raises(BadRequest):
        read(b"claude-code\0UserPromptSubmit\0/tmp\0\0" + said)


def test_only_the_prompt_has_to_be_what_it_ought_to_be() -> None:
    event = read(
        body(
            "codex", "UserPromptSubmit", prompt="x\0y", session_id=5, cwd=[], transcript_path={}, source=1, agent_id=""
        )
    )
    assert (event.prompt, event.session_id, event.cwds, event.transcript, event.source) == (
        "x\0y",
        None,
        ("/tmp/shop",),
        None,
        None,
    )
    assert not event.of_sub_agent
    assert read(body("codex", "Stop", prompt=7)).prompt == ""


def test_a_text_is_cut_at_a_line_and_keeps_its_mark() -> None:
    text = "\n".join(["heading", *("数" * 100 for _ in range(60)), "<!-- ormah:whisper abc -->"])
    cut = hook_reply.fitting(text)
    assert len(cut.encode()) <= hook_reply.MAX_BYTES
    lines = cut.split("\n")
    assert (lines[0], lines[-1]) == ("heading", "<!-- ormah:whisper abc -->")
    assert set(lines[1:-1]) == {"数" * 100}
    assert hook_reply.fitting("short\n<!-- ormah:whisper -->") == "short\n<!-- ormah:whisper -->"
    assert len(hook_reply.fitting("x" * 50_000).encode()) <= hook_reply.MAX_BYTES
    assert json.loads(hook_reply.context("Stop", "half \ud800"))["hookSpecificOutput"]["additionalContext"] == "half ?"


def test_whispers_wait_for_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(priority, "cores", lambda: WHISPERERS)  # as many searches begin
    answers = Answers()
    gate = answers.gate("reads")

    def ask(path: object) -> None:
        with connect(path) as connection:  # type: ignore[arg-type]
            connection.call("agent.recall", {"query": "wait reads"})

    with serving(answers, hook=lambda given, _: b"said " + given, threads=WHISPERERS) as server:
        threads = [threading.Thread(target=ask, args=(server.path,)) for _ in range(3 * WHISPERERS)]
        for thread in threads:
            thread.start()
        until(lambda: len(answers.begun) == WHISPERERS)
        with connect(server.path) as connection:
            assert connection.hook(b"x", 120) == b"said x"
        gate.set()
        for thread in threads:
            thread.join(120)


def test_who_went_away_while_he_waited_is_not_answered() -> None:
    begun: list[bytes] = []
    held = threading.Event()

    def hook(given: bytes, gone: Any) -> bytes:
        begun.append(given)
        held.wait(120)
        return b""

    with serving(hook=hook) as server:
        busy = [connect(server.path) for _ in range(WHISPERERS)]
        for number, one in enumerate(busy):
            one._send(b"h\0\0\0\x01" + str(number).encode(), None)
        until(lambda: len(begun) == WHISPERERS)
        late, patient = connect(server.path), connect(server.path)
        late._send(b"h\0\0\0\x04late", None)
        late.close()
        patient._send(b"h\0\0\0\x07patient", None)
        until(lambda: server.clients == WHISPERERS + 2)
        held.set()
        until(lambda: b"patient" in begun)
        for one in (*busy, patient):
            one.close()
    assert b"late" not in begun
