"""The files by which systemd or launchd runs the daemon as a service of the person, filled in for this installation.

Only writes files: `ormahctl.managers` talks to systemd and launchd. Environment variables of the shell that change the
vault or the configuration are written into the file, because a service does not see them.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

from ormahctl import managers
from ormahctl.setup import change, file
from ormahctl.setup.change import ConfigChange
from ormahd import paths
from ormahd.rpc.wire import BadRequest

OWNER: Final = "service"
"""The name under which the records of the service's files are stored."""
PLACES: Final = (
    *("ORMAH_VAULT", "ORMAH_VAULT_PATH", "ORMAH_CONFIG"),
    *("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME"),
)
"""Variables that name directories. Every other `ORMAH_*` is a setting of this shell, and belongs into config.toml."""
SYSTEM_PATH: Final = ("/usr/local/bin", "/usr/bin", "/bin")
HOMEBREW: Final = "/opt/homebrew/bin"
_PROGRAM: Final = re.compile(r'ExecStart=(?:"([^"]+)"|(\S+))|<string>(/[^<]+)</string>')
"""Matches the program of a unit of systemd (one group of two), or of a property list of launchd (the third)."""
_COMMAND: Final = "ExecStart=%h/.local/bin/ormahd run"
_LISTEN: Final = "ListenStream=%t/ormah/ormahd.sock"


def install(socket: Path) -> list[ConfigChange]:
    """Plan the files that define the service for the daemon at `socket`: systemd units, or the property list for
    launchd."""
    wanted = launchd(socket, os.environ) if managers.MACOS else systemd(socket, os.environ)
    return [change.plan_whole_file(OWNER, path, data) for path, data in wanted.items()]


def installed() -> bool:
    """Whether the file that defines the service exists."""
    return managers.plist_path().is_file() if managers.MACOS else (_units_directory() / managers.UNIT).is_file()


def starts_at_login() -> bool:
    """Whether the service manager starts the daemon at login, or at least listens at the daemon's socket."""
    return installed() if managers.MACOS else any(_units_directory().glob(f"*.wants/{Path(managers.UNIT).stem}.*"))


def ignored_settings(environ: Mapping[str, str]) -> list[str]:
    """Return the names of the `ORMAH_*` variables in `environ` that are settings: the service will not have them."""
    ours = {*PLACES, *paths.SOCKET_VARIABLES, "ORMAH_SPACE"}
    return sorted(name for name, value in environ.items() if name.startswith("ORMAH_") and value and name not in ours)


def systemd(socket: Path, environ: Mapping[str, str]) -> dict[Path, bytes]:
    """Return {path: content} of the systemd units. Raises BadRequest if a unit cannot hold a path or a variable."""
    service, listening = _template(managers.UNIT), _template(managers.SOCKET_UNIT)
    lines = [f"Environment={_quoted(f'{name}={value}')}" for name, value in _environment(environ).items()]
    lines.append(f"ExecStart={' '.join(_quoted(word, command=True) for word in _command())}")
    usual = Path(f"/run/user/{os.getuid()}/ormah") / paths.SOCKET_NAME
    if os.path.abspath(socket) != str(usual):
        listening = listening.replace(_LISTEN, f"ListenStream={_checked(os.path.abspath(socket)).replace('%', '%%')}")
    return {
        _units_directory() / managers.UNIT: service.replace(_COMMAND, "\n".join(lines)).encode(),
        _units_directory() / managers.SOCKET_UNIT: listening.encode(),
    }


def launchd(socket: Path, environ: Mapping[str, str]) -> dict[Path, bytes]:
    """Return {path: content} of the property list for launchd."""
    variables = _environment(environ, homebrew=True)
    words = "\n    ".join(f"<string>{escape(_checked(word))}</string>" for word in _command()[:-1])
    pairs = "\n".join(
        f"    <key>{name}</key>\n    <string>{escape(_checked(value))}</string>" for name, value in variables.items()
    )
    text = _template(f"{managers.LABEL}.plist")
    text = text.replace("<string>@ORMAHD@</string>", words)
    text = text.replace("@SOCKET@", escape(_checked(os.path.abspath(socket))))
    pattern = r"    <key>PATH</key>\n    <string>[^<]*</string>"
    return {managers.plist_path(): re.sub(pattern, lambda _: pairs, text).encode()}


def missing_program() -> str | None:
    """Return what is wrong if the program that the installed service runs is missing, such as `runs PATH, which is not
    there`; None if it is there, or there is no service."""
    unit = managers.plist_path() if managers.MACOS else _units_directory() / managers.UNIT
    text = (file.read(unit).data or b"").decode("utf-8", "replace")
    found = _PROGRAM.search(text)
    program = "" if found is None else next(filter(None, found.groups())).replace("%h", str(paths.home()))
    if not program:
        return None
    if os.access(program, os.X_OK):
        first_line = (file.read(Path(program)).data or b"").partition(b"\n")[0]
        if not first_line.startswith(b"#!/") or os.access(os.fsdecode(first_line[2:].split()[0]), os.X_OK):
            return None
    return f"runs {program}, which is not there or has no interpreter"


def _command() -> list[str]:
    """Return the words of the service's command, `ormahd run`. The path is that of the entry script if there is one,
    because an update does not change it."""
    script = paths.script("ormahd")
    return [script, "run"] if script else [sys.executable, "-P", "-m", "ormahd", "run"]


def _environment(environ: Mapping[str, str], *, homebrew: bool = False) -> dict[str, str]:
    """Return {variable: value} for the service: those of `PLACES` that are set in `environ`, and a PATH that includes
    git. `homebrew`: include Homebrew's directory."""
    found = {name: os.path.abspath(os.path.expanduser(environ[name])) for name in PLACES if environ.get(name)}
    return dict(_path_variable(environ, homebrew)) | found


def _path_variable(environ: Mapping[str, str], homebrew: bool) -> Iterator[tuple[str, str]]:
    """Yield ("PATH", value) if the service needs another PATH than systemd sets, because git is elsewhere. For
    launchd (`homebrew`), which has no usable default, always yield it."""
    directories = [HOMEBREW, *SYSTEM_PATH] if homebrew else list(SYSTEM_PATH)
    git = shutil.which("git", path=environ.get("PATH"))
    if git is not None and os.path.dirname(git) not in directories:
        directories.insert(0, os.path.dirname(git))
    elif not homebrew:
        return  # the PATH that systemd sets is enough
    yield "PATH", ":".join(directories)


def _quoted(word: str, *, command: bool = False) -> str:
    """Return `word` quoted for a systemd unit (systemd.syntax(7)). `command`: the word is part of a command, in which
    `$` must be doubled too (systemd.service(5))."""
    text = _checked(word).replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    if command:
        text = text.replace("$", "$$")
    return text if re.fullmatch(r"[\w./:=@%+,$-]+", text, re.ASCII) else f'"{text}"'


def _checked(text: str) -> str:
    """Return `text` unchanged. Raises BadRequest if it has control characters, which no service's file can hold."""
    if not text.isprintable():
        raise BadRequest(f"{text!r} has characters that no service's file can hold", hint="give that path another name")
    return text


def _units_directory() -> Path:
    """Return the directory of this user's systemd units."""
    return change.config_home() / "systemd" / "user"


def _template(name: str) -> str:
    """Return the text of the template `name` of a service's file."""
    return files("ormahctl.setup").joinpath("units", name).read_text("utf-8")
