"""Accept connections from processes of the daemon's own user, and create the socket's file again if it was removed."""

from __future__ import annotations

import errno
import logging
import os
import selectors
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from ormahd.errors import OrmahError
from ormahd.rpc import sockets
from ormahd.rpc.peer import peer_uid
from ormahd.rpc.sockets import Listening

log = logging.getLogger("ormahd.door")

GUARD_SECONDS: Final = 10.0
"""Interval between two checks whether the socket's file still exists."""
DEAF_SECONDS: Final = 1.0
"""How long no connection is accepted after the process ran out of file descriptors or memory."""
_SCARCE: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class Door:
    """Accepts connections. Used by the server's loop only, except `path`, `intact`, `lost` and `hurry`: any thread.

    `welcome` is called with each accepted connection, `stranger` for each connection of another user.
    """

    def __init__(
        self,
        listening: Listening,
        selector: selectors.BaseSelector,
        welcome: Callable[[socket.socket], None],
        stranger: Callable[[], None],
    ) -> None:
        self._listening = listening
        self._selector = selector
        self._welcome = welcome
        self._stranger = stranger
        self.lost: str | None = None
        """The reason, as a sentence for people, why clients can no longer connect; None if they can."""
        self.deaf_until: float | None = None
        self._registered = False
        self._guard_at = 0.0

    @property
    def path(self) -> Path:
        return self._listening.path

    @property
    def intact(self) -> bool:
        return sockets.intact(self._listening)

    def open(self) -> None:
        self._guard_at = time.monotonic() + GUARD_SECONDS
        self._hear()

    def close(self) -> None:
        self._unhear()
        sockets.release(self._listening)

    def _hear(self) -> None:
        self._selector.register(self._listening.sock, selectors.EVENT_READ, self.accept)
        self._registered = True

    def _unhear(self) -> None:
        if self._registered:
            self._selector.unregister(self._listening.sock)
            self._registered = False

    def patience(self, now: float) -> float:
        """Return the seconds until `look` checks the socket's file again."""
        return max(0.0, self._guard_at - now)

    def hurry(self) -> None:
        """Make the next `look` check the socket's file. Any thread may call it."""
        self._guard_at = 0.0

    def accept(self) -> None:
        """Accept all waiting connections. Close those of other users."""
        for _ in range(sockets.BACKLOG):
            try:
                sock, _ = self._listening.sock.accept()
            except BlockingIOError:
                return
            except OSError as exc:
                if exc.errno in _SCARCE:
                    log.warning("no connection can be taken for a moment: %s", exc.strerror)
                    self._unhear()
                    self.deaf_until = time.monotonic() + DEAF_SECONDS
                return
            sock.setblocking(False)
            try:
                uid = peer_uid(sock)
            except OSError:  # the peer has disconnected already
                sock.close()
                continue
            if uid == os.geteuid():
                self._welcome(sock)
                continue
            log.warning("a process of user %d was refused", uid)
            self._stranger()
            sock.close()

    def look(self, now: float) -> None:
        """Do periodic work: accept connections again after DEAF_SECONDS, and check the socket's file."""
        if self.deaf_until is not None and now >= self.deaf_until:
            self.deaf_until = None
            self._hear()
        if now >= self._guard_at:
            self._guard_at = now + GUARD_SECONDS
            self._guard()

    def _guard(self) -> None:
        """Check that the socket's file is still the one that this process listens on. If not, try to create it again.

        A socket from systemd or launchd cannot be created again; `lost` then tells people what to do.
        """
        before, self.lost = self.lost, None
        if self.intact:
            return
        if not self._listening.ours:
            self.lost = f"the socket {self.path} was taken away; begin again: systemctl --user restart ormahd.socket"
        else:
            try:
                self._replace(sockets.listen(self.path))
            except OrmahError as exc:
                self.lost = f"the socket {self.path} was taken away and cannot be made again: {exc.message}"
        if self.lost and self.lost != before:
            log.error("%s", self.lost)

    def _replace(self, fresh: Listening) -> None:
        self.accept()  # clients that connected before the file was removed
        self._unhear()
        self._listening.sock.close()
        self._listening = fresh
        if self.deaf_until is None:
            self._hear()
        log.warning("the socket %s had been taken away; it is there again", self.path)
