"""The daemon is there when it is needed: started by commands and by sessions that begin, once, and not against a person's will."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from ormahctl import supervise
from ormahd import __version__, paths
from ormahd.vault.merge_driver import SHIM
from tests.house import House, open_house, wait_until

FOUND_BY_ITSELF = {"ORMAH_SOCKET": "", "ORMAH_DAEMON_AUTOSTART": ""}
"""In a house whose socket the configuration gives, as it is with people."""


@pytest.fixture
def quiet() -> Iterator[House]:
    """A house where no daemon runs, and whose daemon lies where the configuration has it."""
    with open_house(**FOUND_BY_ITSELF) as house:
        yield house
        house.ctl("down")


def where(house: House) -> Path:
    names = {name: value for name, value in house.env.items() if name not in paths.SOCKET_VARIABLES}
    return Path(
        subprocess.run(
            [sys.executable, "-c", "from ormahd import paths; print(paths.find_socket())"], env=names, capture_output=True,
            text=True, check=True,
        ).stdout.strip()
    )  # fmt: skip


def begun(house: House) -> int:
    """How often a daemon has begun in this house."""
    return sum(file.read_text().count(" begins (pid ") for file in (house.home / "state_home").rglob("*.log"))


def answers(house: House) -> bool:
    return house.ctl("status").returncode == 0


def session(
    house: House, event: str = "SessionStart", env: dict[str, str] | None = None, socket: str = "", **more: Any
) -> dict[str, Any]:
    """What a hook prints, run as a harness runs it."""
    said = json.dumps({"hook_event_name": event, "session_id": "s", "cwd": str(house.home), **more}).encode()
    given = ["--harness", "claude-code", "--deadline", "9000", "--socket", socket]
    command = [sys.executable, "-I", "-S", str(SHIM), "--hook", event, *given]
    done = subprocess.run(command, input=said, capture_output=True, env=house.env | (env or {}), timeout=120)
    assert (done.returncode, done.stderr) == (0, b"")
    found: dict[str, Any] = json.loads(done.stdout) if done.stdout else {}
    return found


def test_a_command_that_needs_the_daemon_starts_it_and_down_is_respected(quiet: House) -> None:
    assert quiet.ctl("status").returncode == 69, "who looks starts nothing"
    assert quiet.ctl("doctor").returncode != 69
    assert not answers(quiet)
    done = quiet.ctl("remember", "Tea is drunk at four.", "--global")
    assert (done.returncode, done.stderr) == (0, "")
    assert answers(quiet)
    stopped = quiet.ctl("down")
    assert "has stopped" in stopped.stdout
    assert "ormahctl up" in stopped.stderr
    refused = quiet.ctl("recall", "tea")
    assert refused.returncode == 69
    assert "ormahctl down" in refused.stderr
    assert "systemMessage" in session(quiet)
    assert not answers(quiet)
    mark = paths.down_mark(where(quiet))
    os.utime(mark, (1, 1))  # as after a start of the machine
    assert quiet.json("recall", "tea")["results"]
    assert not mark.exists(), "it runs again, so nobody wants it down"


def test_of_twenty_that_need_it_one_starts_it(quiet: House) -> None:
    with ThreadPoolExecutor(20) as pool:
        done = list(pool.map(lambda number: quiet.ctl("remember", f"Fact number {number}.", "--global"), range(20)))
    assert [one.returncode for one in done] == [0] * 20, [one.stderr for one in done]
    assert begun(quiet) == 1
    assert len(quiet.json("recall", "fact number", "-n", "50")["results"]) == 20


def test_a_session_that_begins_starts_it_and_waits_for_nothing(quiet: House) -> None:
    assert session(quiet, "UserPromptSubmit", prompt="which tea") == {}
    assert begun(quiet) == 0, "a prompt starts nothing"
    said = session(quiet, source="startup")["systemMessage"]
    assert "starts now" in said
    wait_until(lambda: answers(quiet), "the daemon that the session has started")
    quiet.ctl("remember", "Tea is drunk at four.", "--tier", "core", "--global")
    assert "at four" in session(quiet, source="startup")["hookSpecificOutput"]["additionalContext"]
    assert begun(quiet) == 1


def test_nobody_starts_it_where_it_is_not_wished_or_not_ours(quiet: House) -> None:
    config = quiet.home / "config_home" / "ormah" / "config.toml"
    config.parent.mkdir(parents=True)
    elsewhere = str(quiet.home / "x")
    for name, value, text in (
        ("ORMAH_DAEMON_AUTOSTART", "false", ""), ("ORMAH_DAEMON_AUTOSTART", "", "[daemon]\nautostart = false\n"),
        ("CODEX_SANDBOX", "seatbelt", ""), ("ORMAH_SOCKET", elsewhere, ""),
    ):  # fmt: skip
        config.write_text(text)
        done = quiet.ctl("recall", "tea", env={name: value})
        assert done.returncode == 69
        assert "ormahctl up" in done.stderr
        assert "ormahctl up" in session(quiet, env={name: value})["systemMessage"]
    assert quiet.ctl("--socket", elsewhere, "recall", "tea").returncode == 69
    assert not (quiet.home / "state_home" / "ormah").exists() or begun(quiet) == 0
    config.write_text(f'[daemon]\nsocket = "{quiet.home}/mine"\n')
    mine = str(quiet.home / "mine")
    assert "starts now" in session(quiet, source="startup", socket=mine)["systemMessage"]
    wait_until(lambda: answers(quiet), "the daemon at the socket of the configuration")
    assert (quiet.home / "mine").exists()


def test_what_lies_in_the_folder_is_not_run(quiet: House, tmp_path: Path) -> None:
    """Sessions begin in other people's projects."""
    for name in ("ormahd", "ormahctl", "click", "yaml", "numpy", "platformdirs"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'a').close()")
    quiet.settings["PYTHONPATH"] = ""
    assert session(quiet, env={"PWD": str(tmp_path)}, source="startup")
    done = subprocess.run(
        [str(Path(sys.executable).parent / "ormahctl"), "recall", "tea"], env=quiet.env, cwd=tmp_path, capture_output=True,
        text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr  # there is nothing to be found
    assert not (tmp_path / "ran").exists()


def test_restart(quiet: House) -> None:
    first = quiet.json("restart")
    assert (first["stopped"], first["how"], first["before"]) == (None, "detached", None)
    again = quiet.json("restart")
    assert again["stopped"] > 0
    assert (again["before"], again["version"]) == (__version__, __version__)
    assert begun(quiet) == 2
    quiet.ctl("down")
    assert "was not running" in quiet.ctl("restart").stdout
    assert supervise.version(where(quiet)) == __version__
