"""Paths of files and folders (DESIGN section 3): XDG directories, and the key that ties index and state to one
vault.

Imports only the standard library, platformdirs and Ormah's errors, because commands import it first.
"""

from __future__ import annotations

import codecs
import hashlib
import os
import shlex
import shutil
import stat
import sys
import sysconfig
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypedDict

from platformdirs import PlatformDirs

from ormahd.errors import Unavailable

APP = "ormah"
SOCKET_NAME = "ormahd.sock"
SOCKET_VARIABLES = ("ORMAH_SOCKET", "ORMAH_DAEMON_SOCKET")
MAX_SOCKET_PATH = 103
"""Bytes allowed in a Unix socket's path on macOS (Linux: 107)."""


def _base(kind: str) -> Path:
    """Return the base directory for `kind`: `config`, `data`, `cache` or `state`.

    Raises:
        Unavailable: it is unknown, as in a container without HOME and without an entry for its user.
    """
    try:
        found: Path = getattr(PlatformDirs(APP, appauthor=False), f"user_{kind}_path")
    except RuntimeError:
        raise _homeless(f"XDG_{kind.upper()}_HOME") from None
    return found


def _homeless(variable: str) -> Unavailable:
    """Return the error that there is no home directory. `variable`: the one that could name the folder instead."""
    return Unavailable(
        f"there is no home directory: HOME is not set, and user {os.getuid()} has no entry in the user database",
        hint=f"set HOME to a folder that you may write to (or {variable})",
    )


def in_utf8() -> None:
    """Restart this program in UTF-8 mode if the locale uses another encoding for file names and arguments.

    Notes may have names in any script. Returns if no restart is needed.
    """
    if sys.getfilesystemencoding() != "utf-8" and os.environ.get("PYTHONUTF8") != "1":
        os.environ["PYTHONUTF8"] = "1"
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606 - this program


def known_home() -> Path | None:
    """Return the person's home directory; None in a container without one."""
    try:
        return Path.home()
    except RuntimeError:
        return None


def home() -> Path:
    """Return the person's home directory.

    Raises:
        Unavailable: there is none.
    """
    found = known_home()
    if found is None:
        raise _homeless("the XDG_* variables")
    return found


def expand(path: Path) -> Path:
    """Return `path` with `~` or `~NAME` replaced by the home directory.

    Raises:
        Unavailable: that home directory is unknown.
    """
    try:
        return path.expanduser()
    except RuntimeError:
        raise Unavailable(
            f"{path}: that home directory is not known", hint="write the whole path, or set HOME"
        ) from None


def config_file() -> Path:
    """Return the path of the configuration file."""
    return _base("config") / "config.toml"


def default_vault() -> Path:
    """Return the path of the vault if none is configured."""
    return _base("data") / "vault"


def _key(root: Path) -> str:
    """Return 8 hexadecimal digits: the beginning of the hash of the real path of `root`."""
    return hashlib.sha256(os.fsencode(os.path.realpath(root))).hexdigest()[:8]


def index_dir(root: Path, vault_id: str) -> Path:
    """Return the folder of the index of the vault at `root`; a copied vault gets its own."""
    return _base("cache") / f"{vault_id}-{_key(root)}"


def models_dir() -> Path:
    """Return the folder of files computed from embedding models. They belong to no vault, and can be recomputed."""
    return _base("cache") / "models"


def state_dir(root: Path, vault_id: str) -> Path:
    """Return the folder of the state of one copy of a vault: its id and its path name it."""
    return _base("state") / f"{vault_id}-{_key(root)}"


def sessions_dir(vault_id: str) -> Path:
    """Return the folder of the archive of sessions that belongs to a vault."""
    return _base("data") / "sessions" / vault_id


def purged_file(vault_id: str) -> Path:
    """Return the path of the file that lists, as keyed hashes, which archived turns of a vault were purged."""
    return _base("data") / "purged" / vault_id


def own_folders() -> list[Path]:
    """Return the folders that hold the configuration, data, index and state of all vaults of this user."""
    return [_base(kind) for kind in ("config", "data", "cache", "state")]


def setup_dir() -> Path:
    """Return the folder where `ormahctl setup` records its changes to other programs' settings; it belongs to no
    vault."""
    return _base("state") / "setup"


class AgentConnection(TypedDict):
    """How an agent reaches Ormah, as recorded by `ormahctl setup`: `program` is the shell command for ormahctl,
    quoted."""

    program: str


def wiring_file() -> Path:
    """Return the path of the JSON file with {agent: `AgentConnection`}, from which texts for agents are made."""
    return setup_dir() / "wiring.json"


def program(name: str) -> str:
    """Return the shell command for `name` (`ormahctl`, `ormahd`) of this installation: its absolute path, quoted. A
    shell that an agent starts may have another PATH."""
    found = script(name)
    return name if found is None or not found.isprintable() else shlex.quote(found)


def script(name: str) -> str | None:
    """Return the absolute path of this installation's script `name`; None if there is none. A path on PATH is preferred,
    outside an activated environment, because it stays valid after an update."""
    ours, active = next(iter(_scripts(name)), None), os.environ.get("VIRTUAL_ENV")
    dirs = [entry for entry in os.environ.get("PATH", os.defpath).split(os.pathsep) if os.path.isabs(entry)]
    if active:
        dirs = [entry for entry in dirs if os.path.realpath(entry) != os.path.realpath(os.path.join(active, "bin"))]
    found = shutil.which(name, path=os.pathsep.join(dirs)) if dirs and ours is not None else None
    return found if found is not None and os.path.realpath(found) == os.path.realpath(str(ours)) else ours


def _scripts(name: str) -> Iterator[str]:
    """Yield this installation's possible paths of the script `name`: beside the running script, beside the interpreter,
    in the user's script folder."""
    running = os.path.abspath(sys.argv[0]) if sys.argv and sys.argv[0] else ""
    places = [os.path.dirname(sys.executable), sysconfig.get_path("scripts", f"{os.name}_user")]
    if os.path.basename(running) in {"ormahctl", "ormahd"}:
        places.insert(0, os.path.dirname(running))
    for place in places:
        file = os.path.join(place, name)
        if os.path.isfile(file) and os.access(file, os.X_OK):
            yield file


def inherit(root: Path, former: str, vault_id: str) -> None:
    """Rename index, state, sessions and purged turns of the vault at `root` when its id changes from `former` to
    `vault_id`. What exists under the new id is not replaced."""
    pairs = [(place(root, former), place(root, vault_id)) for place in (index_dir, state_dir)]
    for old, new in [*pairs, (sessions_dir(former), sessions_dir(vault_id))]:
        if old.is_dir() and not new.exists():
            old.rename(new)
    if purged_file(former).is_file() and not purged_file(vault_id).exists():
        purged_file(former).rename(purged_file(vault_id))


def runtime_dir() -> Path:
    """Return the directory of sockets: the user's runtime directory, or one in the state directory if the system
    provides none (cron, ssh)."""
    given = os.environ.get("XDG_RUNTIME_DIR")
    if given and Path(given).is_dir():
        return Path(given) / APP
    if Path(f"/run/user/{os.getuid()}").is_dir():
        return Path(f"/run/user/{os.getuid()}") / APP
    return _base("state") / "run"


def socket_path(root: Path, *, usual: Path) -> Path:
    """Return the path of the socket of the vault at `root`: a fixed name if `root` is the configured vault (`usual`),
    otherwise a name with a hash."""
    if os.path.realpath(root) == os.path.realpath(usual):
        return runtime_dir() / SOCKET_NAME
    return runtime_dir() / f"ormahd-{_key(root)}.sock"


def private_dir(path: Path) -> Path:
    """Create `path` as a directory that only this user can enter; raises PermissionError if it belongs to another
    user."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as exc:
        raise Unavailable(
            f"the directory {path} cannot be made: {exc.strerror}",
            hint="set HOME, or the XDG_* variable that names it, to a folder that you may write to",
        ) from exc
    found = path.stat()
    if found.st_uid != os.getuid():
        raise PermissionError(f"{path} belongs to user {found.st_uid}, not to us; remove it or set another directory")
    if stat.S_IMODE(found.st_mode) & 0o077:
        path.chmod(0o700)
    return path


def read_text(file: Path) -> str:
    """Return the text of a configuration file, also with a byte order mark or in UTF-16, as Windows editors save it.

    Raises OSError, UnicodeDecodeError.
    """
    data = file.read_bytes()
    utf_16 = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return data.decode("utf-16" if utf_16 else "utf-8-sig").replace("\r\n", "\n")


def _tables(environ: Mapping[str, str], config: Path | None = None) -> dict[str, Any]:
    """Return the content of `config.toml`; {} if it cannot be read (config.py reports why)."""
    file = config or (Path(environ["ORMAH_CONFIG"]) if environ.get("ORMAH_CONFIG") else config_file())
    try:
        text = read_text(file)
    except (OSError, UnicodeDecodeError):
        return {}
    import tomllib

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return {}


def _setting(environ: Mapping[str, str], group: str, key: str) -> str:
    """Return a setting in lower case, "" if it is unset. For code that needs it before the configuration is validated."""
    table = _tables(environ).get(group)
    given = environ.get(f"ORMAH_{group}_{key}".upper()) or (table.get(key, "") if isinstance(table, dict) else "")
    return str(given).strip().lower()


_OFF = {"0", "false", "no", "off", "f", "n"}


def autostart(environ: Mapping[str, str] = os.environ) -> bool:
    """Return the setting `daemon.autostart`."""
    return _setting(environ, "daemon", "autostart") not in _OFF


def whispers_at_tools() -> bool:
    """Return the setting `whisper.tools`, for the setup of agents."""
    return _setting(os.environ, "whisper", "tools") not in _OFF


def spool_dir(socket: Path) -> Path:
    """Return the folder beside a socket where hooks leave events while no daemon listens. `ormahctl/shim/prompt.py`
    repeats its name."""
    return socket.with_name(f"{socket.name}.spool")


def down_mark(socket: Path) -> Path:
    """Return the path of the file that `ormahctl down` creates beside a socket. While it exists, the daemon is not
    started automatically."""
    return socket.with_name(f"{socket.name}.down")


def is_stopped(socket: Path) -> bool:
    """Return whether a person stopped the daemon of `socket` since the machine booted, and it was not started since."""
    try:
        marked = down_mark(socket).stat().st_mtime
    except OSError:
        return False
    return marked > time.time() - time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def configured(environ: Mapping[str, str] | None = None, config: Path | None = None) -> dict[str, str]:
    """Return {"vault": path, "socket": path} from `config.toml`, without those that are not set."""
    tables = _tables(os.environ if environ is None else environ, config)
    found: dict[str, str] = {}
    for name, group, key in (("vault", "vault", "path"), ("socket", "daemon", "socket")):
        table = tables.get(group)
        value = table.get(key) if isinstance(table, dict) else None
        if isinstance(value, str) and value:
            found[name] = os.path.expanduser(value)
    return found


def configured_sources() -> list[Path]:
    """Return the folders that `config.toml` names as sources."""
    tables = _tables(os.environ).get("sources")
    listed = tables if isinstance(tables, list) else []
    return [Path(os.path.expanduser(str(one["path"]))) for one in listed if isinstance(one, dict) and "path" in one]


def find_socket(flag: str | None = None, environ: Mapping[str, str] | None = None) -> Path:
    """Return the path of the daemon's socket. In this order it is from `flag`, `ORMAH_SOCKET`, `config.toml`, or the
    default."""
    environ = os.environ if environ is None else environ
    given = flag or environ.get("ORMAH_SOCKET") or environ.get("ORMAH_DAEMON_SOCKET")
    if given:
        return expand(Path(given))
    if "socket" in (known := configured(environ)):
        return Path(known["socket"])
    configured_vault = Path(known["vault"]) if "vault" in known else default_vault()
    environment_vault = environ.get("ORMAH_VAULT") or environ.get("ORMAH_VAULT_PATH")
    vault = expand(Path(environment_vault)) if environment_vault else configured_vault
    return socket_path(vault, usual=configured_vault)


_TRANSCRIPTS: Final = (
    ("claude-code", "CLAUDE_CONFIG_DIR", ".claude", "", "settings.json", ("projects",)),
    ("codex", "CODEX_HOME", ".codex", "", "hooks.json", ("sessions", "archived_sessions")),
    ("gemini", "GEMINI_CLI_HOME", ".gemini", ".gemini", "settings.json", ("tmp",)),
)
"""(agent, variable that names another home for it, its usual folder, its folder in that home, the settings file in this
folder that `ormahctl setup` changes, the folders in it that have transcripts)."""


def transcript_folders(environ: Mapping[str, str] | None = None) -> list[tuple[str, Path]]:
    """Return (agent, folder) for each folder in which an agent keeps transcripts, whether it exists or not. Empty
    without a home directory.

    These are the one in `environ` (`CLAUDE_CONFIG_DIR`) or the usual one, and those that `ormahctl setup` connected.
    """
    environ, person = os.environ if environ is None else environ, known_home()
    found = []
    for agent, variable, usual, inside, settings, names in _TRANSCRIPTS:
        given = environ.get(variable)
        homes = [Path(os.path.abspath(os.path.expanduser(given))) / inside] if given else []
        homes = homes or ([person / usual] if person is not None else [])
        homes += [file.parent for file in _changed(agent) if file.name == settings] if person is not None else []
        found += [(agent, home / name) for home in dict.fromkeys(homes) for name in names]
    return found


def _changed(agent: str) -> list[Path]:
    """Return the settings files of an agent that `ormahctl setup` changed."""
    import json

    found = []
    for record in sorted(setup_dir().glob(f"{agent}-*.json")):
        try:
            found.append(Path(json.loads(record.read_bytes())["file"]))
        except (OSError, ValueError, KeyError, TypeError):
            continue  # setup and uninstall pass over such a record, too
    return found
