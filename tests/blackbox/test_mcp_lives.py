"""Sessions live on when gateway and daemon are killed, and processes do not when their agents are gone."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ormahctl.gateway import reach
from ormahd.vault.merge_driver import SHIM
from tests.blackbox.talking import ERAS, SCRIPT, ids, talking
from tests.house import House, open_house, wait_until
from tests.tables import NUMBERS

HELLO = {
    "jsonrpc": "2.0", "id": 0, "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}},
}  # fmt: skip


def gateway_pid(house: House) -> int:
    found = wait_until(lambda: reach.status(house.socket), "the gateway answers")
    return int(found["pid"])


def is_running(pid: int) -> bool:
    """Whether a thread of it lives: sockets are closed by the last one."""
    try:
        states = [
            (one / "stat").read_text().rpartition(")")[2].split()[0] for one in Path(f"/proc/{pid}/task").iterdir()
        ]
    except OSError:
        return Path(f"/proc/{pid}/task").is_dir()  # a thread ended while it was read
    return any(state not in "ZX" for state in states)


def halt(pid: int) -> None:
    os.kill(pid, signal.SIGSTOP)
    tasks = Path(f"/proc/{pid}/task")
    states = lambda: {(one / "stat").read_text().rpartition(")")[2].split()[0] for one in tasks.iterdir()}  # noqa: E731
    wait_until(lambda: states() == {"T"}, "each of its threads has stopped")


def kill_gateway(house: House) -> int:
    pid = gateway_pid(house)
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not is_running(pid), "the gateway is dead")
    return pid


@pytest.mark.parametrize("era", ERAS)
def test_the_gateway_is_killed_and_the_session_goes_on(shared: House, era: str) -> None:
    with talking(shared, era) as talk:
        content = f"The {era} heron waits in the reeds."
        node = talk.remember(content)
        before = kill_gateway(shared)
        assert ids(talk.fine("recall", query=content))[0] == node
        assert gateway_pid(shared) != before
        kill_gateway(shared)
        assert len(talk.do(talk.client.list_tools).tools) == 11


def test_a_daemon_that_hangs_is_an_error_and_no_silence(shared: House) -> None:
    with talking(shared) as talk:
        talk.fine("recall", query="heron")
        pid = gateway_pid(shared)
        assert shared.process
        halt(shared.process.pid)
        try:
            assert "did not answer in time" in talk.wrong("recall", query="heron"), (
                "and the gateway, asked meanwhile, is there"
            )
        finally:
            shared.signal(signal.SIGCONT)
        assert gateway_pid(shared) == pid


def changes(house: House, content: str) -> list[str]:
    return [line for line in house.git("log", "--format=%s").splitlines() if content in line]


@pytest.mark.parametrize("era", ERAS)
def test_a_call_that_was_under_way_is_answered_by_an_error(shared: House, era: str) -> None:
    """Killed at any instant of a call: the agent hears of it, and storing the memory once more stores it once."""
    chance = random.Random(7)
    with talking(shared, era) as talk:
        for number in range(3):
            content = f"Heron {number} of {era}"
            shared.signal(signal.SIGSTOP)  # the daemon answers after the kill
            under_way = talk.begin("remember", content=content)
            time.sleep(chance.random() * 0.05)
            kill_gateway(shared)
            shared.signal(signal.SIGCONT)
            found = under_way.exception(120)  # None: it was not sent before the gateway had ended
            assert found is None or "it ended" in str(found)
            assert found is None or "Try again" in str(found)
            talk.fine("remember", content=content)
            wait_until(lambda content=content: len(changes(shared, content)) == 1, "one commit")


def test_the_daemon_is_killed_and_the_session_goes_on(daemon: House) -> None:
    with talking(daemon) as talk:
        talk.fine("remember", content="The heron waits in the reeds.")
        daemon.kill()
        said = talk.wrong("recall", query="heron")
        assert "is not running" in said
        assert "ormahctl up" in said
        daemon.start()
        assert ids(talk.fine("recall", query="heron"))
        daemon.restart()
        talk.fine("remember", content="The heron has flown away.")
        daemon.kill()
        kill_gateway(daemon)
        daemon.start()
        assert len(ids(talk.fine("recall", query="heron"))) == 2


def test_without_a_daemon_the_session_begins_and_says_so(house: House) -> None:
    with talking(house) as talk:
        assert len(talk.do(talk.client.list_tools).tools) == 11
        assert "is not running" in talk.wrong("recall", query="heron")


def test_a_daemon_that_is_down_is_started() -> None:
    with open_house(ORMAH_DAEMON_AUTOSTART="true") as house:
        env = {"ORMAH_SOCKET": ""}  # the configured one, which commands may start
        socket = house.home / "runtime_dir" / "ormah"
        with talking(house, env=env) as talk:

            def answered() -> bool:
                return not talk.call("remember", content="The heron waits in the reeds.").is_error

            wait_until(answered, "the daemon has started")
        (found,) = [path for path in socket.iterdir() if path.name.endswith(".sock")]
        house.settings["ORMAH_SOCKET"] = str(found)
        assert house.ctl("status").returncode == 0
        assert "gateway" in house.ctl("status", "--verbose").stdout
        assert house.ctl("down").returncode == 0
        assert reach.status(found) is None


def answers(house: House, *requests: dict[str, Any]) -> list[dict[str, Any]]:
    done = house.ctl("mcp", input="".join(json.dumps(one) + "\n" for one in requests))
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_gateway_that_cannot_start_is_an_error_and_no_silence(house: House) -> None:
    blocked = house.home / "s.gateway.lock"
    blocked.mkdir()
    (found,) = answers(house, HELLO)
    assert found["error"]["code"] == -32000
    assert "Is a directory" in found["error"]["message"]
    blocked.rmdir()
    (found,) = answers(house, HELLO)
    assert found["result"]["serverInfo"]["name"] == "ormah"


def test_what_the_agent_cancelled_is_not_waited_for(shared: House) -> None:
    call = {
        "jsonrpc": "2.0",
        "id": 5,
        "method": "tools/call",
        "params": {"name": "recall", "arguments": {"query": "heron"}},
    }
    ids: list[Any] = [[5], {"of": 5}, None, 5.5, True, "5", 5]
    given: list[Any] = [
        [5],
        [],
        "5",
        5,
        None,
        True,
        {},
        {"reason": [5]},
        {"requestId": 6, "reason": {}},
        *({"requestId": one} for one in ids),
    ]
    cancelled = [{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": one} for one in given]
    shared.signal(signal.SIGSTOP)
    try:
        found = answers(shared, HELLO, {"jsonrpc": "2.0", "method": "notifications/initialized"}, call, *cancelled)
    finally:
        shared.signal(signal.SIGCONT)
    assert [one["id"] for one in found] == [0]


def test_a_number_that_no_computer_counts_with_is_an_answer_to_its_request(shared: House) -> None:
    calls = [
        f'{{"jsonrpc": "2.0", "id": "{name}", "method": "tools/call", "params": {{"name": "recall", "arguments": {{"query": "x", "limit": {number}}}}}}}\n'
        for name, number in NUMBERS.items()
    ]
    done = shared.ctl("mcp", input=json.dumps(HELLO) + "\n" + "".join(calls))
    found = {one["id"]: one for one in map(json.loads, done.stdout.splitlines())}
    assert found.keys() == {HELLO["id"], *NUMBERS}
    assert [name for name in NUMBERS if "error" not in found[name] and not found[name]["result"].get("isError")] == []


def test_without_a_home_it_says_so(house: House) -> None:
    bare = {"PATH": os.environ["PATH"], "ORMAH_SOCKET": "relative/s"}
    gone = house.home / "gone"
    gone.mkdir()
    done = subprocess.run(
        ["sh", "-c", 'rmdir "$PWD"; exec "$0" -I -S "$1" --mcp', sys.executable, str(SHIM)], env=bare, cwd=gone, input=b"",
        capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == 69
    assert done.stderr.endswith(b"pass --socket PATH\n")


def test_a_sandbox_starts_none(house: House) -> None:
    done = house.ctl("mcp", input=json.dumps(HELLO) + "\n", env={"CODEX_SANDBOX": "seatbelt"})
    assert "sandbox" in json.loads(done.stdout)["error"]["message"]
    assert not (house.home / "s.gateway.lock").exists()


# ---------------------------------------------------------------- the end of processes


PARENT = textwrap.dedent("""
    import os, subprocess, sys
    count = int(sys.argv[1])
    keeper_in, keeper_out = os.pipe()
    # a process that survives the parent and holds the pipes open: nothing tells the pumps but their watchdog
    keeper = subprocess.Popen(["sleep", "600"], pass_fds=[keeper_out], start_new_session=True)
    pumps = [subprocess.Popen([sys.executable, "-c", sys.argv[2], "mcp"], stdin=keeper_in, stdout=subprocess.DEVNULL, start_new_session=True) for _ in range(count)]
    print(keeper.pid, *[pump.pid for pump in pumps], flush=True)
    sys.stdin.read()
""")


def orphans(house: House, count: int) -> tuple[subprocess.Popen[str], int, list[int]]:
    """A parent with pumps whose input stays open when it dies: it, the process that keeps the input open, and the pumps."""
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(count), SCRIPT], env=house.env, cwd=house.home, stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert parent.stdout
    keeper, *pumps = map(int, parent.stdout.readline().split())
    return parent, keeper, pumps


@pytest.fixture(params=[pytest.param(6), pytest.param(50, marks=pytest.mark.soak)])
def count(request: pytest.FixtureRequest) -> int:
    return int(request.param)


def test_no_pump_outlives_its_parent(shared: House, count: int) -> None:
    parent, keeper, pumps = orphans(shared, count)
    try:
        wait_until(lambda: (reach.status(shared.socket) or {}).get("sessions") == count, "all sessions have begun")
        pid = gateway_pid(shared)
        for pump in pumps[::2]:
            os.kill(pump, signal.SIGKILL)
        parent.kill()
        parent.wait()
        begun = time.monotonic()
        wait_until(lambda: not any(map(is_running, pumps)), "every pump has ended")
        print(f"{count} pumps ended {time.monotonic() - begun:.1f} s after their parent")
        wait_until(lambda: (reach.status(shared.socket) or {}).get("sessions") == 0, "the gateway knows")
        assert gateway_pid(shared) == pid, "it serves others"
    finally:
        os.kill(keeper, signal.SIGKILL)


def test_many_begin_at_once_and_share_one_gateway(shared: House, count: int) -> None:
    reach.stop(shared.socket)
    wait_until(lambda: reach.status(shared.socket) is None, "no gateway runs")
    pumps = [
        subprocess.Popen(
            [sys.executable, "-c", SCRIPT, "mcp"],
            env=shared.env,
            cwd=shared.home,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for _ in range(count)
    ]
    for pump in pumps:
        assert pump.stdin
        pump.stdin.write(json.dumps(HELLO).encode() + b"\n")
        pump.stdin.flush()
    for pump in pumps:
        assert pump.stdout
        assert b"serverInfo" in pump.stdout.readline()
    assert (reach.status(shared.socket) or {})["sessions"] == count
    mine = [
        proc
        for proc in Path("/proc").glob("[0-9]*")
        if _has(proc, "ormahctl.gateway.main") and _has(proc, os.fspath(shared.socket))
    ]
    assert len(mine) == 1
    for pump in pumps:
        pump.communicate(timeout=120)
        assert pump.returncode == 0


def _has(proc: Path, word: str) -> bool:
    try:
        return word.encode() in (proc / "cmdline").read_bytes()
    except OSError:
        return False


@pytest.fixture(autouse=True)
def _no_session_is_left(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "shared" in request.fixturenames:
        house: House = request.getfixturevalue("shared")
        wait_until(lambda: (reach.status(house.socket) or {"sessions": 0})["sessions"] == 0, "every session has ended")


def test_the_last_answer_is_written_before_the_end(shared: House) -> None:
    """A person who pipes requests into it gets each answer."""
    many = [{"jsonrpc": "2.0", "id": number, "method": "ping"} for number in range(1, 200)]
    found = answers(shared, HELLO, *many)
    assert sorted(one["id"] for one in found) == list(range(200))


def _odd_lines(chance: random.Random, count: int) -> Iterator[bytes]:
    """Lines that no client should send: wrong types everywhere, bytes that are no text, and halves of messages."""
    values: list[Any] = [
        None,
        True,
        -1,
        2**70,
        1.5,
        "",
        "x" * 5_000,
        [],
        {},
        [[[]]],
        {"id": 1},
        "\u0000",
        "\ud800",
        "initialize",
    ]
    methods = [
        "initialize",
        "tools/call",
        "tools/list",
        "ping",
        "notifications/initialized",
        "notifications/cancelled",
        "roots/list",
    ]
    for number in range(count):
        message: dict[str, Any] = {"jsonrpc": "2.0", "id": f"odd {number}", "method": chance.choice(methods)}
        for name in chance.sample(
            ["jsonrpc", "id", "method", "params", "result", "error", "extra"], chance.randint(1, 4)
        ):
            message[name] = chance.choice(values)
        if chance.random() < 0.3:
            message["params"] = {
                "name": chance.choice(["remember", "recall", *values]),
                "arguments": chance.choice(values),
            }
        line = json.dumps(chance.choice([message, [message], message, list(message)])).encode()
        cut = chance.randint(0, len(line)) if chance.random() < 0.2 else len(line)
        yield line[:cut] + chance.choice([b"", b"", b"", b"\xff\xfe", b"\0", b"}"]) + b"\n"


def test_odd_messages_end_no_session(shared: House) -> None:
    chance = random.Random(11)
    pings = [
        json.dumps({"jsonrpc": "2.0", "id": f"ping {number}", "method": "ping"}).encode() + b"\n"
        for number in range(20)
    ]
    lines = [json.dumps(HELLO).encode() + b"\n"]
    for ping in pings:
        lines += [*_odd_lines(chance, 20), ping]
    half = b'{"jsonrpc":"2.0","id":"half","method":"tools/call","params":{"name":"recall","arguments":{"query":"\\ud83d"}}}\n'
    marked = b"\xef\xbb\xbf" + json.dumps({"jsonrpc": "2.0", "id": "marked", "method": "ping"}).encode() + b"\n"
    done = shared.ctl("mcp", input=b"".join([lines[0], half, marked, *lines[1:]]))
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert {one.get("id") for one in answers} >= {f"ping {number}" for number in range(20)}
    assert ["surrogate" in one["error"]["message"] for one in answers if one.get("id") == "half"] == [True]
    assert ["result" in one for one in answers if one.get("id") == "marked"] == [True], (
        "a byte order mark is passed over"
    )
    assert "Traceback" not in (shared.home / "s.gateway.log").read_text()


def test_an_agent_that_is_killed_before_it_reads_is_no_fault(shared: House) -> None:
    def sessions() -> int:
        return int((reach.status(shared.socket) or {"sessions": 0})["sessions"])

    with talking(shared):
        before = sessions()
        command = [sys.executable, "-I", "-S", str(SHIM), "--mcp", "--socket", str(shared.socket)]
        agent = subprocess.Popen(command, env=shared.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        listing = [{"jsonrpc": "2.0", "id": number, "method": "tools/list"} for number in range(1, 200)]
        with agent:
            assert agent.stdin is not None
            agent.stdin.write("".join(json.dumps(one) + "\n" for one in (HELLO, *listing)).encode())
            agent.stdin.flush()
            wait_until(lambda: sessions() > before, "the session is open")
            agent.kill()
        wait_until(lambda: sessions() == before, "the session has ended")
    assert "Traceback" not in (shared.home / "s.gateway.log").read_text()


def test_closed_streams_are_the_end(shared: House) -> None:
    for closed in ("<&-", ">&-", "<&- >&-"):
        done = subprocess.run(
            ["sh", "-c", f'exec "$0" -I -S "$1" --mcp {closed}', sys.executable, str(SHIM)], env=shared.env, cwd=shared.home,
            stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=120,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, b"")


def test_a_large_message_passes_both_ways(shared: House) -> None:
    with talking(shared) as talk:
        huge = "whale " * 150_000
        said = talk.fine("recall_node", node_id=talk.remember(huge, title="A large one"))
        assert f"of {len(huge.strip()):,} characters" in said
