"""Start and stop the daemon: by systemd or launchd if it is installed as a service, otherwise as a detached process.

The daemon counts as running if it answers; a pid or a leftover file proves nothing.
"""

from __future__ import annotations

import os
import signal
import socket as sockets
import subprocess
import time
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import Final

from ormahctl import managers, offline
from ormahctl.session import PERSON, Client
from ormahd.api import HealthResult, HelloParams, HelloResult, NoParams
from ormahd.rpc.wire import OrmahError, Unavailable, peer_pid, peer_uid

HELLO_SECONDS: Final = 5.0
START_SECONDS: Final = 60.0
"""Seconds until a started daemon must listen. It listens before models are loaded; this covers a slow disk and
recovery."""
STOP_SECONDS: Final = 60.0
"""Seconds until a stopping daemon must have ended: running requests get 10 s, a job ends at its next step."""
POLL_SECONDS: Final = 0.05
READY_POLL_SECONDS: Final = 0.25
"""Seconds between two calls of `hello` that ask for the phase. Loading a model takes seconds, and each call is a line
in the log."""


# ---------------------------------------------------------------- does it answer?


def hello(socket: Path, timeout: float = HELLO_SECONDS) -> HelloResult | None:
    """Return the daemon's reply to `hello`, or None if no process listens.

    Raises:
        Unavailable: a process listens but does not answer, or access is denied.
    """
    try:
        client = Client.open(socket, agent=PERSON, timeout=timeout)
    except Unavailable as exc:
        if exc.data.get("reason") in {"absent", "refused"}:
            return None
        raise
    with closing(client):
        return client.call("hello", HelloParams(client="ormahctl"), HelloResult, timeout=timeout)


def _hello_if_answered(socket: Path) -> HelloResult | None:
    """Return the daemon's reply to `hello`; None if no daemon listens, or if it does not answer within 2 seconds."""
    try:
        return hello(socket, timeout=2.0)
    except Unavailable:
        return None  # listening, but not yet or no longer answering: ask again


def version(socket: Path) -> str | None:
    """Return the version of the daemon that answers at `socket`, or None if none answers."""
    answer = _hello_if_answered(socket)
    return None if answer is None else answer.version


def nobody_listens(socket: Path) -> bool:
    """Whether no process accepts connections at `socket`. False if that cannot be determined."""
    with sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(os.fspath(socket))
        except (FileNotFoundError, ConnectionRefusedError, NotADirectoryError):
            return True
        except OSError:
            return False
    return False


# ---------------------------------------------------------------- starting


@dataclass(frozen=True, slots=True)
class Started:
    """A daemon that runs. `hello`: its reply."""

    hello: HelloResult
    how: str
    """What started the daemon: systemd, launchd or detached; or running, if it ran already."""


def start(socket: Path, *, flag: str | None, seconds: float = START_SECONDS) -> Started:
    """Start the daemon and wait until it answers, at most `seconds`. `flag`: the value of `--socket`.

    Raises:
        Unavailable: it did not start; the message has its output.
    """
    running = hello(socket)
    if running is not None:
        return Started(running, "running")
    how, complaint = _launch(socket, flag, seconds)
    deadline = time.monotonic() + (seconds if complaint is None else 2.0)
    while time.monotonic() < deadline:
        answer = _hello_if_answered(socket)
        if answer is not None:
            return Started(answer, how)
        time.sleep(POLL_SECONDS)
    if complaint is not None:
        raise complaint
    raise Unavailable(f"the daemon was started ({how}) and does not answer at {socket}", hint="see: ormahctl logs")


def _launch(socket: Path, flag: str | None, seconds: float) -> tuple[str, OrmahError | None]:
    """Start the daemon as a service, or if it is not installed as one as a detached process. Return (what started
    it, as in `Started.how`; the error, or None). `flag`: the value of `--socket`. `seconds`: how long the start may
    take.

    The error is not raised here, because another process may have started the daemon meanwhile.
    """
    if managers.serves(socket):
        how, done, hint = managers.start()
        return how, _start_error(done, how, hint)
    command = offline.command("run", "--detach", *(["--socket", flag] if flag else []))
    try:
        done = subprocess.run(
            command, stdin=DEVNULL, stdout=DEVNULL, stderr=PIPE, errors="replace", timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired:
        late = f"the daemon did not begin to listen within {seconds:g} s"
        return "detached", Unavailable(late, hint="see: ormahctl logs, ormahctl doctor")
    return "detached", _start_error(done, "ormahd", "see: ormahctl logs, ormahctl doctor")


def _start_error(done: subprocess.CompletedProcess[str], tool: str, hint: str) -> OrmahError | None:
    """Return the error if the command `done`, which was to start the daemon, failed; else None. `tool`: the name of
    the program that ran. `hint`: used if the command printed no hint."""
    if done.returncode == 0:
        return None
    message, hinted = offline.parse_error(done.stderr)
    why = message or f"{tool} ended with status {done.returncode}"
    return Unavailable(f"the daemon did not start: {why}", hint=hinted or hint)


# ---------------------------------------------------------------- stopping


def stop(socket: Path, *, seconds: float = STOP_SECONDS) -> int | None:
    """Stop the daemon, and wait up to `seconds` until its socket is closed and its process has ended. Return its
    pid; None if no daemon ran.

    Raises:
        Unavailable: it does not stop, or its process cannot be determined.
    """
    if nobody_listens(socket):
        return None
    pid = _daemon_pid(socket)
    if managers.service_pid() == pid:
        managers.stop()
    else:
        with suppress(ProcessLookupError):  # it ended by itself meanwhile
            os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if nobody_listens(socket) and not _is_alive(pid):
            return pid
        time.sleep(POLL_SECONDS)
    raise Unavailable(
        f"the daemon (pid {pid}) did not stop within {seconds:.0f} s",
        hint=f"nothing is lost by ending it: kill -9 {pid}",
        data={"pid": pid},
    )


def _daemon_pid(socket: Path) -> int:
    """Return the daemon's process id, from its reply to `admin.health`. If that call fails, return the id of the
    process that listens at `socket`, if that is ormahd. Otherwise raise the error of the call."""
    try:
        with closing(Client.open(socket, agent=PERSON)) as client:
            return client.call("admin.health", NoParams(), HealthResult, timeout=HELLO_SECONDS).pid
    except OrmahError:  # it hangs, speaks another protocol or fails: it must be stopped all the same
        pid = _listener_pid(socket)
        if pid is None:
            raise
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            words = managers.run_tool("ps", "-o", "command=", "-p", str(pid)).stdout.encode().split()
        if not any(os.path.basename(word) == b"ormahd" for word in words[:4]):
            raise
        return pid


def _listener_pid(socket: Path) -> int | None:
    """Return the id of the process that listens at `socket`, from the kernel. None if the process is another user's,
    or unknown. Under socket activation it is the id of the service manager."""
    with sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM) as probe:
        probe.settimeout(HELLO_SECONDS)
        try:
            probe.connect(os.fspath(socket))
            return peer_pid(probe) if peer_uid(probe) == os.getuid() else None
        except OSError:
            return None


def _is_alive(pid: int) -> bool:
    """Whether the process `pid` runs. A process that ended and was not waited for (a zombie) does not count."""
    try:
        os.kill(pid, 0)
        # the state follows the program's name, which is in parentheses and may have blanks and parentheses itself
        state = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[:1]
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return state != ["Z"]
