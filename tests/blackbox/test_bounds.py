"""What waits for another side has an end, and keeps nobody else waiting."""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
from collections.abc import Iterator

import pytest

from tests.house import House, wait_until
from tests.web import Web, stream, web_house


@pytest.fixture
def silent() -> Iterator[int]:
    """The port of a server that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0), backlog=50) as server:
        yield server.getsockname()[1]


BESIDE = (
    "doctor", "status", "recall", "recall heron", "remember Herons_wait.", "history", "jobs", "jobs run index_updater", "verify", "sources",
    "spaces", "whisper heron", "config check", "logs", "maintenance", "rebuild",
)  # fmt: skip


def test_nobody_waits_for_a_silent_remote_but_who_asked_for_it(house: House, silent: int) -> None:
    house.settings["ORMAH_SYNC_TIMEOUT_SECONDS"] = "60"
    house.start()
    house.git("remote", "add", "origin", f"http://127.0.0.1:{silent}/vault.git")
    syncs = [threading.Thread(target=house.ctl, args=("sync",), daemon=True) for _ in range(3)]
    for sync in syncs:
        sync.start()
    wait_until(lambda: house.json("status")["clients"] >= 4, "all to have asked")
    for words in BESIDE:
        done = house.ctl(*words.split())
        assert done.returncode in {0, 1}, (words, done.stderr)
    assert all(sync.is_alive() for sync in syncs), "a command waited for the remote"
    house.kill()


OPENINGS = (
    b"", b"G", b"\r\n\r\n", b"GET / HTTP/1.1\r\n", b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Long:", b"\x16\x03\x01\x02\0\x01\0",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"GET /ui/ws HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n",
    b"GET / HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\n\r\n", b"GET / HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\n\r\nGET / HTTP/1.1\r\nHo",
    b"POST /agent/recall HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\nContent-Length: 90\r\n\r\n{",
    b"POST /agent/recall HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\nAUTH\r\nContent-Type: application/json\r\nContent-Length: 90\r\n\r\n{",
    b"POST /agent/recall HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\nAUTH\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{",
    b"POST /agent/recall HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\nAUTH\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n",
)  # fmt: skip
"""What a client sends to the HTTP port before it falls silent."""


def _falls_silent(web: Web, opening: bytes) -> socket.socket:
    peer = socket.create_connection(("127.0.0.1", web.port), timeout=60)
    with contextlib.suppress(ConnectionError):  # one too many
        peer.sendall(
            opening.replace(b"PORT", str(web.port).encode()).replace(
                b"AUTH", f"Authorization: Bearer {web.token}".encode()
            )
        )
    return peer


def _is_closed(peer: socket.socket) -> bool:
    try:
        while peer.recv(65_536):
            pass
    except TimeoutError:
        return False
    except ConnectionError:
        pass
    return True


def _answers(web: Web) -> bool:
    try:
        return web.raw("GET", "/admin/health", web.bearer())[0] == 200
    except (OSError, http.client.HTTPException):
        return False


def test_silent_connections_keep_no_agent_out_and_fill_no_log() -> None:
    with web_house() as web, stream(web, "?only=write") as events:
        events.recv()
        crowd = [_falls_silent(web, OPENINGS[at % len(OPENINGS)]) for at in range(900)]
        try:
            assert web.house.ctl("mcp", input="").returncode == 0
            log = web.house.socket.with_name(web.house.socket.name + ".gateway.log")
            wait_until(lambda: _answers(web), "an answer once the silent ones are closed", 60)
            assert [at % len(OPENINGS) for at, peer in enumerate(crowd) if not _is_closed(peer)] == []
            assert log.stat().st_size < 100_000
        finally:
            for sock in crowd:
                sock.close()
        web.house.ctl("remember", "The heron waits.")
        assert any("write" in str(events.recv(timeout=60)) for _ in range(20)), "who listens for long is not cut off"
