"""Start the daemon in the background where there is no supervisor.

The command returns once the daemon answers, or reports why it does not.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from ormahd.errors import OrmahError

if TYPE_CHECKING:
    from ormahd.config import Config

HELLO_SECONDS: Final = 10.0
"""Maximum number of seconds from when the daemon listens to its first answer."""


def complain(message: str, hint: str | None, status: int) -> int:
    """Print an error to stderr in the form that `ormahctl up` parses. Return `status`."""
    click.echo(f"error: {message}", err=True)
    if hint:
        click.echo(f"hint: {hint}", err=True)
    return status


def detached(config: Config) -> int:
    """Start the daemon in the background, and wait until it answers. Return the exit status for the command."""
    read, write = os.pipe()
    child = os.fork()  # no thread has been started, and nothing imported so far starts one
    if child == 0:
        os.close(read)
        _daemon(config, write)
    os.close(write)
    os.waitpid(child, 0)
    return _follow(read)


def _daemon(config: Config, pipe: int) -> None:
    """Run the daemon in the forked child; does not return. The child tells the waiting command through `pipe` that it
    started or failed, because its stderr is /dev/null."""
    import daemon as python_daemon

    tell = _Pipe(pipe)
    umask = os.umask(0)
    with python_daemon.DaemonContext(files_preserve=[pipe], umask=umask, detach_process=True):
        from ormahd import daemon

        try:
            status = daemon.run(config, foreground=False, on_listening=lambda path: tell.once(socket=str(path)))
        except OrmahError as exc:
            status = exc.exit_status
            tell.once(error=exc.message, hint=exc.hint, exit=status)
        except Exception as exc:  # noqa: BLE001 - the top of the process: the command prints it
            status = 70
            tell.once(error=f"the daemon could not start: {type(exc).__name__}: {exc}", hint=None, exit=status)
        daemon.end(status)


class _Pipe:
    """Sends one JSON object to the waiting command: `{socket}` once the daemon listens, or `{error, hint, exit}` if it
    cannot start."""

    def __init__(self, fd: int) -> None:
        self._fd: int | None = fd

    def once(self, **message: Any) -> None:
        """Send the message and close the pipe. Later calls do nothing."""
        if self._fd is not None:
            os.write(self._fd, json.dumps(message).encode() + b"\n")
            os.close(self._fd)
            self._fd = None


def _follow(pipe: int) -> int:
    """Wait for the message on `pipe`, then for the daemon's first answer. Runs in the command's process. Return the
    exit status."""
    with open(pipe, encoding="utf-8") as stream:
        line = stream.readline()
    if not line:
        return complain("the daemon ended while it started, without a word", "try: ormahd run (in the foreground)", 70)
    message: dict[str, Any] = json.loads(line)
    if "error" in message:
        return complain(message["error"], message["hint"], message["exit"])
    from ormahd.rpc.wire import connect

    end = time.monotonic() + HELLO_SECONDS
    with connect(Path(message["socket"]), HELLO_SECONDS) as connection:
        hello = connection.call("hello", timeout=max(0.1, end - time.monotonic()))
    click.echo(f"ormahd {hello.version} answers at {message['socket']}")
    return 0
