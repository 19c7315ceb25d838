"""The gateway's process: one for a socket, at rest when nobody needs it, and none for strangers and other versions."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from ormahctl.gateway import host, reach
from ormahctl.gateway.daemon import DaemonLink
from ormahctl.gateway.host import Gateway
from ormahctl.gateway.listen import open_gateway_socket
from ormahctl.gateway.opening import LARGEST
from ormahctl.setup import connections
from ormahctl.shim import gateway
from ormahd import __version__
from ormahd.rpc.wire import BadRequest, Conflict

LONG = 600.0
SHORT = 0.05


@pytest.fixture
def place() -> Iterator[Path]:
    """The path of a daemon's socket, where no daemon listens."""
    with tempfile.TemporaryDirectory(prefix="orm") as directory:
        yield Path(directory, "s")


def during(
    place: Path, act: Callable[[Gateway], None], *, rest: float = LONG, first: Callable[[], object] = lambda: None
) -> None:
    """Run a gateway while `act` runs in a thread; it must end by itself, or by `act`. Until `first` is done it does not rest."""

    async def both() -> None:
        serving = Gateway(open_gateway_socket(place, None), DaemonLink(place), idle_seconds=rest)
        async with anyio.create_task_group() as tasks:
            with serving.in_use():
                tasks.start_soon(serving.run)
                await anyio.to_thread.run_sync(first)
            await anyio.to_thread.run_sync(act, serving)

    anyio.run(both)


def dial(place: Path) -> socket.socket:
    channel = socket.socket(socket.AF_UNIX)
    channel.settimeout(60)
    channel.connect(gateway.address(os.fspath(place)))
    return channel


def begun(place: Path) -> socket.socket:
    """A session that has begun: its server has answered."""
    channel = dial(place)
    body = b"\0".join([b"/", b"", b"", b"", b""])
    ping = b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'
    channel.sendall(b"p" + len(body).to_bytes(4, "big") + body + ping)
    return channel


def test_it_ends_after_a_rest(place: Path) -> None:
    during(place, lambda _: None, rest=SHORT)
    assert not Path(gateway.address(os.fspath(place))).exists()


def test_a_session_keeps_it_awake(place: Path) -> None:
    with contextlib.ExitStack() as session:

        def begin() -> None:
            assert b'"result"' in session.enter_context(begun(place)).recv(4096)

        def act(serving: Gateway) -> None:
            until = time.monotonic() + 5 * SHORT
            while time.monotonic() < until:
                assert reach.order(place, "status", {}, start=False)["sessions"] == 1
            assert serving.port is None
            session.close()

        during(place, act, rest=SHORT, first=begin)


def test_only_this_user_may_enter(place: Path) -> None:
    def act(serving: Gateway) -> None:
        mode = os.stat(gateway.address(os.fspath(place))).st_mode
        assert stat.S_ISSOCK(mode)
        assert stat.S_IMODE(mode) == 0o600
        reach.stop(place)

    during(place, act)
    place.parent.chmod(0o777)
    with pytest.raises(BadRequest, match="others may write"):
        open_gateway_socket(place, None)


def test_there_is_one(place: Path) -> None:
    def act(_: Gateway) -> None:
        with pytest.raises(Conflict, match="another gateway"):
            open_gateway_socket(place, None)
        assert gateway.begin(os.fspath(place)) is False
        reach.stop(place)
        reach.stop(place)

    during(place, act)
    open_gateway_socket(place, None).close()


def test_what_is_no_socket_is_left_alone(place: Path) -> None:
    file = Path(gateway.address(os.fspath(place)))
    file.write_text("a person's")
    with pytest.raises(BadRequest, match="no socket"):
        open_gateway_socket(place, None)
    assert file.read_text() == "a person's"


def test_garbage_ends_its_own_connection_only(place: Path) -> None:
    def act(_: Gateway) -> None:
        with begun(place) as channel:
            assert b'"result"' in channel.recv(4096)
            for wrong in (
                b"x\0\0\0\0",
                b"p\0\0\0\1x",
                b"p" + (LARGEST + 1).to_bytes(4, "big"),
                b"GET / HTTP/1.1\r\n\r\n" * 9,
            ):
                with dial(place) as other:
                    other.sendall(wrong)
                    assert other.recv(100) == b""
            for wrong in (b"c\0\0\0\2{}", b"c\0\0\0\2\xff\xff"):
                with dial(place) as other:
                    other.sendall(wrong)
                    assert b"error" in other.recv(4096)
            channel.sendall(b'\xff\xfe no json\n{"jsonrpc":"2.0","id":2,"method":"ping"}\n')
            with channel.makefile("rb") as lines:
                assert b'"id":null' in lines.readline()
                assert b'"id":2' in lines.readline()
        with pytest.raises(BadRequest, match="knows no order 'dance'"):
            reach.order(place, "dance", {})
        reach.stop(place)

    during(place, act)


def test_it_retires_when_its_socket_is_taken_away(place: Path) -> None:
    during(place, lambda _: None, rest=1.0, first=Path(gateway.address(os.fspath(place))).unlink)


def test_without_a_gateway_a_command_that_only_looks_starts_none(place: Path) -> None:
    assert reach.status(place) is None
    assert list(place.parent.iterdir()) == []


def test_doctor_names_one_of_another_version(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "__version__", "0.0.9")

    def act(_: object) -> None:
        try:
            (found,) = [one for one in connections.findings(None, place) if "gateway" in one.what]
            assert found.what == f"the gateway is version 0.0.9, and {__version__} is installed"
            assert found.mend == "ormahctl restart"
        finally:
            reach.stop(place)

    during(place, act)
    assert [one for one in connections.findings(None, place) if "gateway" in one.what] == [], "it rests"


def test_the_routes_are_closed_after_a_rest(place: Path) -> None:
    def opened_twice() -> None:
        first = reach.order(place, "web", {}, start=False)
        again = reach.order(place, "web", {}, start=False)
        assert again["port"] == first["port"]
        assert again["link"] != first["link"]

    during(place, lambda _: None, rest=1.0, first=opened_twice)  # ends by itself
