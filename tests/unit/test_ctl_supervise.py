"""Is it running, what did it say: judged by answers, against sockets of every kind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ormahctl import offline, supervise
from ormahd.rpc.wire import Unavailable
from tests.unit.ctl_desk import open_desk


@pytest.fixture
def place() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="orm") as directory:
        yield Path(directory) / "s"


def test_nobody_listens(place: Path) -> None:
    assert supervise.nobody_listens(place)
    assert supervise.hello(place) is None
    with socket.socket(socket.AF_UNIX) as left_behind:
        left_behind.bind(str(place))
    assert supervise.nobody_listens(place)
    assert supervise.hello(place) is None
    assert supervise.stop(place) is None


def test_somebody_answers() -> None:
    with open_desk() as desk:
        assert not supervise.nobody_listens(desk.socket)
        answer = supervise.hello(desk.socket)
        assert answer is not None
        assert answer.phase == "ready"
        assert supervise.start(desk.socket, flag=None).how == "running"


def test_a_start_that_takes_too_long_is_told_as_that(place: Path) -> None:
    with pytest.raises(Unavailable, match=r"did not begin to listen within 0\.001 s"):
        supervise.start(place, flag=str(place), seconds=0.001)


def test_somebody_listens_and_says_nothing(place: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(place))
        listening.listen(8)
        assert not supervise.nobody_listens(place)
        with pytest.raises(Unavailable) as raised:
            supervise.hello(place, timeout=0.2)
        assert raised.value.data["reason"] == "hanging"


def test_only_a_daemon_of_ours_is_ended_by_its_socket(place: Path) -> None:
    """A hanging program that is no ormahd is left alone, whatever listens there."""
    script = (
        "import socket, sys, time; s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen(8); "
        "print('there', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", script, str(place)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"there\n"
        assert supervise._listener_pid(place) == process.pid
        os.kill(process.pid, signal.SIGSTOP)
        try:
            with pytest.raises(Unavailable):
                supervise._daemon_pid(place)
            assert process.poll() is None
        finally:
            process.kill()


def test_a_process_that_ended_but_was_not_fetched_is_not_alive() -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert supervise._is_alive(process.pid)
    assert process.stdin is not None
    process.stdin.close()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # ended, and left as it is
    assert not supervise._is_alive(process.pid)
    process.wait()
    assert not supervise._is_alive(process.pid)


def test_what_a_program_said() -> None:
    assert offline.parse_error("noise\nerror: what\nhint: next\n") == ("what", "next")
    assert offline.parse_error("Traceback\nValueError: x\n\n") == ("ValueError: x", None)
    assert offline.parse_error("") == (None, None)
