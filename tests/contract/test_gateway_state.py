"""What `doctor` says of a gateway: silence where it rests or works, and each thing that may be wrong with what to do."""

from __future__ import annotations

import os
import socket
import threading
from pathlib import Path

import pytest

from ormahctl.gateway import host, reach
from ormahctl.setup.gateway_state import findings
from ormahctl.shim import gateway
from ormahd import __version__
from tests.contract.test_gateway import during, place

__all__ = ["place"]


def said(place: Path) -> list[tuple[str, str, str]]:
    return [(one.level, one.what, one.mend or "") for one in findings(place, begins=0.2, answers=0.5)]


def listening(place: Path) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX)
    sock.bind(gateway.address(os.fspath(place)))
    sock.listen()
    return sock


def test_at_rest_and_at_work_there_is_nothing_to_say(place: Path) -> None:
    assert said(place) == []
    assert list(place.parent.iterdir()) == [], "looking leaves nothing behind"

    def act(_: object) -> None:
        try:
            assert findings(place) == []
        finally:
            reach.stop(place)

    during(place, act)
    assert said(place) == []


def test_one_of_another_version(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "__version__", "0.0.9")

    def act(_: object) -> None:
        try:
            (found,) = findings(place)
            assert found.what == f"the gateway (pid {os.getpid()}) is version 0.0.9, and {__version__} is installed"
            assert found.mend == "ormahctl restart"
        finally:
            reach.stop(place)

    during(place, act)


def test_one_that_hangs(place: Path) -> None:
    with listening(place):
        ((level, what, mend),) = said(place)
    assert (level, what) == ("warning", f"the gateway (pid {os.getpid()}) does not answer")
    assert f"kill {os.getpid()}" in mend


def test_a_socket_that_was_left_and_one_that_was_taken_away(place: Path) -> None:
    listening(place).close()
    Path(gateway.address(os.fspath(place)) + ".log").write_text("MemoryError\n")
    ((level, what, _),) = said(place)
    assert level == "info"
    assert what == "the gateway ended without removing its socket; its log ends with: MemoryError"
    lock = gateway.take_lock(os.fspath(place))
    assert lock is not None
    ((level, what, mend),) = said(place)
    assert (level, "nothing listens" in what, ".gateway.lock" in mend) == ("warning", True, True)
    os.close(lock)


def test_one_that_just_begins_is_waited_for(place: Path) -> None:
    lock = gateway.take_lock(os.fspath(place))
    assert lock is not None
    begun = threading.Event()
    found: list[object] = []

    def look() -> None:
        begun.set()
        found.extend(findings(place, begins=60.0, answers=0.2))

    one = threading.Thread(target=look)
    one.start()
    begun.wait()
    with listening(place):
        one.join()
    os.close(lock)
    assert "does not answer" in str(found), "it was found, once it listened"


def test_what_is_no_socket_and_what_is_not_allowed(place: Path) -> None:
    file = Path(gateway.address(os.fspath(place)))
    file.write_text("a person's")
    ((level, what, mend),) = said(place)
    assert (level, "is no socket" in what, mend) == ("error", True, "move it away")
    ((level, what, mend),) = said(place.with_name("s" * 100))
    assert (level, "too long" in what, "daemon.socket" in mend) == ("error", True, True)
