"""Who may use the HTTP routes: programs by a token in a private file, a browser by a link that works once.

A restart of the gateway makes all of them invalid, unless the page stays (`ormahctl web --stay`). The token and the secrets
are random, and compared in constant time.
"""

from __future__ import annotations

import contextlib
import hmac
import os
import secrets
import time
from pathlib import Path
from typing import Final

import msgspec

LINK_SECONDS: Final = 300.0
"""Seconds after which a link no longer works."""
MAX_LINKS: Final = 16
"""Largest number of valid links. A further one replaces the oldest."""
STAY_SECONDS: Final = 30 * 86_400
"""Seconds for which a browser keeps the session of a page that stays."""
SUFFIX: Final = ".web"
"""The path of the daemon's socket with this suffix is the file that holds the address and the token (`WebFile`)."""


class WebFile(msgspec.Struct):
    """Content of the file from which programs read the gateway's HTTP address and token. `stay`: the next gateway opens
    the same port with the same token."""

    url: str
    token: str
    pid: int
    stay: bool = False

    @property
    def port(self) -> int:
        """The port in `url`."""
        return int(self.url.rstrip("/").rpartition(":")[2])


class WebAccess:
    """Creates and checks the token, links and browser sessions that give access to one HTTP port. Used on the event
    loop only."""

    def __init__(self, port: int = 0, token: str | None = None) -> None:
        self.port = port
        """The port on loopback. It is set once it is known, before the first request."""
        self.token = token or secrets.token_urlsafe(32)
        self.stay = False
        self._links: dict[str, float] = {}

    @property
    def cookie(self) -> str:
        """Name of the session cookie. It contains the port, because browsers send a cookie to every port of a
        host."""
        return f"ormah-{self.port}"

    @property
    def url(self) -> str:
        """The address of the page."""
        return f"http://127.0.0.1:{self.port}/"

    def new_link(self) -> str:
        """Return a new URL with which a browser can open a session once. Its secret is in the fragment, which
        browsers do not send to the server."""
        secret = secrets.token_urlsafe(32)
        self._links[secret] = time.monotonic() + LINK_SECONDS
        while len(self._links) > MAX_LINKS:
            del self._links[next(iter(self._links))]
        return f"{self.url}#t={secret}"

    def redeem(self, secret: str) -> str | None:
        """Begin a browser session for `secret`, which is then used up. Return the value of the session's cookie;
        None if `secret` belongs to no valid link."""
        link_secret = next((known_secret for known_secret in self._links if _equal_secrets(known_secret, secret)), None)
        if link_secret is None or self._links.pop(link_secret) < time.monotonic():
            return None
        return self._signed(secrets.token_urlsafe(32))

    def has_session(self, value: str) -> bool:
        """Whether `value` is the cookie of a browser session."""
        return _equal_secrets(self._signed(value.partition(".")[0]), value)

    def _signed(self, session: str) -> str:
        """Return the cookie's value for a session: `session` with its signature by the token. It is valid as long as
        the token, so that no list of sessions is needed."""
        return f"{session}.{hmac.new(self.token.encode(), session.encode('utf-8', 'surrogateescape'), 'sha256').hexdigest()}"

    def is_token(self, value: str) -> bool:
        """Whether `value` is the token."""
        return _equal_secrets(self.token, value)

    def write(self, socket: Path) -> Path:
        """Write the `WebFile` beside the daemon's socket, readable by this user only, and return its path."""
        path = web_file(socket)
        data = msgspec.json.encode(WebFile(self.url, self.token, os.getpid(), self.stay))
        part = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        part.replace(path)
        return path


def web_file(socket: Path) -> Path:
    """Return the path of the `WebFile` for the daemon's socket `socket`."""
    return socket.with_name(socket.name + SUFFIX)


def read_staying_file(socket: Path) -> WebFile | None:
    """Return the `WebFile` of the daemon's socket if it says that the page stays open; else None, also if there is
    no readable file."""
    with contextlib.suppress(OSError, ValueError, msgspec.MsgspecError):
        file = msgspec.json.decode(web_file(socket).read_bytes(), type=WebFile)
        return file if file.stay and file.port else None
    return None


def _equal_secrets(secret: str, other: str) -> bool:
    """Whether both texts are equal. Takes the same time wherever they differ, so that the time tells nothing about a
    secret."""
    return secrets.compare_digest(secret.encode("utf-8", "surrogateescape"), other.encode("utf-8", "surrogateescape"))
