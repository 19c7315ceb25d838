"""`/openapi.json`: the description of the routes, made from their table and from the Structs of the daemon's methods."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from ormahctl.gateway.ingest import Conversation, Ingested
from ormahctl.gateway.table import ROUTES, Route
from ormahd import __version__
from ormahd.api import ErrorBody

REFERENCE: Final = "#/components/schemas/{name}"
ERRORS: Final = {
    400: "The request is invalid.", 401: "The token is missing or wrong.", 403: "Another site caused the request.",
    404: "Nothing has this id or name.", 409: "It conflicts with what is there, or names several things.",
    413: "The body is too large.", 415: "The body is of another media type.", 422: "A file cannot be read as a note.",
    500: "A bug in Ormah.", 502: "Daemon and gateway are of different versions.", 503: "The daemon is not available.",
}  # fmt: skip


class ErrorAnswer(msgspec.Struct):
    """The answer to every request that failed."""

    error: ErrorBody


def description(url: str) -> dict[str, Any]:
    """Return the OpenAPI document (3.1) for the routes at `url`."""
    # schemas of all types
    shapes: set[type] = {ErrorAnswer, Conversation, Ingested}
    shapes |= {shape for route in ROUTES for shape in (route.params, route.result)}
    ordered = sorted(shapes, key=lambda shape: shape.__name__)
    _, schemas = msgspec.json.schema_components(ordered, ref_template=REFERENCE)

    # the routes
    paths: dict[str, dict[str, Any]] = {}
    for route in ROUTES:
        paths.setdefault(route.path, {})[route.verb.lower()] = _operation(route, schemas)
    paths["/ingest/conversation"] = {"post": _ingest("Archive a conversation.", _content(_reference(Conversation)))}
    file = {"type": "string", "contentMediaType": "application/octet-stream"}
    form = {"type": "object", "required": ["file"], "properties": {"file": file}}
    content = {"required": True, "content": {"multipart/form-data": {"schema": form}}}
    summary = "Archive a transcript or an export, or make memories of a document."
    paths["/ingest/file"] = {"post": _ingest(summary, content)}

    # parameters are described with their route, not as a schema
    ours = {route.params.__name__ for route in ROUTES}
    used = {name: schema for name, schema in schemas.items() if name not in ours}
    token = {"type": "http", "scheme": "bearer", "description": "From the file that `ormahctl web` names."}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Ormah", "version": __version__, "description": "The memory of AI agents, on this machine."},
        "servers": [{"url": url.rstrip("/")}],
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": used,
            "securitySchemes": {"token": token},
        },
    }


def _operation(route: Route, schemas: dict[str, Any]) -> dict[str, Any]:
    """Return the description of one route. `schemas`: `{name of a Struct: its JSON schema}`."""
    # parameters that are not in the path
    inside = {route.renamed.get(name, name) for name in route.in_path}
    schema = schemas[route.params.__name__]
    properties: dict[str, Any] = {
        name: value for name, value in schema.get("properties", {}).items() if name not in inside
    }
    required = [name for name in schema.get("required", []) if name not in inside]
    in_path = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in route.in_path
    ]

    # the rest is in the body or in the query
    found: dict[str, Any] = {  # the operation's id: `get_agent_recall_node_id` for GET /agent/recall/{node_id}
        "operationId": f"{route.verb.lower()}_{route.path.strip('/').translate(str.maketrans('/-{}', '__  ')).replace(' ', '')}",
        "summary": route.summary,
        "tags": [route.path.split("/")[1]],
        "responses": {"200": _success_response(_reference(route.result)), **_error_responses()},
    }
    if route.verb == "POST":
        shape: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
        if required:
            shape["required"] = required
        found["requestBody"] = {**_content(shape), "required": bool(required)}
        in_query = [(name, {"type": "string"}) for name in route.default]
    else:
        name_in_query = {meaning: name for name, meaning in route.query.items()}
        in_query = [(name_in_query.get(name, name), value) for name, value in properties.items()]
    queried = {name_in_query.get(name, name) for name in required} if route.verb != "POST" else set()
    found["parameters"] = in_path + [
        {"name": name, "in": "query", "required": name in queried, "schema": _plain(value)} for name, value in in_query
    ]
    return found


def _ingest(summary: str, request_body: dict[str, Any]) -> dict[str, Any]:
    """Return the description of a route that ingests something. `request_body`: its body."""
    return {
        "summary": summary,
        "tags": ["ingest"],
        "parameters": [{"name": "default_space", "in": "query", "required": False, "schema": {"type": "string"}}],
        "requestBody": request_body,
        "responses": {"200": _success_response(_reference(Ingested)), **_error_responses()},
    }


def _plain(schema: dict[str, Any]) -> dict[str, Any]:
    """Return `schema` without null as a type or default: a value in a URL's query cannot be null."""
    kinds = [kind for kind in schema.get("anyOf", []) if kind != {"type": "null"}]
    plain = {key: value for key, value in schema.items() if key != "anyOf" and (key != "default" or value is not None)}
    return plain if not kinds else {**plain, **(kinds[0] if len(kinds) == 1 else {"anyOf": kinds})}


def _reference(shape: type) -> dict[str, str]:
    """Return the reference to the schema of a Struct."""
    return {"$ref": REFERENCE.format(name=shape.__name__)}


def _content(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the description of a body that is JSON and has the schema `schema`."""
    return {"required": True, "content": {"application/json": {"schema": schema}}}


def _success_response(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the description of a response that has a result with the schema `schema`."""
    return {"description": "The result.", "content": {"application/json": {"schema": schema}}}


def _error_responses() -> dict[str, Any]:
    """Return `{HTTP status: description of the response}` for all errors."""
    answer = {"application/json": {"schema": _reference(ErrorAnswer)}}
    return {str(status): {"description": text, "content": answer} for status, text in ERRORS.items()}
