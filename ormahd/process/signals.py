"""Deliver signals to the main thread as events to wait for. The handlers do nearly nothing, because little is safe
in them."""

from __future__ import annotations

import os
import select
import signal
import socket
from types import FrameType
from typing import Final

STOP: Final = frozenset({signal.SIGTERM, signal.SIGINT})
BROKEN: Final = 0
"""The number that `wait` returns after another thread called `broken`."""


class Signals:
    """Create it in the main thread. The first SIGTERM or SIGINT is delivered by `wait`; a second one ends the
    process at once.

    Acknowledged writes survive that.
    """

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
        """Return the numbers of the signals that came (`BROKEN` among them); an empty set after `seconds`."""
        if not select.select([self._out], [], [], seconds)[0]:
            return set()
        return set(self._out.recv(4096))

    def broken(self) -> None:
        """Wake `wait` because a necessary thread has ended. Callable from any thread."""
        self._in.send(bytes([BROKEN]))
