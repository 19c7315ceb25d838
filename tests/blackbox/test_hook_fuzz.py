"""Whatever stdin a hook gets: status 0, valid output or none, and a daemon that is none the worse for it."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ormahd.vault.merge_driver import SHIM
from tests.examples import examples
from tests.house import House
from tests.tables import rows

EVENTS = rows(__file__, "events")  # fmt: skip
SPEAKING = {"UserPromptSubmit", "SessionStart", "BeforeAgent"}
GOOD = {
    "session_id": "s-1", "transcript_path": "/tmp/t.jsonl", "cwd": "/tmp", "hook_event_name": "UserPromptSubmit",
    "permission_mode": "default", "prompt": "which database did we choose for the shop?", "source": "startup",
    "model": "m", "turn_id": "t", "agent_id": None, "trigger": "auto", "stop_hook_active": False,
}  # fmt: skip
STRANGE: list[bytes] = [
    b"", b" ", b"\n", b"\0", b"\0" * 100_000, b"null", b"true", b"42", b"-0", b"1e999", b'"text"', b"[]", b"{}", b"{", b"}{",
    b'{"prompt"', b'{"prompt":}', b"\xef\xbb\xbf{}", b"\xff\xfe{\0}\0", b"\x80\x81", b"{'prompt': 'x'}", b"not json at all",
    b'{"prompt": null}', b'{"prompt": 5}', b'{"prompt": []}', b'{"prompt": {}}', b'{"prompt": true}', b'{"prompt": ""}',
    b'{"prompt": "a", "prompt": 7}', b'{"prompt": "\\ud800"}', b'{"prompt": "\\udfff\\ud800 x"}', b'{"prompt": "\xed\xa0\x80"}',
    b'{"prompt": "\\u0000\\u0001\\u001b[2J"}', b'{"prompt": "a\0b"}', b'{"prompt": "a\nb"}', b'{"prompt": "x", "session_id": 7}',
    b'{"prompt": "x", "session_id": "", "cwd": ""}', b'{"prompt": "x", "session_id": {"a": 1}, "cwd": [1], "source": 9}',
    b'{"prompt": "which database", "session_id": "a\\u0000b", "cwd": "/a\\u0000b"}',
    b'{"prompt": "which database", "cwd": "../../etc", "session_id": "\'; DROP TABLE session; --"}',
    b'{"prompt": "x", "n": 1' + b"0" * 5000 + b"}", b'{"prompt": 1' + b"0" * 5000 + b"}", b'{"prompt": "x", "agent_id": 1e400}',
    b"[" * 200_000, b'{"a":' * 100_000, b'{"prompt": "x", "deep": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    json.dumps({"prompt": "word " * 2_000_000}).encode(), json.dumps({"prompt": "x", "pad": "y" * 10_000_000}).encode(),
    b"x" * 10_000_000, json.dumps({"prompt": "which database", "session_id": "s" * 100_000, "cwd": "/" + "d/" * 50_000}).encode(),
    b'{"prompt": "' + b"\\u00e9" * 50_000 + b'"}', '{"prompt": "Який це 数据库 أي قاعدة؟ 🦉"}'.encode(),
]  # fmt: skip


MEMORIES = {
    "Shop database: Postgres": "The shop's database is Postgres, chosen for its indexes.",
    "Deploy day": "Deploys happen on Fridays, after the tests of the night.",
    "Parser: written by hand": "The parser is written by hand, because the generator's errors were unreadable.",
    "Garden": "Tomatoes stand along the south wall; the hose is in the shed.",
}


@pytest.fixture(autouse=True)
def unharmed(shared: House) -> Any:
    """After each test the daemon answers as before, and stumbled over nothing."""
    if not shared.call("admin.stats").by_type.get("decision"):
        for title, text in MEMORIES.items():
            shared.call("agent.remember", content=text, type="decision", title=title)
    yield
    health = shared.call("admin.health")
    assert (health.status, health.phase) == ("ok", "ready")
    found = shared.call("agent.recall", query="which database did we choose for the shop")
    assert found.results
    log = next(shared.state.glob("*.log")).read_text()
    assert "internal" not in log
    assert "Traceback" not in log


def valid(said: bytes, event: str) -> None:
    """Nothing, or exactly what the harness takes."""
    if not said:
        return
    assert event in SPEAKING
    assert len(said.decode()) < 10_000
    parsed = json.loads(said)
    assert set(parsed) - {"systemMessage"} == {"hookSpecificOutput"}
    assert set(parsed["hookSpecificOutput"]) == {"hookEventName", "additionalContext"}
    assert parsed["hookSpecificOutput"]["hookEventName"] == event
    assert isinstance(parsed["hookSpecificOutput"]["additionalContext"], str)


def shim(house: House, harness: str, event: str, given: bytes, deadline: int = 10_000) -> bytes:
    words = ["--hook", event, "--harness", harness, "--socket", str(house.socket), "--deadline", str(deadline)]
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(SHIM), *words], input=given, capture_output=True, timeout=120, cwd=house.home
    )
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout


def body(harness: str, event: str, given: bytes, cwd: bytes = b"/tmp", space: bytes = b"") -> bytes:
    return b"\0".join((harness.encode(), event.encode(), cwd, space, given))


def test_what_is_whispered_for_a_good_one(shared: House) -> None:
    """Else the tests below would be content with a hook that never says anything."""
    said = shim(shared, "claude-code", "UserPromptSubmit", json.dumps(GOOD | {"session_id": "good"}).encode())
    valid(said, "UserPromptSubmit")
    assert b"Postgres" in said


@pytest.mark.parametrize("number", range(len(STRANGE)))
def test_strange_stdin_straight_at_the_socket(shared: House, number: int) -> None:
    with shared.connect() as connection:
        for harness, event in EVENTS:
            valid(connection.hook(body(harness, event, STRANGE[number]), 60.0), event)


def test_frames_of_every_shape(shared: House) -> None:
    pieces = [b"claude-code", b"UserPromptSubmit", b"/tmp", b"shop", json.dumps(GOOD).encode()]
    with shared.connect() as connection:
        for count in range(len(pieces)):
            assert connection.hook(b"\0".join(pieces[:count]), 60.0) == b""
        for number in range(4):
            for strange in (b"", b"\xff\xfe", b"x" * 1_000_000, "ß".encode(), b"\n", b"../..", b"%s{}"):
                changed = [*pieces[:number], strange, *pieces[number + 1 :]]
                valid(connection.hook(b"\0".join(changed), 60.0), "UserPromptSubmit")
        for harness, event in rows(__file__, "frames_of_every_shape"):
            assert connection.hook(body(harness, event, pieces[4]), 60.0) == b""


def test_changed_bytes(shared: House) -> None:
    """Good input with a byte changed, taken out, doubled or put in, some hundred times."""
    chance = random.Random(4)
    with shared.connect() as connection:
        for number in range(600):
            harness, event = EVENTS[number % len(EVENTS)]
            data = bytearray(body(harness, event, json.dumps(GOOD | {"session_id": f"f-{number // 40}"}).encode()))
            for _ in range(chance.choice((1, 1, 2, 8, 40))):
                at = chance.randrange(len(data))
                match chance.randrange(4):
                    case 0:
                        data[at] = chance.randrange(256)
                    case 1:
                        del data[at]
                    case 2:
                        data[at:at] = bytes(chance.choices(b'\0"\\{}[]:,ud8\xed\xff\x1b', k=chance.randrange(1, 6)))
                    case _:
                        data += data[at : at + 200]
            said = connection.hook(bytes(data), 60.0)
            if said:
                valid(said, json.loads(said)["hookSpecificOutput"]["hookEventName"])


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.text(st.characters(exclude_categories=[])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=examples(150), suppress_health_check=list(HealthCheck))
@given(
    said=st.dictionaries(st.sampled_from(sorted(GOOD)) | st.text(), _VALUES, max_size=12),
    number=st.integers(0, len(EVENTS) - 1),
)
def test_json_of_any_types(shared: House, said: dict[str, Any], number: int) -> None:
    harness, event = EVENTS[number]
    given = json.dumps(said, ensure_ascii=number % 2 == 0).encode("utf-8", "surrogatepass")
    with shared.connect() as connection:
        valid(connection.hook(body(harness, event, given), 60.0), event)
