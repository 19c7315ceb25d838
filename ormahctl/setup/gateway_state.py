"""Check the gateway for `ormahctl doctor`. Starts none: it is no problem if none runs."""

from __future__ import annotations

import contextlib
import os
import stat
import time
from pathlib import Path
from typing import Final

from ormahctl.gateway import reach
from ormahctl.shim import gateway
from ormahd import __version__
from ormahd.api import Finding
from ormahd.rpc.wire import OrmahError, peer_pid

BEGINS: Final = 5.0
"""Seconds that a gateway may take from taking its lock until it listens."""
ANSWERS: Final = 10.0
"""Seconds within which a gateway must answer `status`; otherwise it hangs."""
POLL: Final = 0.05


def findings(socket: Path, *, begins: float = BEGINS, answers: float = ANSWERS) -> list[Finding]:
    """Return the problems of the gateway of the daemon at `socket`. `begins`, `answers`: seconds that a gateway may
    take until it listens, and until it answers."""
    path = gateway.address(os.fspath(socket))
    until = time.monotonic() + begins
    try:
        while (channel := gateway.connect(os.fspath(socket))) is None and _is_locked(path) and time.monotonic() < until:
            time.sleep(POLL)
    except OSError as exc:
        mend = "make it reachable for your user, or set another socket: daemon.socket"
        return [Finding("error", f"the gateway cannot be reached: {exc.strerror or exc}", path, mend=mend)]
    if channel is None:
        return _unreached(path)
    pid = peer_pid(channel)
    channel.close()
    named = "the gateway" if pid is None else f"the gateway (pid {pid})"
    try:
        found = reach.order(socket, "status", {}, start=False, seconds=answers)
    except OrmahError:
        if (again := gateway.connect(os.fspath(socket))) is None:
            return []  # it ended meanwhile, because it was unused
        again.close()
        end = "end its process" if pid is None else f"kill {pid}"
        return [
            Finding(
                "warning", f"{named} does not answer", mend=f"{end}; the next session of an agent starts another one"
            )
        ]
    if found.get("version") != __version__:
        what = f"{named} is version {found.get('version')}, and {__version__} is installed"
        return [Finding("warning", what, mend="ormahctl restart")]
    return []


def _unreached(path: str) -> list[Finding]:
    """Return the problems of a gateway if no process listens at its socket `path`."""
    if _is_locked(path):
        what = "a gateway runs, and nothing listens at its socket: agents that begin a session wait for it"
        mend = f"end the process that holds the lock (fuser {path}.lock); the next session starts another one"
        return [Finding("warning", what, path, mend=mend)]
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return []
    if not stat.S_ISSOCK(mode):
        what = "it is in the place of the gateway's socket, and is no socket, so no agent can begin a session"
        return [Finding("error", what, path, mend="move it away")]
    said = gateway.complaint(path.removesuffix(gateway.SUFFIX))
    what = "the gateway ended without removing its socket" + (f"; its log ends with: {said[:200]}" if said else "")
    return [Finding("info", what, path, mend="nothing is to be done: the next session of an agent replaces it")]


def _is_locked(path: str) -> bool:
    """Whether a process holds the lock of the gateway whose socket is `path`. Does not create the lock's file."""
    with contextlib.suppress(OSError):
        if os.path.exists(f"{path}.lock"):
            lock = gateway.take_lock(path.removesuffix(gateway.SUFFIX))
            if lock is None:
                return True
            os.close(lock)
    return False
