"""The files that systemd and launchd read: valid, in the foreground, started by the socket, and of one mind with the code."""

from __future__ import annotations

import os
import plistlib
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ormahd import paths
from ormahd.errors import BY_CODE
from ormahd.process.supervisor import LABEL
from ormahd.rpc.sockets import LAUNCHD_NAME

ROOT = Path(__file__).parent.parent.parent
SYSTEMD = ROOT / "systemd"
SERVICE = (SYSTEMD / "ormahd.service").read_text("utf-8")
SOCKET = (SYSTEMD / "ormahd.socket").read_text("utf-8")
PLIST = ROOT / "launchd" / f"{LABEL}.plist"

LAUNCHD_KEYS = {
    "Label": str, "ProgramArguments": list, "Sockets": dict, "RunAtLoad": bool, "KeepAlive": dict, "ThrottleInterval": int,
    "ProcessType": str, "ExitTimeOut": int, "SoftResourceLimits": dict, "EnvironmentVariables": dict,
}  # fmt: skip
"""launchd.plist(5), as far as we use it. An unknown key is ignored by launchd without a word: here it fails."""


def values(unit: str, key: str) -> list[str]:
    return re.findall(rf"^{key}=(.*)$", unit, re.MULTILINE)


def filled() -> dict:
    text = PLIST.read_text("utf-8")
    for name, value in {
        "@ORMAHD@": "/usr/local/bin/ormahd",
        "@SOCKET@": "/Users/me/run/o.sock",
    }.items():
        assert f"<string>{value}</string>" not in text
        text = text.replace(f"<string>{name}</string>", f"<string>{value}</string>")
    found: dict = plistlib.loads(text.encode())
    return found


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd here")
def test_systemd_takes_the_units(tmp_path):
    program = shutil.which("true")
    (tmp_path / "ormahd.service").write_text(SERVICE.replace("%h/.local/bin/ormahd", str(program)), "utf-8")
    (tmp_path / "ormahd.socket").write_text(SOCKET, "utf-8")
    done = subprocess.run(
        ["systemd-analyze", "verify", "--user", str(tmp_path / "ormahd.service"), str(tmp_path / "ormahd.socket")],
        env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


def test_systemd_runs_us_in_the_foreground_and_hears_when_we_are_ready():
    assert values(SERVICE, "Type") == ["notify"]
    (command,) = values(SERVICE, "ExecStart")
    assert command.endswith("ormahd run")
    assert "--detach" not in command
    assert "PIDFile" not in SERVICE


def test_systemd_does_not_start_us_again_over_what_would_fail_again():
    statuses = {int(status) for status in values(SERVICE, "RestartPreventExitStatus")[0].split()}
    for code in ("bad_request", "conflict", "invalid_note", "unavailable", "incompatible"):
        assert BY_CODE[code].exit_status in statuses
    assert BY_CODE["internal"].exit_status not in statuses
    assert values(SERVICE, "Restart") == ["on-failure"]


def test_systemd_grants_the_time_that_draining_takes():
    from ormahd.daemon import DRAIN_SECONDS

    stop = int(values(SERVICE, "TimeoutStopSec")[0].removesuffix("s"))
    assert stop > 3 * DRAIN_SECONDS
    assert values(SERVICE, "WatchdogSec")


def test_the_socket_is_where_everybody_looks_and_ours_alone(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    (listen,) = values(SOCKET, "ListenStream")
    assert Path(listen.replace("%t", str(tmp_path))) == paths.runtime_dir() / paths.SOCKET_NAME
    assert values(SOCKET, "SocketMode") == ["0600"]
    assert values(SOCKET, "DirectoryMode") == ["0700"]
    assert not values(SOCKET, "Accept")


def test_launchd_gets_keys_that_it_knows_with_values_of_their_type():
    job = filled()
    assert {key: type(value) for key, value in job.items()} == LAUNCHD_KEYS
    assert not re.search("@[A-Z]+@", repr(job)), "a placeholder that the comment does not name"
    assert job["Label"] == LABEL == PLIST.stem
    assert job["ProcessType"] in {"Background", "Standard", "Adaptive", "Interactive"}


def test_launchd_runs_us_in_the_foreground_by_our_socket_and_not_for_ever():
    job = filled()
    assert job["ProgramArguments"] == ["/usr/local/bin/ormahd", "run"]
    assert job["Sockets"] == {LAUNCHD_NAME: {"SockPathName": "/Users/me/run/o.sock", "SockPathMode": 0o600}}
    assert job["KeepAlive"] == {"Crashed": True}
    assert job["ThrottleInterval"] >= 10


def test_the_commands_know_the_same_names():
    from ormahctl import managers

    assert managers.LABEL == LABEL
    assert managers.UNIT == "ormahd.service"
    assert managers.SOCKET_UNIT == "ormahd.socket"
    assert (SYSTEMD / managers.SOCKET_UNIT).is_file()


@pytest.mark.skipif(sys.platform != "darwin", reason="only macOS has plutil")
def test_macos_takes_the_property_list():
    assert subprocess.run(["plutil", "-lint", str(PLIST)], check=False).returncode == 0
