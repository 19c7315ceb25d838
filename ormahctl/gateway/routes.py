"""The HTTP side of the gateway: routes for programs and the page, on loopback, each answered by a method of the daemon."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, WebSocketRoute
from starlette.routing import Route as Endpoint

from ormahctl.gateway import ingest, live, openapi
from ormahctl.gateway.access import STAY_SECONDS, WebAccess, read_staying_file
from ormahctl.gateway.exchange import QUICK_SECONDS, answer_error, as_json, asker, body, parameters
from ormahctl.gateway.guard import LoopbackGuard, error_response
from ormahctl.gateway.page import views
from ormahctl.gateway.page.forms import FORMS
from ormahctl.gateway.table import ROUTES, Route
from ormahd.api import ErrorBody
from ormahd.rpc.wire import BadRequest, OrmahError

if TYPE_CHECKING:
    from ormahctl.gateway.daemon import DaemonLink
    from ormahctl.gateway.host import Gateway

log = logging.getLogger("ormahctl.gateway")

Act = Callable[[Request], Awaitable[Response]]

_ACCESS: WeakKeyDictionary[Gateway, WebAccess] = WeakKeyDictionary()
"""{gateway that serves HTTP: access to its port}. A process has one gateway; tests may have more."""


class OpenedSession(msgspec.Struct, forbid_unknown_fields=True):
    """The body of `POST /session`, with which the page opens a browser session. `token`: the secret of a link."""

    token: str


async def open_routes(gateway: Gateway, params: dict[str, object]) -> dict[str, object]:
    """Serve HTTP on loopback, if not done yet. Return the address, a link for a browser, the port and the token's file.

    `params`: `port` to listen on (absent or 0: a free one). `stay`: whether the gateway goes on without use, and the next
    one opens the same port with the same token; absent: as before.

    Raises:
        BadRequest: the port cannot be used.
    """
    # serve HTTP, at the port and with the token of the page that stays, if there is one
    wished = params.get("port") or 0
    if not isinstance(wished, int) or not 0 <= wished < 65_536:
        raise BadRequest(f"{wished!r} is no port", hint="a number from 1024 to 65535")
    access = _ACCESS.get(gateway)
    if access is None:
        before = read_staying_file(gateway.daemon.socket)
        access = WebAccess(token=before.token if before else None)
        access.stay, wished = (True, wished or before.port) if before else (False, wished)
        try:
            access.port = await gateway.serve(app(gateway.daemon, access), port=wished)
        except (OSError, PermissionError) as exc:
            raise BadRequest(
                f"port {wished} cannot be used: {exc.strerror}", hint="choose another one, or none"
            ) from exc
        _ACCESS[gateway] = access
    elif wished not in (0, access.port):
        first = "ormahctl web --no-stay, then ormahctl restart" if access.stay else "ormahctl restart"
        raise BadRequest(
            f"the page is open at {access.url} already",
            hint=f"for a link to it there: ormahctl web; to have it at port {wished}, first: {first}",
        )

    # tell programs where it is
    access.stay = gateway.stays = bool(params.get("stay", access.stay))
    try:
        file = access.write(gateway.daemon.socket)
    except OSError as exc:
        raise BadRequest(f"the file with the token cannot be written: {exc.strerror}") from exc
    return {"url": access.url, "link": access.new_link(), "port": access.port, "token_file": str(file)}


def app(daemon: DaemonLink, access: WebAccess) -> LoopbackGuard:
    """Return the ASGI app of one port: all routes, behind the guard."""
    endpoints: list[BaseRoute] = [Endpoint(route.path, _route(daemon, route), methods=[route.verb]) for route in ROUTES]

    async def description(_: Request) -> Response:
        """Return the description of the routes."""
        return as_json(openapi.description(access.url))

    for path, act in ingest.routes(daemon).items():
        endpoints.append(Endpoint(path, act, methods=["POST"]))
    endpoints += [
        *views.routes(daemon, FORMS),
        Endpoint("/session", _session_endpoint(access), methods=["POST"]),
        Endpoint("/openapi.json", description, methods=["GET"]),
        WebSocketRoute("/ui/ws", live.stream(daemon)),
    ]
    handlers: Any = {OrmahError: answer_error, ClientDisconnect: _gone, HTTPException: _not_found, Exception: _failed}
    return LoopbackGuard(Starlette(routes=endpoints, exception_handlers=handlers), access, views.render("closed.html"))


def _route(daemon: DaemonLink, route: Route) -> Act:
    """Return the endpoint of a route: it calls the daemon's method, and returns the result as JSON."""

    async def act(request: Request) -> Response:
        """Call the daemon's method with the request's parameters."""
        params = await parameters(route, request)
        timeout = None if route.slow else QUICK_SECONDS
        result = await daemon.call(route.method, params, route.result, asker=asker(request), timeout=timeout)
        return as_json(result)

    return act


def _session_endpoint(access: WebAccess) -> Act:
    """Return the endpoint of `POST /session`: it exchanges the secret of a link for the cookie of a browser session."""

    async def act(request: Request) -> Response:
        """Set the cookie of a new browser session. Raises BadRequest if the link is not valid."""
        opened = await body(request, OpenedSession)
        session = access.redeem(opened.token)
        if session is None:
            raise BadRequest("the link was used already or is too old", hint="run: ormahctl web")
        response = Response(status_code=204)
        age = STAY_SECONDS if access.stay else None
        response.set_cookie(access.cookie, session, age, path="/", httponly=True, samesite="strict")
        return response

    return act


async def _gone(_request: Request, _exc: ClientDisconnect) -> Response:
    """Return a response to a client that has closed its connection, for Starlette's sake."""
    return Response(status_code=400)  # nobody reads it


async def _not_found(request: Request, exc: HTTPException) -> Response:
    """Return the response for an unknown path or method: a page for a browser, JSON for a program."""
    found = f"{request.method} {request.url.path[:200]}"
    error = ErrorBody(code="not_found", message=f"there is no route {found}", hint="see /openapi.json")
    if "text/html" in request.headers.get("accept", ""):
        return views.failure(request, error, exc.status_code)
    return error_response(exc.status_code, error, exc.headers)


async def _failed(request: Request, exc: Exception) -> Response:
    """Log an unexpected exception, and return the response for it."""
    log.error("%s failed", request.scope.get("path"), exc_info=exc)
    return error_response(
        500, ErrorBody(code="internal", message="the gateway failed at this request; its log says more")
    )
