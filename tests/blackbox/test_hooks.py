"""Hooks as harnesses run them: each event of each harness, through the process, to a real daemon and back."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ormahd.vault.merge_driver import SHIM
from tests.house import House, open_house, wait_until
from tests.tables import rows

PROMPT = "which database did we choose for the shop?"
MEMORIES: list[dict[str, Any]] = rows(__file__, "memories")  # fmt: skip
PROMPT_EVENT = {"claude-code": "UserPromptSubmit", "codex": "UserPromptSubmit", "gemini": "BeforeAgent"}
WHISPERS, REMEMBERS = "# Ormah whispers", "# Ormah remembers"


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    with open_house(ORMAH_WHISPER_NUDGE_INTERVAL="3", ORMAH_WHISPER_REVIEW="false") as found:
        found.start()
        for memory in MEMORIES:
            found.call("agent.remember", **memory)
        yield found


def session() -> str:
    return uuid.uuid4().hex


def run(
    house: House, harness: str, event: str, said: dict[str, Any], *, deadline: int = 10_000, env: dict[str, str] | None = None,
    cwd: Path | None = None,
) -> bytes:  # fmt: skip
    """What the hook's process prints; its status must be 0, and stderr empty."""
    words = ["--hook", event, "--harness", harness, "--socket", str(house.socket), "--deadline", str(deadline)]
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(SHIM), *words], input=json.dumps({"hook_event_name": event, **said}).encode(),
        capture_output=True, timeout=120, cwd=cwd or house.home, env={"PATH": os.environ["PATH"], **(env or {})},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout


def context(house: House, harness: str, event: str, said: dict[str, Any], **more: Any) -> str:
    """The text that reaches the agent; "" for silence. The output has exactly the keys that the harness allows, among
    them the receipt."""
    printed = run(house, harness, event, said, **more)
    if not printed:
        return ""
    parsed = json.loads(printed)
    assert parsed.pop("systemMessage", "Ormah: ").startswith("Ormah: ")
    assert parsed == {
        "hookSpecificOutput": {
            "hookEventName": event,
            "additionalContext": parsed["hookSpecificOutput"]["additionalContext"],
        }
    }
    text: str = parsed["hookSpecificOutput"]["additionalContext"]
    assert 0 < len(text) < 9_000
    return text


def ask(house: House, prompt: str, session_id: str, **more: Any) -> str:
    said = {"prompt": prompt, "session_id": session_id, "cwd": str(house.home), **more}
    return context(house, "claude-code", "UserPromptSubmit", said)


def count(house: House, select: str) -> int:
    with contextlib.closing(sqlite3.connect(f"file:{house.state / 'state.sqlite3'}?mode=ro", uri=True)) as db:
        return int(db.execute(select).fetchone()[0])


def start(house: House, session_id: str, source: str, harness: str = "claude-code", **more: Any) -> str:
    said = {"session_id": session_id, "source": source, "cwd": str(house.home), **more}
    return context(house, harness, "SessionStart", said)


@pytest.mark.parametrize("harness", PROMPT_EVENT)
def test_a_prompt_is_answered_in_the_words_of_each_harness(house: House, harness: str) -> None:
    said = {
        "prompt": PROMPT,
        "session_id": session(),
        "cwd": "/tmp",
        "transcript_path": None,
        "turn_id": "1",
        "model": "m",
    }
    text = context(house, harness, PROMPT_EVENT[harness], said)
    assert text.startswith(REMEMBERS if harness == "gemini" else WHISPERS)
    assert "Postgres, chosen for its indexes" in text
    assert text.splitlines()[-1].startswith("<!-- ormah:whisper ")


@pytest.mark.parametrize("harness", PROMPT_EVENT)
def test_silence_is_no_output(house: House, harness: str) -> None:
    for prompt in rows(__file__, "silence_is_no_output"):
        said = {"prompt": PROMPT, "session_id": session(), "cwd": "/tmp"}
        run(house, harness, PROMPT_EVENT[harness], said)  # Gemini CLI gets its greeting with it
        assert run(house, harness, PROMPT_EVENT[harness], said | {"prompt": prompt}) == b""


@pytest.mark.parametrize(("harness", "event"), rows(__file__, "the_end_of_something_is_taken_note_of_in_silence"))
def test_the_end_of_something_is_taken_note_of_in_silence(house: House, harness: str, event: str) -> None:
    said = {
        "session_id": session(),
        "transcript_path": "/nowhere/t.jsonl",
        "reason": "other",
        "prompt_response": "x",
        "prompt": PROMPT,
    }
    assert run(house, harness, event, said) == b""


def test_nothing_is_said_twice_in_a_session(house: House) -> None:
    one = session()
    assert "Postgres" in ask(house, PROMPT, one)
    assert ask(house, PROMPT + " tell me again", one) == ""
    assert "Postgres" in ask(house, PROMPT, session())


def test_a_session_begins_with_this_projects_core_memories_then_the_global_ones_then_who_the_user_is(
    house: House,
) -> None:
    text = start(house, session(), "startup")
    assert text.startswith(REMEMBERS)
    titles = [line.partition("** ")[2].partition(" (id:")[0] for line in text.splitlines() if line.startswith("- **[")]
    assert titles == ["Deploy day", "Prefers tabs"]
    assert "Ada Person" not in text, "of whom nothing is known but the name"
    assert len(text) < 1_600
    said = {"session_id": session(), "source": "startup", "cwd": "/tmp"}
    there = context(house, "claude-code", "SessionStart", said, env={"ORMAH_SPACE": "kiosk"})
    assert there.index("Kiosk colours") < there.index("Deploy day") < there.index("Prefers tabs")


def test_what_is_written_about_the_user_is_told_last() -> None:
    with open_house() as house:
        house.start()
        house.call("agent.remember", content="Deploys happen on Fridays.", title="Deploy day", tier="core", space=None)
        (me,) = [path for path in house.notes() if "ada-person" in path]
        assert start(house, session(), "startup").count("- **[") == 1
        node = next(line.split()[1] for line in house.notes()[me].decode().splitlines() if line.startswith("id: "))
        house.call("agent.update", node_id=node, content="Ada is a printer in Galway and answers for the presses.")
        text = start(house, session(), "startup")
        assert text.index("Deploy day") < text.index("a printer in Galway")


@pytest.mark.parametrize("harness", PROMPT_EVENT)
def test_a_reply_shows_whether_a_memory_was_used(house: House, harness: str) -> None:
    ending = {"gemini": ("AfterAgent", "prompt_response")}.get(harness, ("Stop", "last_assistant_message"))
    used = {}
    for reply in ("I moved the tables to Postgres, whose indexes fit.", "Which of the two do you mean?"):
        about = {"session_id": session(), "cwd": str(house.home)}
        context(house, harness, PROMPT_EVENT[harness], {"prompt": PROMPT, **about})
        for _ in range(2):
            assert run(house, harness, ending[0], {ending[1]: reply, **about}) == b""
        (logged,) = [one for one in house.call("agent.whispers", limit=1).whispers if one.memories]
        used[reply] = [one.heeded for one in logged.memories if one.title == "Shop database: Postgres"]
    assert list(used.values()) == [[True], [False]]


def test_what_a_session_was_told_is_not_told_again(house: House) -> None:
    one = session()
    assert "Deploy day" in start(house, one, "startup")
    assert start(house, one, "resume") == ""
    assert ask(house, "on which day do deploys happen after the tests of the night", one) == ""
    added = house.call("agent.remember", content="Releases are tagged by Noor alone.", title="Tags", tier="core")
    text = start(house, one, "resume")
    assert "Tags" in text
    assert "Deploy day" not in text
    house.call("agent.forget", node_id=added.node_id)


@pytest.mark.parametrize("source", ["compact", "clear"])
def test_after_a_compaction_and_in_a_cleared_session_what_is_due_is_given_again(house: House, source: str) -> None:
    one = session()
    start(house, one, "startup")
    assert "Postgres" in ask(house, PROMPT, one)
    assert "Deploy day" in start(house, one, source)
    assert "Postgres" in ask(house, "what speaks for Postgres as the shop's database?", one)


def test_a_session_that_is_resumed_and_was_never_seen_is_told(house: House) -> None:
    assert "Deploy day" in start(house, session(), "resume", harness="codex")


def test_the_agent_is_reminded_every_so_often_also_in_silence(house: House) -> None:
    one = session()
    said = [ask(house, f"zebras of Madagascar, number {number}", one) for number in range(6)]
    assert [bool(text) for text in said] == [False, False, True] * 2
    for _ in range(3):  # nobody's prompts are not counted
        assert ask(house, "/compact", one) == ""
    assert [bool(ask(house, f"zebras of Madagascar, number {number}", one)) for number in range(6, 9)] == [
        False,
        False,
        True,
    ]
    assert 'remember "…" --type decision`' in said[2]
    assert WHISPERS not in said[2]
    spoke = session()
    for number in range(2):
        ask(house, f"zebras of Madagascar, number {number}", spoke)
    text = ask(house, PROMPT, spoke)
    assert "Postgres" in text
    assert "feedback ID +1 --event E`" in text
    assert [line.startswith("<!-- ormah:whisper") for line in text.splitlines()].count(True) == 1
    assert text.splitlines()[-1].startswith("<!-- ormah:whisper ")


def test_an_agent_of_an_agent_is_neither_answered_nor_counted(house: House) -> None:
    one = session()
    for number in range(3):
        assert ask(house, PROMPT, one, agent_id=f"a-{number}", agent_type="Explore") == ""
    assert start(house, one, "startup", agent_id="a-1") == ""
    assert "Postgres" in ask(house, PROMPT, one, agent_type="reviewer")  # a session of a person's, with an agent's name


def test_without_a_session_it_answers_each_time(house: House) -> None:
    for strange in (None, "", "  ", 7, ["x"], "s" * 5_000):
        for _ in range(2):
            assert "Postgres" in ask(house, PROMPT, strange)  # type: ignore[arg-type]


def test_a_session_is_remembered_over_a_restart() -> None:
    with open_house() as house:
        house.start()
        for memory in MEMORIES:
            house.call("agent.remember", **memory)
        one = session()
        assert "Postgres" in ask(house, PROMPT, one)
        start(house, one, "startup")
        assert "Postgres" in ask(house, PROMPT, one)
        house.restart()
        assert ask(house, PROMPT + " tell me again", one) == ""
        assert start(house, one, "resume") == ""


def test_the_space_is_where_the_session_works(house: House, tmp_path: Path) -> None:
    kiosk = tmp_path / "kiosk"
    kiosk.mkdir()
    subprocess.run(["git", "init", "-q", str(kiosk)], check=True)
    (kiosk / "src").mkdir()
    green = "Kiosk colours"
    said = {"session_id": session(), "source": "startup"}
    for cwd, where, environ, expected in (
        (str(kiosk / "src"), house.home, {}, True),  # what the harness says comes before where its hook runs
        (str(house.home), kiosk, {}, False),
        (None, kiosk, {}, True),
        (7, kiosk, {}, True),
        ("", kiosk, {}, True),
        (str(house.home), house.home, {"ORMAH_SPACE": "kiosk"}, True),
        (str(kiosk), kiosk, {"ORMAH_SPACE": "global"}, False),
        (str(kiosk), kiosk, {"ORMAH_SPACE": "elsewhere"}, False),
        (str(kiosk), kiosk, {"ORMAH_SPACE": "  "}, True),
    ):
        text = context(house, "claude-code", "SessionStart", said | {"cwd": cwd}, cwd=where, env=environ)
        assert (green in text) == expected, (cwd, where, environ)


def test_a_daemon_that_hangs_is_left_and_what_nobody_read_was_not_said(house: House) -> None:
    one = session()
    house.signal(signal.SIGSTOP)
    try:
        said = {"prompt": PROMPT, "session_id": one, "cwd": "/tmp"}
        assert run(house, "claude-code", "UserPromptSubmit", said, deadline=300) == b""
    finally:
        house.signal(signal.SIGCONT)
    assert "Postgres" in ask(house, PROMPT, one)


def test_an_answer_that_nobody_waits_for_is_logged_as_unread(house: House) -> None:
    """The peer hangs up while its prompt is being answered: as often as it takes to hit that moment."""

    def hang_up() -> bool:
        said = json.dumps({"prompt": PROMPT, "session_id": session()}).encode()
        body = b"claude-code\0UserPromptSubmit\0/tmp\0\0" + said
        with socket.socket(socket.AF_UNIX) as peer:
            peer.connect(os.fspath(house.socket))
            peer.sendall(b"h" + len(body).to_bytes(4, "big") + body)
            time.sleep(0.002)  # not a wait for something: somewhere within the answer
        return count(house, "SELECT count(*) FROM whisper_event WHERE outcome = 'unread'") > 0

    wait_until(hang_up, "an answer was under way when its asker went")
    unread = "SELECT count(*) FROM whisper_log JOIN whisper_event USING (event) WHERE outcome = 'unread'"
    assert not count(house, f"{unread} AND (was_injected OR shown IS NOT NULL)")


def test_much_text_of_a_script_with_long_characters_stays_below_what_codex_takes() -> None:
    """Codex counts bytes: 9,000 characters of Chinese are 27,000."""
    most = {"INJECTION_GATE": "0"}
    with open_house(**{f"ORMAH_WHISPER_{name}": value for name, value in most.items()}) as house:
        house.start()
        for name in ("订单", "库存", "客户", "发票", "物流", "报表"):  # of different matters: none replaces another
            text = f"商店的{name}数据库选择了现在的方案。" + f"因为{name}的索引很好用而且团队熟悉它。" * 100
            house.call("agent.remember", content=text, title=f"商店{name}数据库")
        said = {"prompt": "我们为商店选择了哪个数据库方案?", "session_id": session(), "cwd": "/tmp"}
        text = context(house, "codex", "UserPromptSubmit", said)
        assert "数据库" in text
        assert 2_000 < len(text.encode()) < 10_000  # one in full at least: which are, hangs on the ids
        assert text.splitlines()[-1].startswith("<!-- ormah:whisper ")


def test_spaces_without_whispers_and_whispering_switched_off() -> None:
    with open_house(ORMAH_WHISPER_SILENT_SPACES="diary") as house:
        house.start()
        for memory in MEMORIES:
            house.call("agent.remember", **memory)
        said = {"prompt": PROMPT, "session_id": session(), "cwd": "/tmp", "source": "startup"}
        for event in ("UserPromptSubmit", "SessionStart"):
            assert run(house, "claude-code", event, said, env={"ORMAH_SPACE": "diary"}) == b""
        assert not count(house, "SELECT count(*) FROM whisper_event")  # nor is anything of it kept
        assert not count(house, "SELECT count(*) FROM session")
        for event in ("UserPromptSubmit", "SessionStart"):
            assert run(house, "claude-code", event, said) != b""
        assert count(house, "SELECT count(*) FROM whisper_event") == 1


def test_the_same_through_the_command(house: House) -> None:
    said = json.dumps({"prompt": PROMPT, "cwd": "/tmp"})
    for words, event in rows(__file__, "the_same_through_the_command"):  # fmt: skip
        done = house.ctl(*words, "--deadline", "10000", input=said)
        assert (done.returncode, done.stderr) == (0, "")
        parsed = json.loads(done.stdout)["hookSpecificOutput"]
        assert parsed["hookEventName"] == event
        assert "Postgres" in parsed["additionalContext"]
    for words in (["hook", "Stop"], ["hook", "NoSuchEvent"]):
        done = house.ctl(*words, input=said)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_command_never_fails(house: House) -> None:
    for words in (["hook"], ["hook", "Stop", "--harness", "emacs"], ["hook", "Stop", "--nope"]):
        done = house.ctl(*words, input="{}")
        assert (done.returncode, done.stdout) == (0, "")
        assert done.stderr.startswith("error: ")
    away = {"ORMAH_SOCKET": str(house.home / "nobody")}
    for given in ("", "not json", '{"prompt": "x"}'):
        done = house.ctl("hook", "UserPromptSubmit", input=given, env=away)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_person_sees_what_was_told_once(house: House) -> None:
    about = {"session_id": session(), "cwd": str(house.home)}
    line = [sys.executable, "-m", "ormahctl", "--socket", str(house.socket), "statusline"]

    def status(**said: Any) -> str:
        return subprocess.run(line, input=json.dumps(said), capture_output=True, text=True, check=True).stdout

    def receipt(event: str, **said: Any) -> str | None:
        printed = run(house, "claude-code", event, said | about)
        return json.loads(printed)["systemMessage"] if printed else None

    assert status(**about) == "Ormah: nothing told yet"
    assert receipt("SessionStart", source="startup") == "Ormah: 2 memories told"
    assert receipt("UserPromptSubmit", prompt=PROMPT) == "Ormah: 1 memory told (Shop database: Postgres)"
    assert receipt("UserPromptSubmit", prompt=PROMPT) is None
    assert status(**about) == "Ormah: 3 memories told"
    assert status(session_id="another") == "Ormah: nothing told yet"
