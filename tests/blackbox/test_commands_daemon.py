"""Running and looking after the daemon by commands, also while it is down."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

from ormahd import __version__
from tests.blackbox.conftest import wait_until

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


def test_a_killed_daemon_leaves_nothing_in_the_way(house: House) -> None:
    house.json("up")
    os.kill(house.json("status")["pid"], signal.SIGKILL)
    wait_until(lambda: house.ctl("status").returncode == 69, "the daemon to be gone")
    assert "ormahctl up" in house.ctl("status").stderr
    assert house.json("up")["started"] is True


def test_two_ups_at_once_start_one_daemon(house: House) -> None:
    command = [sys.executable, "-m", "ormahctl", "--json", "up"]
    both = [subprocess.Popen(command, env=house.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(2)]
    ended = [process.communicate(timeout=120) for process in both]
    assert [process.returncode for process in both] == [0, 0], ended
    assert {json.loads(out)["vault"] for out, _ in ended} == {str(house.vault)}


def test_a_daemon_that_cannot_start_says_why(house: House) -> None:
    done = house.ctl("up", env={"ORMAH_WHISPER_MAX_NODES": "many"})
    assert done.returncode == 69
    assert "max_nodes" in done.stderr
    assert "Traceback" not in done.stderr


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


def test_doctor_works_while_the_daemon_is_down(house: House) -> None:
    house.json("up")
    wait_until(lambda: house.json("status")["phase"] == "ready", "a ready daemon")
    (house.vault / "broken.md").write_text("---\nid: [\n---\nnever closed\n")
    house.json("down")
    done = house.ctl("--json", "doctor")
    assert done.returncode == 1, done.stderr
    findings = json.loads(done.stdout)["findings"]
    assert any(finding["path"] == "broken.md" and finding["line"] for finding in findings)


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
