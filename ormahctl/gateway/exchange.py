"""Convert HTTP requests to parameters of the daemon's methods, and their results and errors to HTTP responses."""

from __future__ import annotations

import codecs
from typing import Any, Final, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ormahctl.gateway.daemon import CallingAgent
from ormahctl.gateway.guard import error_response
from ormahctl.gateway.table import Route
from ormahd.api import ErrorBody, Params
from ormahd.rpc.wire import BadRequest, OrmahError, TooLarge, field_and_fault, json_fault

B = TypeVar("B")

STATUS: Final = {
    "bad_request": 400,
    "not_found": 404,
    "too_large": 413,
    "invalid_note": 422,
    "internal": 500,
    "incompatible": 502,
    **dict.fromkeys(("ambiguous", "conflict", "too_many_changes"), 409),
    **dict.fromkeys(("unavailable", "not_ready", "vault_busy"), 503),
}
"""{error code: HTTP status}."""
WRONG_KIND: Final = "unsupported_media_type"
BODY_BYTES: Final = 16_000_000
"""Largest body of a request in bytes: about what a frame to the daemon may hold."""
QUICK_SECONDS: Final = 60.0
"""Seconds that an ordinary call may take: a write waits 5 s for git."""
AGENT_CHARACTERS: Final = 100
AGENT: Final = "x-agent-id"
PROGRAM: Final = "http"
"""Name of a caller that gives no name."""
PERSON: Final = "person"


def as_json(value: Any) -> Response:
    """Return the HTTP response that has `value` as JSON."""
    return Response(msgspec.json.encode(value), media_type="application/json")


async def answer_error(_: Request, error: OrmahError) -> Response:
    """Return the HTTP response for `error`, an error of the daemon. Its status depends on the error's code
    (`STATUS`)."""
    error_body = ErrorBody(code=error.code, message=error.message, hint=error.hint, data=dict(error.data))
    return error_response(415 if error.data.get("reason") == WRONG_KIND else STATUS.get(error.code, 500), error_body)


def asker(request: Request, named: str | None = None) -> CallingAgent:
    """Return the caller of a request: the person at the page, or a program. `named`: the program's name in the
    request's body; otherwise the name is taken from the header or the query.

    Raises:
        BadRequest: the name is too long, or has control characters.
    """
    if request.scope["ormah_caller"] == PERSON:
        return CallingAgent(PERSON)
    name = named or request.headers.get(AGENT) or request.query_params.get("agent_id") or PROGRAM
    if len(name) > AGENT_CHARACTERS or not name.isprintable():
        raise BadRequest("agent_id: a short name in one line is needed, such as my-editor", data={"field": "agent_id"})
    return CallingAgent(name)


async def body(request: Request, kind: type[B]) -> B:
    """Return the JSON of a request's body as `kind`. An empty body counts as `{}`.

    Raises:
        BadRequest: the body is no JSON, or not of this kind. TooLarge: it has more than `BODY_BYTES`.
    """
    data = (await read(request, BODY_BYTES)).removeprefix(codecs.BOM_UTF8)
    if data and request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise BadRequest("the body has to be JSON", hint="Content-Type: application/json", data={"reason": WRONG_KIND})
    try:
        return msgspec.json.decode(data or b"{}", type=kind)
    except msgspec.ValidationError as exc:
        raise _invalid(exc) from exc
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as exc:
        why = json_fault(data, str(exc))
        raise BadRequest(f"the body is no valid JSON: {why}", hint="see /openapi.json", data={"field": ""}) from exc


async def read(request: Request, limit: int) -> bytes:
    """Return a request's body. Raises TooLarge as soon as it has more than `limit` bytes."""
    data = bytearray()
    async for piece in request.stream():
        data += piece
        if len(data) > limit:
            raise TooLarge(f"the body has more than {limit:,} bytes", hint="send less at once", data={"limit": limit})
    return bytes(data)


async def parameters(route: Route, request: Request) -> Params:
    """Return the parameters of the route's method, from the path, the query and the body. A parameter that is null,
    and cannot be, gets its default.

    Raises:
        BadRequest: a parameter is unknown, missing or of another type.
    """
    inside = {route.renamed.get(name, name): request.path_params[name] for name in route.in_path}
    if route.verb == "POST":
        given = await body(request, dict[str, Any])
        given = {**_query(request, dict(route.default), set()), **given}
        given = {name: value for name, value in given.items() if value is not None or name not in route.never_null}
    else:
        fields = {field.encode_name for field in msgspec.structs.fields(route.params)} - inside.keys()
        names = {name: name for name in fields} | dict(route.query)
        given = _query(request, names, route.lists)
    for name in inside.keys() & given.keys():
        raise BadRequest(f"{name}: it is in the path already", data={"field": name})
    given |= inside
    try:
        return msgspec.convert(given, route.params, strict=route.verb == "POST")
    except RecursionError as exc:
        raise BadRequest("the body is nested too deeply", hint="see /openapi.json", data={"field": ""}) from exc
    except msgspec.ValidationError as exc:
        raise _invalid(exc) from exc


def _query(request: Request, names: dict[str, str], lists: set[str]) -> dict[str, Any]:
    """Return {parameter of the daemon's method: value} from the URL's query.

    `names`: {name allowed in the query: parameter}. `lists`: parameters that may occur several times.
    """
    found: dict[str, Any] = {}
    for key, value in request.query_params.multi_items():
        if key == "agent_id":
            continue
        if key not in names:
            known = ", ".join(sorted(names)) or "none"
            raise BadRequest(
                f"{key[:60]}: there is no such parameter in the query", hint=f"it takes: {known}", data={"field": key}
            )
        if names[key] in lists:
            found.setdefault(names[key], []).append(value)
        else:
            found[names[key]] = value
    return found


def _invalid(exc: msgspec.ValidationError) -> BadRequest:
    """Convert msgspec's error to a BadRequest that names the field."""
    field, reason = field_and_fault(str(exc))
    field = "" if field.startswith("[") else field[:200]  # a place in what is no object of ours
    return BadRequest(f"{field or 'the body'}: {reason}", hint="see /openapi.json", data={"field": field})
