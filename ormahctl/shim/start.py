"""Starting the daemon for a session that begins without one. Only then is this imported: it reads the configuration.

What may be started, and how, `ormahctl/autostart.py` decides, which runs in a process of its own; this knows as much of it as
the notice to the person needs.
"""

import posix
import sys

from ormahctl.shim import where

_RUN = "import sys; sys.path.insert(0, sys.argv[1]); from ormahctl.autostart import main; sys.exit(main(sys.argv[2:]))"
"""Isolated, as the shim itself: from the project's folder, which is where a harness runs us, nothing must be imported."""
STARTED = (
    b"the daemon was not running, so this session begins without memories. It starts now: later prompts have them."
)
STOPPED = b"the daemon was stopped (ormahctl down), so this session begins without memories. To start it: ormahctl up"
_SANDBOXED = (b"CODEX_SANDBOX", b"CODEX_SANDBOX_NETWORK_DISABLED")
_OFF = ("0", "false", "no", "off", "f", "n")


def begin(socket: str) -> "bytes | None":
    """Start the daemon in the background where that is allowed, and wait for nothing; what to say of it, or None."""
    settings = _settings()
    if _expected(settings) != socket or any(posix.environ.get(name) for name in _SANDBOXED):
        return None
    given = where._variable("ORMAH_DAEMON_AUTOSTART") or str(_table(settings, "daemon").get("autostart", ""))
    if given.strip().lower() in _OFF:
        return None
    if _stopped(socket):
        return STOPPED
    if _connects(socket):  # it hangs, or answers too late: another one would not help
        return None
    root = __file__.rpartition("/ormahctl/")[0]
    # Nothing of the harness's streams is kept open: whoever reads them would wait for the daemon too.
    silent = [
        (posix.POSIX_SPAWN_OPEN, 0, "/dev/null", posix.O_RDWR, 0),
        (posix.POSIX_SPAWN_DUP2, 0, 1),
        (posix.POSIX_SPAWN_DUP2, 0, 2),
    ]
    words = [sys.executable, "-I", "-c", _RUN, root, socket]
    posix.posix_spawn(sys.executable, words, posix.environ, file_actions=silent, setpgroup=0)
    return STARTED


def _settings() -> "dict[str, object]":
    """What `config.toml` says; nothing where it is not there or cannot be read."""
    from tomllib import loads

    given = where._variable("ORMAH_CONFIG")
    file = given or where._base("XDG_CONFIG_HOME", "~/.config") + "/ormah/config.toml"
    try:
        fd = posix.open(file, posix.O_RDONLY | posix.O_CLOEXEC)
        try:
            return loads(posix.read(fd, 1 << 20).decode())
        finally:
            posix.close(fd)
    except (OSError, ValueError):
        return {}


def _table(settings: "dict[str, object]", name: str) -> "dict[str, object]":
    found = settings.get(name)
    return found if isinstance(found, dict) else {}


def _expected(settings: "dict[str, object]") -> str:
    """The socket as `ormahd.paths.find_socket` finds it without a flag and without `ORMAH_SOCKET`."""
    socket = _table(settings, "daemon").get("socket")
    if isinstance(socket, str) and socket:
        return where._expanded(socket)
    vault = _table(settings, "vault").get("path")
    usual = where._expanded(vault) if isinstance(vault, str) and vault else ""
    given = where._expanded(where._variable("ORMAH_VAULT") or where._variable("ORMAH_VAULT_PATH"))
    return where.of_vault(given or usual, usual)


def _stopped(socket: str) -> bool:
    """Whether a person stopped it since the machine was started; as `ormahd.paths.is_stopped` has it."""
    import time

    try:
        marked = posix.stat(socket + ".down").st_mtime
    except OSError:
        return False
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return marked > time.time() - time.clock_gettime(clock)


def _connects(socket: str) -> bool:
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
