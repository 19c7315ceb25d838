"""Checks before every HTTP route: any web page in a browser and any local program can send requests to loopback.

- The Host must be this port on loopback, on every path and before routing, so that a foreign name that resolves to
  127.0.0.1 (DNS rebinding) reaches nothing.
- Paths with `..`, doubled or encoded slashes are refused, not resolved.
- Requests that another site or port caused, as the browser's headers say, are refused even if they carry the cookie.
- Every route that is not in `PUBLIC` needs the cookie or the token.
- Every response has headers that forbid the browser to load or run anything from elsewhere. There are no CORS headers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from http.cookies import CookieError, SimpleCookie
from typing import Final

import msgspec
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import HTMLResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ormahctl.gateway.access import WebAccess
from ormahd.api import ErrorBody

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; worker-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types ormah"
)
HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
PUBLIC: Final = frozenset({("GET", "/"), ("HEAD", "/"), ("POST", "/session")})
"""(method, path) of the routes that need neither cookie nor token, besides `STATIC`. Without a cookie none of them shows
anything of the vault."""
STATIC: Final = "/static/"
"""Where the paths of the files begin that the page loads."""
SAFE: Final = frozenset({"GET", "HEAD"})
OWN_SITES: Final = frozenset({"same-origin", "none"})
ODD_PATH: Final = re.compile(r"//|\\|%2f|%5c|%2e|%00|[\x00-\x20\x7f]|/\.{1,2}(/|$)", re.IGNORECASE)
LONGEST_PATH: Final = 2_048
CLOSED: Final = 4401
"""The close code of a refused WebSocket."""


class Refused(Exception):
    """Raised for a request that is refused. `status`: the HTTP status. `body`: the error for the response."""

    def __init__(self, status: int, code: str, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.body = ErrorBody(code=code, message=message, hint=hint)


class LoopbackGuard:
    """ASGI middleware that refuses requests by the rules in this module's docstring.

    It sets `scope["ormah_caller"]`: `person` for a browser's session, `program` for the token, "" for a public route.
    """

    def __init__(self, app: ASGIApp, access: WebAccess, closed: str) -> None:
        self._app = app
        self._access = access
        self._closed = closed
        """The page for a browser without a session."""

    def _hosts(self) -> set[str]:
        """Return the values of the Host header that name this port on loopback."""
        return {f"{host}:{self._access.port}" for host in ("127.0.0.1", "localhost", "[::1]")}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request to the app if it is admitted, else answer with an error. Headers for the browser are
        added to every response."""
        if scope["type"] not in {"http", "websocket"}:
            return
        try:
            scope["ormah_caller"] = self._admit(scope)
        except Refused as refused:
            await self._refuse(refused, scope, receive, send)
            return
        await self._app(scope, receive, _with_headers(send))

    def _admit(self, scope: Scope) -> str:
        """Check a request by the rules of this module. Return its caller: `person`, `program`, or "" for a public
        route.

        Raises:
            Refused: the request breaks a rule.
        """
        # host and path
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts():
            raise Refused(421, "bad_request", "this is not the host that you asked for", f"use {self._access.url}")
        raw = (scope.get("raw_path") or scope["path"].encode()).split(b"?")[0].decode("latin-1")
        if not raw.startswith("/") or len(raw) > LONGEST_PATH or ODD_PATH.search(raw):
            raise Refused(400, "bad_request", "the path is not in its plain form")

        # the page that caused the request; typing the address opens "/" from anywhere
        socket = scope["type"] == "websocket"
        method = "GET" if socket else scope["method"]
        opens_page = raw == "/" and method in SAFE and headers.get("sec-fetch-mode") == "navigate"
        token = headers.get("authorization")
        if not opens_page:
            self._same_site(headers, unsafe=socket or (method not in SAFE and token is None))

        # who sent it
        person = any(
            self._access.has_session(cookie) for cookie in _cookies(headers.getlist("cookie"), self._access.cookie)
        )
        if not socket and ((method, raw) in PUBLIC or (method in SAFE and raw.startswith(STATIC))):
            ours = headers.get("sec-fetch-site") in {None, *OWN_SITES}
            return "person" if raw == "/" and person and ours else ""
        if token is not None:
            kind, _, value = token.partition(" ")
            if kind.lower() != "bearer" or not self._access.is_token(value.strip()):
                raise Refused(
                    401, "unauthorized", "the token is not valid", "it is in the file that `ormahctl web` names"
                )
            return "program"
        if not person:
            raise Refused(401, "unauthorized", "a token is needed", "run: ormahctl web")
        return "person"

    def _same_site(self, headers: Headers, *, unsafe: bool) -> None:
        """Raise Refused if the headers say that a page of another site or port caused the request.

        `unsafe`: the request may change something. It is then also refused if neither `Sec-Fetch-Site` nor `Origin`
        is there, unless it has an Authorization header.
        """
        site, origin = headers.get("sec-fetch-site"), headers.get("origin")
        ours = {None, *(f"http://{host}" for host in self._hosts())}
        if origin not in ours or (site is not None and site not in OWN_SITES):
            raise Refused(403, "forbidden", "requests of other sites are refused")
        program = headers.get("authorization") is not None
        if unsafe and not program and site is None and origin is None:
            raise Refused(403, "forbidden", "it does not say which page it comes from", "programs send the token")

    async def _refuse(self, refused: Refused, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a refused request: close a WebSocket, show a browser without a session the page about links, and
        send others the error."""
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": CLOSED, "reason": str(refused)})
            return
        shows_page = refused.status == 401 and "text/html" in Headers(scope=scope).get("accept", "")
        answer = HTMLResponse(self._closed, 401) if shows_page else error_response(refused.status, refused.body)
        await answer(scope, receive, _with_headers(send))


def _cookies(lines: Iterable[str], name: str) -> list[str]:
    """Return all values of the cookie `name` in the Cookie headers `lines`. Headers that cannot be parsed are
    skipped."""
    found = []
    for line in lines:
        try:
            cookie: SimpleCookie = SimpleCookie(line)
        except CookieError:
            continue
        if name in cookie:
            found.append(cookie[name].value)
    return found


def error_response(status: int, error: ErrorBody, headers: Mapping[str, str] | None = None) -> Response:
    """Return the response for an error, the same in every route: `{"error": {code, message, hint, data}}`."""
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else headers
    return Response(msgspec.json.encode({"error": error}), status, headers, "application/json")


def _with_headers(send: Send) -> Send:
    """Return a `send` that adds `HEADERS` to the start of a response, and then calls `send`."""

    async def wrapped(message: Message) -> None:
        """Send `message`, with `HEADERS` if it is the start of a response."""
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return wrapped
