"""Running and looking after the daemon by commands, also while it is down."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from ormahd import __version__

if TYPE_CHECKING:
    from tests.blackbox.conftest import House


def test_up_and_down_are_repeatable(house: House) -> None:
    assert house.json("down") == {"stopped": False, "pid": None, "socket": str(house.socket)}
    up = house.json("up")
    assert (up["started"], up["how"], up["version"]) == (True, "detached", __version__)
    assert up["vault"] == str(house.vault)
    again = house.ctl("up")
    assert (again.returncode, "is running already" in again.stdout) == (0, True)
    health = house.json("status")
    assert {"phase", "vault", "nodes", "index", "degraded", "rss_mb"} <= set(health)
    made = house.json("remember", "kept over a restart")
    down = house.json("down")
    assert (down["stopped"], down["pid"]) == (True, health["pid"])
    assert house.ctl("status").returncode == 69
    assert house.json("up")["started"] is True
    assert house.json("show", made["short_id"])["content"] == "kept over a restart"


def test_a_hanging_daemon_is_told_from_none(daemon: House) -> None:
    daemon.signal(signal.SIGSTOP)
    try:
        done = daemon.ctl("status")
        assert done.returncode == 69
        assert "did not answer in time" in done.stderr
    finally:
        daemon.signal(signal.SIGCONT)


def test_logs_are_found_up_and_down(house: House) -> None:
    assert house.ctl("logs").returncode == 3
    house.json("up")
    up = house.json("logs")
    assert up["lines"]
    house.json("down")
    down = house.ctl("logs")
    assert down.returncode == 0, down.stderr
    assert down.stdout.splitlines()[-len(up["lines"]) :]
    assert house.json("logs")["path"] == up["path"]


def test_a_restart_with_faulty_settings_leaves_the_daemon_running(daemon: House) -> None:
    pid = daemon.call("admin.health").pid
    done = daemon.ctl("restart", env={"ORMAH_WHISPER_MAX_NODES": "many"})
    assert done.returncode == 2
    assert "whisper.max_nodes (in ORMAH_WHISPER_MAX_NODES)" in done.stderr
    assert "the daemon still runs" in done.stderr
    assert daemon.call("admin.health").pid == pid


def test_config_needs_no_daemon(house: House) -> None:
    assert "[whisper]" in house.ctl("config", "default").stdout
    shown = house.ctl("config", "show")
    assert shown.returncode == 0, shown.stderr
    assert "hashing" in shown.stdout
    assert house.ctl("config", "check").returncode == 0
    wrong = house.ctl("config", "check", env={"ORMAH_WHISPER_MAX_NODES": "many"})
    assert wrong.returncode == 1
    assert "max_nodes" in wrong.stdout
    assert (
        house.ctl("config", "show", "embedding.model").stdout
        == 'embedding.model = "hashing"  # ORMAH_EMBEDDING_MODEL; default "all-MiniLM-L6-v2"\n'
    )
    assert set(house.json("config", "show", "decay")["settings"]) >= {"decay.days", "decay.idle_share"}
    unknown = house.ctl("config", "show", "idle_shar")
    assert unknown.returncode == 3
    assert "did you mean decay.idle_share?" in unknown.stderr
