"""Signals as something the main thread waits for: nothing happens inside of a handler, where nothing is safe."""

from __future__ import annotations

import os
import select
import signal
import socket
from types import FrameType
from typing import Final

STOP: Final = frozenset({signal.SIGTERM, signal.SIGINT})
BROKEN: Final = 0
"""What `wait` gives when another thread called `broken`."""


class Signals:
    """Made in the main thread. The first SIGTERM or SIGINT is waited for; the second ends the process on the spot,
    which loses nothing that was acknowledged."""

    def __init__(self) -> None:
        self._out, self._in = socket.socketpair()
        self._in.setblocking(False)
        self._asked = 0
        signal.set_wakeup_fd(self._in.fileno(), warn_on_full_buffer=False)
        for number in (*STOP, signal.SIGHUP):
            signal.signal(number, self._heard)

    def _heard(self, number: int, _frame: FrameType | None) -> None:
        if number in STOP:
            self._asked += 1
            if self._asked > 1:
                os._exit(128 + number)

    def wait(self, seconds: float | None) -> set[int]:
        """The numbers of the signals that came (`BROKEN` among them), or nothing after `seconds`."""
        if not select.select([self._out], [], [], seconds)[0]:
            return set()
        return set(self._out.recv(4096))

    def broken(self) -> None:
        """Wake `wait` because something that must run has ended. Any thread."""
        self._in.send(bytes([BROKEN]))
