"""The daemon as a service: files for this installation and this place, taken over, taken out, to the byte.

No systemd runs where tests run, so a program stands in for `systemctl` that starts what the installed unit says; the files
themselves are read by systemd's own `systemd-analyze`.
"""

from __future__ import annotations

import os
import plistlib
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ormahctl import managers
from ormahctl.setup import service
from tests.house import House, open_house, wait_until

ROOT = Path(__file__).parents[2]
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
    assert "systemctl --user enable ormahd.socket ormahd.service" in shown.stdout
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
    assert not (managed.home / "config_home" / "systemd").exists()
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
    assert service.left_out(HARD) == ["ORMAH_LOG_LEVEL"]
    assert "ListenStream=/run/my place/100%%.sock\n" in texts["ormahd.socket"]
    ((_, data),) = service.launchd(Path("/x <&>/s"), HARD).items()
    job = plistlib.loads(data)
    assert job["Sockets"]["ormahd"]["SockPathName"] == "/x <&>/s"
    assert job["EnvironmentVariables"]["ORMAH_VAULT"] == HARD["ORMAH_VAULT"]
    assert "/usr/bin" in job["EnvironmentVariables"]["PATH"].split(":")
    assert job["ProgramArguments"][-1] == "run"
    assert os.path.isabs(job["ProgramArguments"][0])
    assert "@" not in data.decode().split("</dict>")[0].split("<dict>")[1]


def test_a_wheel_has_what_the_service_is_made_of(tmp_path: Path) -> None:
    for name in ("ormahd", "ormahctl", "systemd", "launchd"):  # the package holds links to the last two
        shutil.copytree(ROOT / name, tmp_path / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path / name)
    code = "from setuptools import build_meta; print(build_meta.build_wheel('out'))"
    (tmp_path / "out").mkdir()
    with tempfile.TemporaryFile() as said:
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=tmp_path, stdout=said, stderr=subprocess.STDOUT, timeout=120
        )
        said.seek(0)
        assert done.returncode == 0, said.read().decode()
    (wheel,) = (tmp_path / "out").glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        for name in ("systemd/ormahd.service", "systemd/ormahd.socket", "launchd/io.ormah.ormahd.plist"):
            assert packed.read(f"ormahctl/setup/units/{Path(name).name}") == (ROOT / name).read_bytes()
