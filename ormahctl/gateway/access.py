"""Who may use the HTTP routes: programs by a token in a private file, a browser by a link that works once.

A restart of the gateway makes all of them invalid. The token and the secrets are random, and compared in constant time.
"""

from __future__ import annotations

import os
import secrets
import time
from pathlib import Path
from typing import Final

import msgspec

LINK_SECONDS: Final = 300.0
"""Seconds after which a link no longer works."""
MOST_LINKS: Final = 16
"""Largest number of valid links. A further one replaces the oldest."""
MOST_SESSIONS: Final = 64
SUFFIX: Final = ".web"
"""The path of the daemon's socket with this suffix is the file that holds the address and the token (`WebFile`)."""


class WebFile(msgspec.Struct):
    """Content of the file from which programs read the gateway's HTTP address and token."""

    url: str
    token: str
    pid: int


class WebAccess:
    """Creates and checks the token, links and browser sessions that give access to one HTTP port. Used on the event
    loop only."""

    def __init__(self, port: int = 0) -> None:
        self.port = port
        """The port on loopback. It is set once it is known, before the first request."""
        self.token = secrets.token_urlsafe(32)
        self._links: dict[str, float] = {}
        self._sessions: dict[str, None] = {}

    @property
    def cookie(self) -> str:
        """Name of the session cookie. It contains the port, because browsers send a cookie to every port of a
        host."""
        return f"ormah-{self.port}"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def new_link(self) -> str:
        """Return a new URL with which a browser can open a session once. Its secret is in the fragment, which
        browsers do not send to the server."""
        secret = secrets.token_urlsafe(32)
        self._links[secret] = time.monotonic() + LINK_SECONDS
        while len(self._links) > MOST_LINKS:
            del self._links[next(iter(self._links))]
        return f"{self.url}#t={secret}"

    def redeem(self, secret: str) -> str | None:
        """Begin a browser session for `secret`, the secret of a link, which can then not be used again. Return the
        value of the session cookie; None if `secret` is not valid."""
        found = next((one for one in self._links if _same(one, secret)), None)
        if found is None or self._links.pop(found) < time.monotonic():
            return None
        session = secrets.token_urlsafe(32)
        self._sessions[session] = None
        while len(self._sessions) > MOST_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        return session

    def has_session(self, value: str) -> bool:
        return any([_same(one, value) for one in self._sessions])  # noqa: C419 - every one is compared

    def is_token(self, value: str) -> bool:
        return _same(self.token, value)

    def write(self, socket: Path) -> Path:
        """Write the `WebFile` beside the daemon's socket, readable by this user only, and return its path."""
        path = web_file(socket)
        data = msgspec.json.encode(WebFile(self.url, self.token, os.getpid()))
        part = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        part.replace(path)
        return path


def web_file(socket: Path) -> Path:
    return socket.with_name(socket.name + SUFFIX)


def _same(one: str, other: str) -> bool:
    return secrets.compare_digest(one.encode(), other.encode("utf-8", "surrogateescape"))
