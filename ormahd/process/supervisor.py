"""systemd and launchd, as far as a daemon talks with them: readiness, state, watchdog."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, MutableMapping
from typing import Final

import sdnotify

LABEL: Final = "io.ormah.ormahd"
"""Our job's name in launchd."""


def is_supervised(environ: Mapping[str, str], pid: int) -> bool:
    """True when systemd or launchd started this very process: then it stays in the foreground."""
    if "NOTIFY_SOCKET" in environ or environ.get("LISTEN_PID") == str(pid):
        return True
    return sys.platform == "darwin" and environ.get("XPC_SERVICE_NAME") == LABEL


class Supervisor:
    """Tells systemd how we are; nothing where there is no systemd. Takes the variables out of `environ`, so that no child
    speaks for us."""

    def __init__(self, environ: MutableMapping[str, str]) -> None:
        """`environ` is `os.environ` (which the notifier reads too)."""
        self._notifier = sdnotify.SystemdNotifier() if "NOTIFY_SOCKET" in environ else None
        environ.pop("NOTIFY_SOCKET", None)
        period, pid = environ.pop("WATCHDOG_USEC", ""), environ.pop("WATCHDOG_PID", "")
        asked = period.isdecimal() and int(period) > 0 and pid in {"", str(os.getpid())}
        self.watchdog_seconds = int(period) / 1e6 / 3 if asked else None
        """How often `watchdog` is to be called: three times in the period that systemd grants. None: it does not ask."""

    def status(self, sentence: str) -> None:
        self._tell(f"STATUS={sentence}")

    def ready(self, sentence: str) -> None:
        self._tell(f"READY=1\nSTATUS={sentence}")

    def stopping(self) -> None:
        self._tell("STOPPING=1\nSTATUS=stopping")

    def watchdog(self) -> None:
        self._tell("WATCHDOG=1")

    def _tell(self, message: str) -> None:
        if self._notifier is not None:
            self._notifier.notify(message.encode("ascii", "replace").decode())  # it knows Latin-1 only
