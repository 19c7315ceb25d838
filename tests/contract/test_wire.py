"""The client's side: every way in which a daemon can be absent has its own sentence, and nothing hangs."""

from __future__ import annotations

import os
import platform
import socket
import subprocess
import sys
import threading

import pytest

from ormahd.errors import BadRequest, Incompatible, Unavailable
from ormahd.rpc.wire import connect, pack
from tests.contract.serving import Answers, serving


def unavailable(path, **more) -> Unavailable:
    with pytest.raises(Unavailable) as caught:
        connect(path, **more)
    assert caught.value.hint
    assert caught.value.exit_status == 69
    return caught.value


def test_no_socket_and_nobody_who_listens(tmp_path):
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(tmp_path / "s"))
    for name, reason in (("none.sock", "absent"), ("s", "refused")):
        error = unavailable(tmp_path / name)
        assert (error.data["reason"], error.hint) == (reason, "start it with: ormahctl up")
        assert "the daemon is not running" in error.message


def test_no_socket_but_a_file(tmp_path):
    (tmp_path / "s").touch()
    assert "is not a socket" in unavailable(tmp_path / "s").message


def test_a_path_that_is_too_long(tmp_path):
    with pytest.raises(BadRequest, match="too long"):
        connect(tmp_path / ("x" * 200))


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else")
def test_no_permission():
    with serving() as server:
        server.path.parent.parent.chmod(0o755)
        code = (
            "import os, sys; from pathlib import Path; from ormahd.rpc.wire import connect, Unavailable; os.setuid(65534)\n"
            "try: connect(Path(sys.argv[1]))\nexcept Unavailable as e: print(e.data['reason'])"
        )
        done = subprocess.run([sys.executable, "-c", code, server.path], capture_output=True, text=True, check=False)
        assert done.stdout.strip() == "denied", done


SANDBOX = """
import ctypes, struct, sys
from pathlib import Path
from ormahd.rpc.wire import Unavailable, connect
steps = [(0x20, 0, 0, 0), (0x15, 0, 1, int(sys.argv[2])), (6, 0, 0, 0x50000 | 1), (6, 0, 0, 0x7FFF0000)]
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
program = struct.pack("HxxxxxxP", len(steps), ctypes.addressof(code))
libc = ctypes.CDLL(None)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, program, 0, 0) == 0
try:
    connect(Path(sys.argv[1]))
except Unavailable as exc:
    print(exc.hint)
"""
"""Forbids itself the system call `connect` (argv[2]) as Codex's sandbox does, by a seccomp filter, then connects."""
CONNECT = {"x86_64": 42, "aarch64": 203}


@pytest.mark.skipif(sys.platform != "linux" or platform.machine() not in CONNECT, reason="the filter is for these")
def test_a_sandbox_is_named():
    with serving() as server:
        command = [sys.executable, "-c", SANDBOX, server.path, str(CONNECT[platform.machine()])]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert "use the tools of Ormah's MCP server" in done.stdout, done


def test_a_daemon_that_takes_no_connections(tmp_path):
    with socket.socket(socket.AF_UNIX) as busy:
        busy.bind(str(tmp_path / "s"))
        busy.listen(0)
        waiting = []
        while True:
            one = socket.socket(socket.AF_UNIX)
            one.setblocking(False)
            waiting.append(one)
            try:
                one.connect(str(tmp_path / "s"))
            except BlockingIOError:
                break
        error = unavailable(tmp_path / "s", timeout=0.05)
        assert error.data["reason"] == "hanging"
        for one in waiting:
            one.close()


@pytest.fixture
def dumb(tmp_path):
    """A listener that is no server: the test plays its part."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "s"))
        listening.listen()
        yield listening, tmp_path / "s"


def test_a_daemon_that_never_answers_is_given_up_in_time(dumb):
    _, path = dumb
    with connect(path) as connection, pytest.raises(Unavailable, match="in time") as caught:
        connection.call("hello", timeout=0.05)
    assert caught.value.data["reason"] == "hanging"


def test_the_deadline_is_for_everything_together(dumb):
    listening, path = dumb
    with connect(path) as connection:
        peer, _ = listening.accept()
        over = threading.Event()

        def trickle() -> None:
            while not over.wait(0.01):
                try:
                    peer.sendall(pack(b"j", b'{"id":1,"progress":{"done":1,"total":0,"stage":"s"}}'))
                except OSError:
                    return

        thread = threading.Thread(target=trickle)
        thread.start()
        with pytest.raises(Unavailable, match="in time"):
            connection.call("hello", timeout=0.2)
        over.set()
        thread.join()
        peer.close()


def test_a_daemon_that_reads_nothing_is_given_up_in_time(dumb):
    _, path = dumb
    with connect(path) as connection:
        with pytest.raises(Unavailable, match="in time"):
            connection.call("agent.remember", {"content": "x" * 5_000_000}, timeout=0.5)
        with pytest.raises(Unavailable, match="middle of a frame"):
            connection.call("hello", timeout=0.1)


def test_a_daemon_that_dies_before_it_answers(dumb):
    listening, path = dumb
    with connect(path) as connection:
        peer, _ = listening.accept()
        peer.close()
        with pytest.raises(Unavailable, match="went away before it answered") as caught:
            connection.call("hello", timeout=120)
        assert caught.value.data["reason"] == "closed"


@pytest.mark.parametrize("said", [b"HTTP/1.1 400 Bad Request\r\n\r\n", pack(b"j", b"{"), pack(b"m", b"\x01")])
def test_somebody_else_at_the_socket(dumb, said):
    listening, path = dumb
    with connect(path) as connection:
        peer, _ = listening.accept()
        peer.sendall(said)
        with pytest.raises(Incompatible):
            connection.call("hello", timeout=120)
        peer.close()


def test_an_answer_that_came_too_late_is_not_taken_for_the_next_one():
    answers = Answers()
    answers.gate("slow")
    with serving(answers) as server, connect(server.path) as connection:
        with pytest.raises(Unavailable, match="in time"):
            connection.call("agent.recall", {"query": "wait slow"}, timeout=0.05)
        answers.gate("slow").set()
        assert connection.call("agent.recall", {"query": "next"}, timeout=120).text == "next"


@pytest.mark.parametrize("params", [{"query": 2**70}, {"query": "\ud800"}, {"query": object()}])
def test_what_cannot_be_sent_is_a_bad_request_and_the_connection_lives(params):
    with serving() as server, connect(server.path) as connection:
        with pytest.raises(BadRequest):
            connection.call("agent.recall", params, timeout=120)
        assert connection.call("hello", timeout=120).phase == "ready"


def test_the_client_imports_nothing_heavy():
    code = "import sys, ormahd.rpc.wire; print(*sys.modules)"
    loaded = set(
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    )
    assert not loaded & {"pydantic", "asyncio", "click", "git", "chromadb", "torch", "numpy", "logging", "platformdirs"}
