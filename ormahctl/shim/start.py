"""Find the daemon's socket, and start the daemon when a session begins without one.

`configured_socket` finds it as `ormahd.paths.find_socket` does. `socket_path` does the same without reading `config.toml`:
if the configuration names another socket, `ormahctl setup` writes `--socket` into the hook's command.

`ormahctl/autostart.py`, in a process of its own, decides whether and how to start the daemon. This module checks only
enough to choose the notice for the person.
"""

import posix
import sys

_NAME = "ormahd.sock"


def socket_path(flag: str) -> str:
    """Return the path of the daemon's socket: from `flag` (the value of `--socket`, or ""), else from `ORMAH_SOCKET`
    or `ORMAH_VAULT`, else the default."""
    given = flag or _variable("ORMAH_SOCKET") or _variable("ORMAH_DAEMON_SOCKET")
    if given:
        return _expand_home(given)
    vault = _variable("ORMAH_VAULT") or _variable("ORMAH_VAULT_PATH")
    return f"{_runtime_directory()}/{_socket_name(_expand_home(vault)) if vault else _NAME}"


def configured_socket(flag: str) -> str:
    """Return the absolute path of the daemon's socket as `ormahd.paths.find_socket` finds it, `config.toml` included.
    `flag`: the value of `--socket`, or ""."""
    given = flag or _variable("ORMAH_SOCKET") or _variable("ORMAH_DAEMON_SOCKET")
    path = _expand_home(given) if given else _default_socket(_settings())
    return path if path.startswith("/") else f"{posix.getcwd()}/{path}"


def of_vault(vault: str, usual: str) -> str:
    """Return the path of the daemon's socket for `vault`. `usual`: the vault that the configuration names. An empty
    text stands for the default vault, in both."""
    from posixpath import realpath

    if not vault or (usual and realpath(vault) == realpath(usual)):
        return f"{_runtime_directory()}/{_NAME}"
    return f"{_runtime_directory()}/{_socket_name(vault, usual)}"


def _runtime_directory() -> str:
    """Return the directory that holds the daemons' sockets."""
    for base in (_variable("XDG_RUNTIME_DIR"), f"/run/user/{posix.getuid()}"):
        try:
            if base and posix.stat(base).st_mode & 0o170000 == 0o040000:  # a directory
                return f"{base.rstrip('/')}/ormah"
        except (OSError, ValueError):
            continue
    return _xdg_directory("XDG_STATE_HOME", "~/.local/state") + "/ormah/run"


def _xdg_directory(name: str, usual: str) -> str:
    """Return the directory that the XDG variable `name` names. If it is not set, or a relative path, return `usual`;
    on macOS, return `~/Library/Application Support`."""
    given = _variable(name)
    if given.startswith("/"):
        return given.rstrip("/")
    return _expand_home("~/Library/Application Support" if sys.platform == "darwin" else usual)


def _socket_name(vault: str, usual: str = "") -> str:
    """Return the file name of the daemon's socket for `vault`. `usual`: the vault whose socket has the plain name;
    "": the default vault."""
    from hashlib import sha256
    from posixpath import realpath

    root = realpath(vault)
    if root == realpath(usual or _xdg_directory("XDG_DATA_HOME", "~/.local/share") + "/ormah/vault"):
        return _NAME
    key = sha256(root.encode(sys.getfilesystemencoding(), "surrogateescape")).hexdigest()[:8]
    return f"ormahd-{key}.sock"


def _expand_home(path: str) -> str:
    """Return `path` with the home directory in place of a leading `~`."""
    if path != "~" and not path.startswith("~/"):
        return path
    home = _variable("HOME")
    if not home.startswith("/"):
        import pwd

        home = pwd.getpwuid(posix.getuid()).pw_dir
    return home.rstrip("/") + path[1:]


def _variable(name: str) -> str:
    """Return the value of an environment variable as text; "" if it is not set."""
    found = posix.environ.get(name.encode(), b"")
    return found.decode(sys.getfilesystemencoding(), "surrogateescape")


_RUN = "import sys; sys.path.insert(0, sys.argv[1]); from ormahctl.autostart import main; sys.exit(main(sys.argv[2:]))"
"""Code of the process that starts the daemon. It runs with `-I`, because a harness starts it in the project's folder,
whose files must not be imported."""
STARTED = (
    b"the daemon was not running, so this session begins without memories. It starts now: later prompts have them."
)
STOPPED = b"the daemon was stopped (ormahctl down), so this session begins without memories. To start it: ormahctl up"
_SANDBOXED = (b"CODEX_SANDBOX", b"CODEX_SANDBOX_NETWORK_DISABLED")
_OFF = ("0", "false", "no", "off", "f", "n")


def begin(socket: str) -> bytes | None:
    """Start the daemon in the background, without waiting. Return a notice for the person about it; None if it may
    not be started from here, or listens already."""
    settings = _settings()
    if _default_socket(settings) != socket or any(posix.environ.get(name) for name in _SANDBOXED):
        return None
    given = _variable("ORMAH_DAEMON_AUTOSTART") or str(_table(settings, "daemon").get("autostart", ""))
    if given.strip().lower() in _OFF:
        return None
    if _is_stopped(socket):
        return STOPPED
    if _accepts_connection(socket):  # it hangs, or answers too late: another one would not help
        return None
    root = __file__.rpartition("/ormahctl/")[0]
    # The harness's streams are closed in the daemon: their reader would otherwise wait for its end.
    silent = [
        (posix.POSIX_SPAWN_OPEN, 0, "/dev/null", posix.O_RDWR, 0),
        (posix.POSIX_SPAWN_DUP2, 0, 1),
        (posix.POSIX_SPAWN_DUP2, 0, 2),
    ]
    words = [sys.executable, "-I", "-c", _RUN, root, socket]
    posix.posix_spawn(sys.executable, words, posix.environ, file_actions=silent, setpgroup=0)
    return STARTED


def _settings() -> dict[str, object]:
    """Return the content of `config.toml`; empty if it does not exist or cannot be read."""
    given = _variable("ORMAH_CONFIG")
    file = given or _xdg_directory("XDG_CONFIG_HOME", "~/.config") + "/ormah/config.toml"
    try:
        fd = posix.open(file, posix.O_RDONLY | posix.O_CLOEXEC)
        try:
            text = posix.read(fd, 1 << 20).decode()
        finally:
            posix.close(fd)
    except (OSError, ValueError):
        return {}
    from tomllib import loads

    try:
        return loads(text)
    except ValueError:
        return {}


def _table(settings: dict[str, object], name: str) -> dict[str, object]:
    """Return the table `name` of the settings; empty if there is none."""
    found = settings.get(name)
    return found if isinstance(found, dict) else {}


def _default_socket(settings: dict[str, object]) -> str:
    """Return the path of the daemon's socket for `settings`, as `ormahd.paths.find_socket` does if neither
    `--socket` nor `ORMAH_SOCKET` is environment_vault."""
    socket = _table(settings, "daemon").get("socket")
    if isinstance(socket, str) and socket:
        return _expand_home(socket)
    vault = _table(settings, "vault").get("path")
    configured_vault = _expand_home(vault) if isinstance(vault, str) and vault else ""
    environment_vault = _expand_home(_variable("ORMAH_VAULT") or _variable("ORMAH_VAULT_PATH"))
    return of_vault(environment_vault or configured_vault, usual=configured_vault)


def _is_stopped(socket: str) -> bool:
    """Whether a person stopped the daemon at `socket` after the machine booted, as in `ormahd.paths.is_stopped`."""
    import time

    try:
        marked = posix.stat(socket + ".down").st_mtime
    except OSError:
        return False
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return marked > time.time() - time.clock_gettime(clock)


def _accepts_connection(socket: str) -> bool:
    """Whether a process accepts connections at `socket`."""
    import _socket

    channel = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        channel.connect(socket)
    except OSError:
        return False
    else:
        return True
    finally:
        channel.close()
