"""Check the arguments of MCP tools by their JSON schemas (`mcp.toml`).

What models send is read leniently where its meaning is certain: null for an argument that is left out, a number or a
list written as a string, one string where a list is wanted. Arguments that the client adds for itself are passed over.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from ormahd.rpc.wire import BadRequest

Schema = Mapping[str, Any]
MISSPELT: Final = 2
"""Number of letters by which an unknown argument may differ from one of the tool to count as it, misspelt, and not as the
client's own."""
_TYPES: dict[str, Any] = {"string": str, "integer": int, "number": (int, float), "boolean": bool}
_TYPES |= {"array": list, "object": dict}
_BOOLEANS: Final = {"true": True, "false": False}


def read(schema: Schema, given: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the arguments in `given` that `schema` knows, each checked and converted. Nulls count as left out.

    Raises:
        BadRequest: an argument is missing, misspelt or invalid; the message names it and what is allowed.
    """
    known = schema["properties"]
    found = {name: value for name, value in (given or {}).items() if value is not None}
    for name in found.keys() - known.keys():
        if any(_is_misspelt(name.casefold(), argument) for argument in known):
            raise BadRequest(f"there is no argument '{name[:60]}'", hint="there are: " + ", ".join(known))
    missing = [name for name in schema.get("required", ()) if name not in found]
    if missing:
        raise BadRequest(f"the argument '{missing[0]}' is missing", hint=known[missing[0]]["description"])
    return {name: _checked_value(name, known[name], value) for name, value in found.items() if name in known}


def _is_misspelt(name: str, wanted: str) -> bool:
    """Whether `name` is `wanted` misspelt: at most `MISSPELT` letters were added, left out or exchanged, and not all
    of `wanted`."""
    if abs(len(name) - len(wanted)) > MISSPELT:
        return False
    # Levenshtein distance: `row[i]` is that of the letters of `name` read so far from the first i of `wanted`
    row = list(range(len(wanted) + 1))
    for number, letter in enumerate(name, 1):
        previous_row, row = row, [number]
        for at, other in enumerate(wanted):
            row.append(min(row[at] + 1, previous_row[at + 1] + 1, previous_row[at] + (letter != other)))
    return row[-1] <= min(MISSPELT, len(wanted) - 1)


def _checked_value(name: str, schema: Schema, given: Any, about: str = "") -> Any:
    """Return the value of the argument `name`, converted to the type that `schema` wants. `given`: what the agent
    sent. `about`: a hint for errors, if `schema` has no description.

    Raises:
        BadRequest: the value has another type, or is not allowed.
    """
    kind, about = schema["type"], schema.get("description", about)
    value: Any = _converted(kind, given)
    if not isinstance(value, _TYPES[kind]) or (isinstance(value, bool) and kind != "boolean"):
        raise BadRequest(f"'{name}' is no {kind}: {_quoted(value)}", hint=about)
    if kind == "array":
        return [_checked_item(f"{name}[{at}]", schema["items"], item, about) for at, item in enumerate(value)]
    if kind == "object":
        return read(schema, value)
    if value not in schema.get("enum", (value,)):
        raise BadRequest(f"'{name}' is {_quoted(value)}", hint="it may be: " + ", ".join(schema["enum"]))
    if "minimum" in schema and not schema["minimum"] <= value <= schema["maximum"]:
        bounds = f"it may be from {schema['minimum']} to {schema['maximum']}"
        raise BadRequest(f"'{name}' is {_quoted(value)}", hint=bounds)
    return value


def _checked_item(name: str, schema: Schema, item: Any, about: str) -> Any:
    """Return one element of a list. An object is converted as far as possible and not refused for its fields: the
    daemon checks each verdict, and refuses one without the others."""
    if schema["type"] != "object":
        return _checked_value(name, schema, item, about)
    # the daemon checks the items of verdicts one by one, and refuses one without the others
    known: Schema = schema["properties"]
    if not isinstance(item, dict):
        raise BadRequest(f"'{name}' is no object: {_quoted(item)}", hint="its fields: " + ", ".join(known))
    fields = {field: value for field, value in item.items() if value is not None}
    for field in fields.keys() & known.keys():
        with suppress(BadRequest):
            fields[field] = _checked_value("", known[field], fields[field])
    return fields


def _converted(kind: str, value: Any) -> Any:
    """Return `value` converted to `kind` if its meaning is certain (`"3"` -> 3), otherwise unchanged."""
    if isinstance(value, str) and kind in {"integer", "number", "array", "object", "boolean"}:
        text = value.strip()
        if kind == "boolean":
            return _BOOLEANS.get(text.casefold(), value)
        if kind == "array" and not text.startswith("["):
            return [value] if text else []
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            return value
    if kind == "integer" and isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def _quoted(value: Any) -> str:
    """Return `value` as JSON for an error, cut to 80 characters."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 80 else text[:79] + "…"
