"""The daemon as a service: files for this installation and this place, taken over, taken out, to the byte.

No systemd runs where tests run, so a program stands in for `systemctl` that starts what the installed unit says; the files
themselves are read by systemd's own `systemd-analyze`.
"""

from __future__ import annotations

import os
import plistlib
import select
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ormahctl import managers
from ormahctl.setup import service
from tests.house import House, open_house, wait_until

SYSTEMCTL = """#!PYTHON
import os, pathlib, re, shlex, signal, subprocess, sys
state = pathlib.Path(os.environ["HOME"], "manager"); state.mkdir(exist_ok=True)
units = pathlib.Path(os.environ["XDG_CONFIG_HOME"], "systemd/user")
words = [word for word in sys.argv[1:] if not word.startswith("--")]
with open(state / "log", "a") as log: log.write(" ".join(words) + "\\n")
if (state / "away").exists(): sys.exit("Failed to connect to bus: No medium found")
verb, names, pid = words[0], words[1:], state / "pid"
running = lambda: int(pid.read_text()) if pid.exists() and pathlib.Path("/proc", pid.read_text(), "exe").exists() else 0
if verb == "show" and names == ["ormahd.service"]:
    there = (units / "ormahd.service").exists()
    print("LoadState=" + ("loaded" if there else "not-found")); print(f"MainPID={running()}")
elif verb == "show" and (units / "ormahd.socket").exists():
    listen = re.search(r"^ListenStream=(.*)$", (units / "ormahd.socket").read_text(), re.M)[1].replace("%%", "%")
    print(f"Listen={listen} (Stream)")
elif verb == "start" and names == ["ormahd.service"] and not running():
    text = (units / "ormahd.service").read_text()
    own = {"HOME": os.environ["HOME"], "XDG_RUNTIME_DIR": os.environ["XDG_RUNTIME_DIR"], "PATH": "/usr/bin:/bin"}
    for line in re.findall(r"^Environment=(.*)$", text, re.M):
        own.update([shlex.split(line)[0].replace("%%", "%").split("=", 1)])
    command = [word.replace("%%", "%").replace("$$", "$") for word in shlex.split(re.search(r"^ExecStart=(.*)$", text, re.M)[1])]
    child = subprocess.Popen(command, env=own, cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                             stderr=open(state / "stderr", "wb"), start_new_session=True)
    pid.write_text(str(child.pid))
elif verb in {"stop", "disable"} and running():
    os.kill(running(), signal.SIGTERM)
"""


@pytest.fixture
def managed() -> Iterator[House]:
    """A house with a service manager, whose daemon lies where the configuration has it; nothing runs yet."""
    with open_house(ORMAH_SOCKET="", ORMAH_EMBEDDING_MODEL="") as house:
        tools = house.home / "tools"
        tools.mkdir()
        (tools / "systemctl").write_text(SYSTEMCTL.replace("PYTHON", sys.executable))
        (tools / "systemctl").chmod(0o755)
        house.settings["PATH"] = f"{tools}:{os.environ['PATH']}"
        config = house.home / "config_home" / "ormah" / "config.toml"
        config.parent.mkdir(parents=True)
        config.write_text('[embedding]\nmodel = "hashing"\n')
        yield house
        house.ctl("down")


def units(house: House) -> dict[str, bytes]:
    folder = house.home / "config_home" / "systemd" / "user"
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*"))} if folder.exists() else {}


def log(house: House) -> list[str]:
    return (house.home / "manager" / "log").read_text().splitlines()


def pid(house: House) -> int:
    found: int = house.json("status")["pid"]
    return found


def test_a_daemon_that_was_started_by_hand_hands_over_and_comes_back(managed: House) -> None:
    managed.ctl("up")
    node = managed.json("remember", "Tea is drunk at four.", "--global")["id"]
    by_hand = pid(managed)
    shown = managed.ctl("setup", "service", "--dry-run")
    assert (shown.returncode, units(managed), pid(managed)) == (0, {}, by_hand)
    assert "+ExecStart=" in shown.stdout
    done = managed.ctl("setup", "service", "--yes")
    assert done.returncode == 0, done.stderr
    assert "starts when you log in" in done.stdout
    assert f"(pid {by_hand})" in done.stderr
    wait_until(lambda: managed.ctl("status").returncode == 0, "the service answers")
    assert pid(managed) == int((managed.home / "manager" / "pid").read_text()) != by_hand
    assert managed.json("show", node)["content"] == "Tea is drunk at four."
    before = (units(managed), pid(managed))
    assert managed.json("setup", "service", "--yes")["stopped"] is None
    assert (units(managed), pid(managed)) == before, "the second time changes nothing"
    assert managed.json("restart")["how"] == "systemd"
    assert managed.ctl("down").returncode == 0
    assert "stop ormahd.socket ormahd.service" in log(managed)
    assert managed.json("up")["how"] == "systemd"
    if shutil.which("systemd-analyze"):
        folder = managed.home / "config_home" / "systemd" / "user"
        read = subprocess.run(
            ["systemd-analyze", "verify", "--user", str(folder / "ormahd.service"), str(folder / "ormahd.socket")],
            env=managed.env, capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        assert (read.returncode, read.stderr) == (0, "")
    assert managed.ctl("uninstall", "service", "--yes").returncode == 0
    assert units(managed) == {}
    assert "disable ormahd.socket ormahd.service" in log(managed)


def test_a_unit_of_the_persons_comes_back_and_an_edited_one_of_ours_stays(managed: House) -> None:
    folder = managed.home / "config_home" / "systemd" / "user"
    folder.mkdir(parents=True)
    mine = b"[Unit]\nDescription=my own\n[Service]\nExecStart=/bin/true\n"
    (folder / "ormahd.service").write_bytes(mine)
    assert managed.ctl("setup", "service").returncode == 2, "nobody to ask"
    assert units(managed) == {"ormahd.service": mine}
    assert managed.ctl("setup", "service", "--yes").returncode == 0
    assert b"my own" not in units(managed)["ormahd.service"]
    (folder / "ormahd.socket").write_bytes(units(managed)["ormahd.socket"] + b"# by hand\n")
    done = managed.ctl("uninstall", "--yes")
    assert done.returncode == 0, done.stderr
    assert "ormahd.socket was edited since and stays" in " ".join(done.stderr.split())
    assert units(managed)["ormahd.service"] == mine
    assert units(managed)["ormahd.socket"].endswith(b"# by hand\n")


def test_where_no_manager_answers(managed: House) -> None:
    (managed.home / "manager").mkdir()
    (managed.home / "manager" / "away").touch()
    done = managed.ctl("setup", "service", "--yes")
    if managers.BOOTED.is_dir():  # there, but not in this session: as over ssh
        assert done.returncode == 0
        assert "systemctl --user enable" in done.stdout
        assert "loginctl enable-linger" in done.stderr
    else:
        assert done.returncode == 69
        assert "no service manager" in done.stderr
        assert "ormahd run" in done.stderr
        assert units(managed) == {}
    assert managed.ctl("setup", "claude-code", "--yes").returncode == 0, "an agent is connected all the same"


HARD = {"ORMAH_VAULT": '/my notes/50% $HOME "x"', "XDG_DATA_HOME": "/d", "ORMAH_LOG_LEVEL": "debug", "PATH": "/usr/bin"}


def test_another_vault_and_paths_of_every_kind(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    written = service.systemd(Path("/run/my place/100%.sock"), HARD)
    texts = {path.name: data.decode() for path, data in written.items()}
    assert 'Environment="ORMAH_VAULT=/my notes/50%% $HOME \\"x\\""' in texts["ormahd.service"]
    assert "Environment=XDG_DATA_HOME=/d" in texts["ormahd.service"]
    assert "LOG_LEVEL" not in texts["ormahd.service"]
    assert service.ignored_settings(HARD) == ["ORMAH_LOG_LEVEL"]
    assert "ListenStream=/run/my place/100%%.sock\n" in texts["ormahd.socket"]
    ((_, data),) = service.launchd(Path("/x <&>/s"), HARD).items()
    job = plistlib.loads(data)
    assert job["Sockets"]["ormahd"]["SockPathName"] == "/x <&>/s"
    assert job["EnvironmentVariables"]["ORMAH_VAULT"] == HARD["ORMAH_VAULT"]
    assert "/usr/bin" in job["EnvironmentVariables"]["PATH"].split(":")
    assert job["ProgramArguments"][-1] == "run"
    assert os.path.isabs(job["ProgramArguments"][0])
    assert "@" not in data.decode().split("</dict>")[0].split("<dict>")[1]


def test_started_by_its_socket_and_again_after_a_kill(house: House) -> None:
    """As systemd does it: the manager listens, starts the daemon when a client comes, and again when it was killed."""
    house.socket.parent.mkdir(exist_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(str(house.socket))
        os.chmod(house.socket, 0o600)
        listening.listen(128)
        inode = house.socket.stat().st_ino
        stored: list[str] = []
        for number in range(3):
            asking = threading.Thread(
                target=lambda number=number: stored.append(
                    house.json("remember", f"Tide {number} comes at noon.")["id"]
                )
            )
            asking.start()
            assert select.select([listening], [], [], 120)[0], "a client waits in the queue of the socket"
            daemon = activated(house, listening)
            asking.join(120)
            assert len(stored) == number + 1
            if number == 0:
                daemon.kill()
                assert daemon.wait(120) == -signal.SIGKILL
            elif number == 1:
                daemon.terminate()
                assert daemon.wait(120) == 0
            assert house.socket.stat().st_ino == inode, "the socket is the manager's, however the daemon ends"
        assert {one["id"] for one in house.json("recall", "-n", "50")["results"]} >= set(stored), (
            "nothing acknowledged is lost"
        )
        daemon.terminate()
        assert daemon.wait(120) == 0


def activated(house: House, listening: socket.socket) -> subprocess.Popen[bytes]:
    """Start the daemon with the listening socket, as sd_listen_fds(3) describes it."""
    script = f'exec 3<&{listening.fileno()}; LISTEN_FDS=1 LISTEN_PID=$$ exec "$0" -m ormahd run'
    with (house.home / "stderr").open("ab") as stderr:
        return subprocess.Popen(
            ["bash", "-c", script, sys.executable], env=house.env, cwd=house.home, pass_fds=[listening.fileno()],
            stdin=subprocess.DEVNULL, stdout=stderr, stderr=stderr,
        )  # fmt: skip
