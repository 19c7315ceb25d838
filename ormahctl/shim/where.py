"""Where the daemon answers, as `ormahd.paths.find_socket` finds it without a `config.toml`.

`ormahctl setup` writes `--socket` into a hook's command where the configuration says otherwise.
"""

import posix
import sys

_NAME = "ormahd.sock"


def socket_path(flag: str) -> str:
    """The socket: the flag, `ORMAH_SOCKET`, the one of `ORMAH_VAULT`, the default."""
    given = flag or _variable("ORMAH_SOCKET") or _variable("ORMAH_DAEMON_SOCKET")
    if given:
        return _expanded(given)
    vault = _variable("ORMAH_VAULT") or _variable("ORMAH_VAULT_PATH")
    return f"{_runtime()}/{_of(_expanded(vault)) if vault else _NAME}"


def of_vault(vault: str, usual: str) -> str:
    """The socket of `vault`, where the configuration has the vault `usual`; "" for each means the default one."""
    from posixpath import realpath

    if not vault or (usual and realpath(vault) == realpath(usual)):
        return f"{_runtime()}/{_NAME}"
    return f"{_runtime()}/{_of(vault, usual)}"


def _runtime() -> str:
    """The directory of sockets."""
    for base in (_variable("XDG_RUNTIME_DIR"), f"/run/user/{posix.getuid()}"):
        if base and _is_directory(base):
            return f"{base.rstrip('/')}/ormah"
    return _base("XDG_STATE_HOME", "~/.local/state") + "/ormah/run"


def _base(name: str, usual: str) -> str:
    """A base directory of XDG's; a relative one does not count."""
    given = _variable(name)
    if given.startswith("/"):
        return given.rstrip("/")
    return _expanded("~/Library/Application Support" if sys.platform == "darwin" else usual)


def _of(vault: str, usual: str = "") -> str:
    """The name of the socket of a vault that `ORMAH_VAULT` names. Rare, so only here more is imported."""
    from hashlib import sha256
    from posixpath import realpath

    root = realpath(vault)
    if root == realpath(usual or _base("XDG_DATA_HOME", "~/.local/share") + "/ormah/vault"):
        return _NAME
    key = sha256(root.encode(sys.getfilesystemencoding(), "surrogateescape")).hexdigest()[:8]
    return f"ormahd-{key}.sock"


def _expanded(path: str) -> str:
    if path != "~" and not path.startswith("~/"):
        return path
    home = _variable("HOME")
    if not home.startswith("/"):
        import pwd

        home = pwd.getpwuid(posix.getuid()).pw_dir
    return home.rstrip("/") + path[1:]


def _variable(name: str) -> str:
    found = posix.environ.get(name.encode(), b"")
    return found.decode(sys.getfilesystemencoding(), "surrogateescape")


def _is_directory(path: str) -> bool:
    try:
        return posix.stat(path).st_mode & 0o170000 == 0o040000
    except (OSError, ValueError):
        return False
