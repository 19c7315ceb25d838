"""Ask systemd's user manager or launchd whether the daemon is installed as a service, and which process it is."""

from __future__ import annotations

import os
import plistlib
import re
import shutil
import subprocess
from pathlib import Path
from subprocess import DEVNULL
from typing import Final, Literal

from ormahd import paths

UNIT: Final = "ormahd.service"
SOCKET_UNIT: Final = "ormahd.socket"
LABEL: Final = "io.ormah.ormahd"
"""`UNIT` and `SOCKET_UNIT` for systemd, `LABEL` for launchd: names that `ormahctl setup service` gives the daemon."""
MACOS: Final = os.uname().sysname == "Darwin"
TOOL_SECONDS: Final = 30.0
BOOTED: Final = Path("/run/systemd/system")
"""A path that exists if systemd runs as the first process (sd_booted(3))."""


def run_tool(*command: str) -> subprocess.CompletedProcess[str]:
    """Run a command of systemd, launchd or an agent. The return code is 127 if it is not installed, 124 after `TOOL_SECONDS`."""
    environ = dict(os.environ)
    runtime = f"/run/user/{os.getuid()}"
    if not environ.get("XDG_RUNTIME_DIR") and os.path.isdir(runtime):
        environ["XDG_RUNTIME_DIR"] = runtime  # `su` and cron do not set it, and systemctl looks for its bus there
    try:
        return subprocess.run(
            command,
            stdin=DEVNULL,
            capture_output=True,
            errors="replace",
            timeout=TOOL_SECONDS,
            check=False,
            env=environ,
        )
    except FileNotFoundError:
        return subprocess.CompletedProcess(command, 127, "", f"{command[0]} is not installed")
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 124, "", f"{command[0]} did not answer within {TOOL_SECONDS:.0f} s")


def state() -> Literal["answers", "silent", "none"]:
    """Return the state of the service manager: `answers`; `silent` if it cannot be reached from this session; `none`
    if there is none."""
    if MACOS:
        return "answers" if run_tool("launchctl", "print", launchd_domain()).returncode == 0 else "silent"
    if shutil.which("systemctl") is None:
        return "none"
    if run_tool("systemctl", "--user", "show-environment").returncode == 0:
        return "answers"
    return "silent" if BOOTED.is_dir() else "none"


def is_wsl() -> bool:
    """Whether this is Linux in Windows (WSL), where systemd must be switched on."""
    try:
        return "microsoft" in Path("/proc/version").read_text().lower()
    except OSError:
        return False


def serves(socket: Path) -> bool:
    """Whether the daemon at `socket` is a service installed by `ormahctl setup`."""
    if MACOS:
        try:
            place = plistlib.loads(plist_path().read_bytes())["Sockets"]["ormahd"]["SockPathName"]
        except (OSError, ValueError, KeyError, TypeError):
            return False
        return os.path.abspath(socket) == str(place)
    output = run_tool("systemctl", "--user", "show", SOCKET_UNIT, "--property=Listen").stdout
    listens = re.findall(r"^Listen=(.*?) \(Stream\)$", output, re.MULTILINE)
    return os.path.abspath(socket) in listens


def service_pid() -> int | None:
    """Return the process id of the service: 0 if the service does not run, None if it is not installed or the service
    manager does not answer."""
    if MACOS:
        if not plist_path().is_file():
            return None
        output = run_tool("launchctl", "print", f"{launchd_domain()}/{LABEL}").stdout
        pid = re.search(r"^\s*pid = (\d+)\s*$", output, re.MULTILINE)
        return int(pid[1]) if pid else 0
    done = run_tool("systemctl", "--user", "show", UNIT, "--property=LoadState,MainPID")
    found = dict(text.split("=", 1) for text in done.stdout.splitlines() if "=" in text)
    if done.returncode or found.get("LoadState") != "loaded":
        return None
    return int(found.get("MainPID") or 0)


def start() -> tuple[str, subprocess.CompletedProcess[str], str]:
    """Start the service. Return (name of the service manager, the finished command, hint for a person if it failed)."""
    if MACOS:
        if run_tool("launchctl", "print", f"{launchd_domain()}/{LABEL}").returncode:
            run_tool("launchctl", "bootstrap", launchd_domain(), str(plist_path()))
        return "launchd", run_tool("launchctl", "kickstart", f"{launchd_domain()}/{LABEL}"), "see: ormahctl logs"
    done = run_tool("systemctl", "--user", "start", UNIT)
    return "systemd", done, f"see: journalctl --user -u {UNIT} -n 30"


def stop() -> None:
    """Stop the service and its socket. If the socket stayed, the next connection to it would start the service
    again."""
    on_macos = ("launchctl", "bootout", f"{launchd_domain()}/{LABEL}")
    run_tool(*(on_macos if MACOS else ("systemctl", "--user", "stop", SOCKET_UNIT, UNIT)))


def enable_commands() -> list[list[str]]:
    """Return the commands that start an installed service now and at login."""
    if MACOS:
        return [["launchctl", "bootstrap", launchd_domain(), str(plist_path())]]
    # the service counts as ready once all is loaded, but it answers through the socket earlier, so do not wait
    begin = ["systemctl", "--user"]
    started = [[*begin, "start", SOCKET_UNIT], [*begin, "start", "--no-block", UNIT]]
    return [[*begin, "daemon-reload"], [*begin, "enable", SOCKET_UNIT, UNIT], *started]


def disable_commands() -> list[list[str]]:
    """Return the commands that stop and disable the service. After they ran and the service's files were removed, run
    the commands of `reload_commands`."""
    if MACOS:
        return [["launchctl", "bootout", f"{launchd_domain()}/{LABEL}"]]
    return [["systemctl", "--user", "disable", "--now", SOCKET_UNIT, UNIT]]


def reload_commands() -> list[list[str]]:
    """Return the commands that make the service manager notice that the service's files were removed."""
    return [] if MACOS else [["systemctl", "--user", "daemon-reload"]]


def lingers() -> bool:
    """Whether systemd starts this user's services at boot, before any login (lingering). False on macOS."""
    if MACOS:
        return False
    return "Linger=yes" in run_tool("loginctl", "show-user", str(os.getuid()), "--property=Linger").stdout


def launchd_domain() -> str:
    """Return the name of launchd's domain for the services of this user."""
    return f"gui/{os.getuid()}"


def plist_path() -> Path:
    """Return the path of launchd's property list for the service."""
    return paths.home() / "Library" / "LaunchAgents" / f"{LABEL}.plist"
