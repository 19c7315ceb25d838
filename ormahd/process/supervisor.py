"""Notify systemd of the daemon's state, detect whether a supervisor started it, and receive signals.

The main thread waits for signals with `Signals.wait`. The signal handlers do nearly nothing, because little is safe in
them. systemd is notified of readiness and status, and regularly for its watchdog.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
from collections.abc import Mapping, MutableMapping
from types import FrameType
from typing import Final

import sdnotify

STOP: Final = frozenset({signal.SIGTERM, signal.SIGINT})
BROKEN: Final = 0
"""The number that `Signals.wait` returns, in place of a signal's, after a thread called `broken`."""


class Signals:
    """Handles SIGTERM, SIGINT and SIGHUP: `wait` returns the signals that arrived. Create it in the main thread.

    A second SIGTERM or SIGINT ends the process at once; writes that were acknowledged to a client survive that.
    """

    def __init__(self) -> None:
        self._out, self._in = socket.socketpair()
        self._in.setblocking(False)
        self._asked = 0
        signal.set_wakeup_fd(self._in.fileno(), warn_on_full_buffer=False)
        for number in (*STOP, signal.SIGHUP):
            signal.signal(number, self._heard)

    def _heard(self, number: int, _frame: FrameType | None) -> None:
        """Count a signal that should stop the process, and end it at the second one. The handler of all signals."""
        if number in STOP:
            self._asked += 1
            if self._asked > 1:
                os._exit(128 + number)

    def wait(self, seconds: float | None) -> set[int]:
        """Wait for signals, and return their numbers (or `BROKEN`). Return an empty set after `seconds` without one."""
        if not select.select([self._out], [], [], seconds)[0]:
            return set()
        return set(self._out.recv(4096))

    def broken(self) -> None:
        """Make `wait` return `BROKEN`, because a thread that the daemon needs has ended. Any thread may call it."""
        self._in.send(bytes([BROKEN]))


LABEL: Final = "io.ormah.ormahd"
"""The name of Ormah's job in launchd."""


def is_supervised(environ: Mapping[str, str], pid: int) -> bool:
    """Return whether systemd or launchd started the process `pid`. It then stays in the foreground."""
    if "NOTIFY_SOCKET" in environ or environ.get("LISTEN_PID") == str(pid):
        return True
    return sys.platform == "darwin" and environ.get("XPC_SERVICE_NAME") == LABEL


class Supervisor:
    """Notifies systemd of the daemon's state; does nothing if systemd did not start it.

    Removes systemd's variables from `environ`, so that no child process sends notifications as the daemon.
    """

    def __init__(self, environ: MutableMapping[str, str]) -> None:
        """`environ`: must be `os.environ`, because the library that sends the notifications reads `os.environ`."""
        self._notifier = sdnotify.SystemdNotifier() if "NOTIFY_SOCKET" in environ else None
        environ.pop("NOTIFY_SOCKET", None)
        period, pid = environ.pop("WATCHDOG_USEC", ""), environ.pop("WATCHDOG_PID", "")
        asked = period.isdecimal() and int(period) > 0 and pid in {"", str(os.getpid())}
        self.watchdog_seconds = int(period) / 1e6 / 3 if asked else None
        """Seconds between calls of `watchdog`: a third of the period that systemd sets. None if it sets none."""

    def status(self, sentence: str) -> None:
        """Set the sentence that `systemctl status` shows."""
        self._tell(f"STATUS={sentence}")

    def ready(self, sentence: str) -> None:
        """Notify systemd that the daemon is ready. `sentence`: shown by `systemctl status`."""
        self._tell(f"READY=1\nSTATUS={sentence}")

    def stopping(self) -> None:
        """Notify systemd that the daemon is stopping."""
        self._tell("STOPPING=1\nSTATUS=stopping")

    def watchdog(self) -> None:
        """Notify systemd that the daemon is alive."""
        self._tell("WATCHDOG=1")

    def _tell(self, message: str) -> None:
        """Send a message in the format of sd_notify(3)."""
        if self._notifier is not None:
            self._notifier.notify(message.encode("ascii", "replace").decode())  # sdnotify encodes as Latin-1
