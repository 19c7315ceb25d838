"""Starts the daemon when a command or a session needs it, as gpg does with its agent (setting `daemon.autostart`).

Only the daemon of the caller's configuration is started, never one that a person named by `--socket` or `ORMAH_SOCKET`.
After `ormahctl down` it stays down until `ormahctl up`, `restart`, or the next boot. If several
processes need it at once, one starts it and the others wait.
"""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from ormahctl import supervise
from ormahd import paths
from ormahd.api import HelloResult
from ormahd.rpc.wire import OrmahError

SANDBOXED: Final = ("CODEX_SANDBOX", "CODEX_SANDBOX_NETWORK_DISABLED")
"""Environment variables that Codex sets in its sandbox. Processes there may not write files or connect to sockets, so a
daemon would not work."""


def allowed(socket: Path, environ: Mapping[str, str] | None = None) -> bool:
    """Whether a command may start the daemon at `socket` automatically."""
    environ = os.environ if environ is None else environ
    if not paths.autostart(environ) or any(environ.get(name) for name in SANDBOXED):
        return False
    return is_configured(socket, environ) and not paths.is_stopped(socket)


def is_configured(socket: Path, environ: Mapping[str, str] | None = None) -> bool:
    """Whether `socket` is the path that the configuration names, or the default path. `--socket` and the variables in
    `paths.SOCKET_VARIABLES` do not count."""
    environ = os.environ if environ is None else environ
    rest = {name: value for name, value in environ.items() if name not in paths.SOCKET_VARIABLES}
    return os.path.abspath(socket) == os.path.abspath(paths.find_socket(environ=rest))


def start(socket: Path) -> HelloResult:
    """Start the daemon at `socket` unless it runs, and return its reply to `hello`. If several processes call
    this at once, one starts it and the others wait.

    Raises:
        Unavailable: the daemon does not start; the message has its output.
    """
    with _start_lock(socket):
        return supervise.start(socket, flag=None).hello


@contextmanager
def _start_lock(socket: Path) -> Iterator[None]:
    """Context manager: hold a lock on the file `SOCKET.starting` during the block, so that one process at a time
    starts the daemon at `socket`. Waits until other processes release the lock."""
    paths.private_dir(socket.parent)
    fd = os.open(socket.with_name(f"{socket.name}.starting"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def main(words: list[str]) -> int:
    """Start the daemon at the socket `words[0]`, and return an exit status. The hook of a new session runs this."""
    socket = Path(words[0])
    if not allowed(socket):
        return 1
    try:
        start(socket)
    except OrmahError as exc:
        return exc.exit_status
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
