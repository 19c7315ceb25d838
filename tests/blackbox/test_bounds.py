"""What waits for another side has an end, and keeps nobody else waiting."""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Iterator

import pytest

from tests.house import House, wait_until
from tests.web import Web, web_house


@pytest.fixture
def silent() -> Iterator[int]:
    """The port of a server that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0), backlog=50) as server:
        yield server.getsockname()[1]


def test_doctor_waits_for_no_remote(house: House, silent: int) -> None:
    house.settings["ORMAH_SYNC_TIMEOUT_SECONDS"] = "60"
    house.start()
    house.git("remote", "add", "origin", f"http://127.0.0.1:{silent}/vault.git")
    syncs = [threading.Thread(target=house.ctl, args=("sync",), daemon=True) for _ in range(3)]
    for sync in syncs:
        sync.start()
    wait_until(lambda: house.json("status")["clients"] >= 4, "all to have asked")
    house.json("doctor")
    assert all(sync.is_alive() for sync in syncs), "it waited for the remote"
    house.kill()


def _answers(web: Web) -> bool:
    try:
        return web.raw("GET", "/admin/health", web.bearer())[0] == 200
    except (OSError, http.client.HTTPException):
        return False


def test_silent_connections_keep_no_agent_out_and_fill_no_log() -> None:
    with web_house() as web:
        crowd = [socket.create_connection(("127.0.0.1", web.port), timeout=60) for _ in range(900)]
        try:
            assert web.house.ctl("mcp", input="").returncode == 0
            log = web.house.socket.with_name(web.house.socket.name + ".gateway.log")
            assert log.stat().st_size < 100_000
            wait_until(lambda: _answers(web), "an answer once the silent ones are closed", 60)
        finally:
            for sock in crowd:
                sock.close()
