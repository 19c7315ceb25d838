"""The arguments of MCP tools: from one table come the JSON schema that clients see, and the check of what they send.

Clients disagree on schemas, so these use only what all understand: an object with properties, without references,
unions or nullable types. What models send is read leniently where its meaning is certain: null for an argument that is
left out, a number or a list written as a string, one string where a list is wanted.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from ormahd.rpc.wire import BadRequest


class Argument(msgspec.Struct, frozen=True, kw_only=True):
    """One argument of a tool, or one field of an object in it.

    `kind`: string, integer, number, boolean, array or object. `items`: the fields of an object, or of each object in an
    array. `of`: the kind of an array's elements if they are no objects. `least`, `most`: bounds of a number.
    """

    kind: str
    about: str
    needed: bool = False
    options: Sequence[str] = ()
    least: float | None = None
    most: float | None = None
    items: Mapping[str, Argument] = {}
    of: str = "string"


Arguments = Mapping[str, Argument]
_TYPES: Final[dict[str, type | tuple[type, ...]]] = {
    "string": str, "integer": int, "number": (int, float), "boolean": bool, "array": list, "object": dict,
}  # fmt: skip
_BOOLEANS: Final = {"true": True, "false": False}


def schema(arguments: Arguments) -> dict[str, Any]:
    """Return the JSON schema of an object whose properties are `arguments`."""
    found: dict[str, Any] = {
        "type": "object",
        "properties": {name: _property(one) for name, one in arguments.items()},
        "additionalProperties": False,
    }
    needed = [name for name, one in arguments.items() if one.needed]
    return found | ({"required": needed} if needed else {})


def _property(one: Argument) -> dict[str, Any]:
    if one.kind == "object":
        return schema(one.items) | {"description": one.about}
    found: dict[str, Any] = {"type": one.kind, "description": one.about}
    if one.kind == "array":
        words: dict[str, Any] = {"type": one.of} | ({"enum": list(one.options)} if one.options else {})
        found["items"] = schema(one.items) if one.items else words
    elif one.options:
        found["enum"] = list(one.options)
    if one.least is not None:
        found["minimum"] = one.least
    if one.most is not None:
        found["maximum"] = one.most
    return found


def read(arguments: Arguments, given: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return `given` without nulls, each value checked and converted as its argument declares.

    Raises:
        BadRequest: an argument is missing, unknown or invalid; the message names it and what is allowed.
    """
    found = {name: value for name, value in (given or {}).items() if value is not None}
    unknown = sorted(found.keys() - arguments.keys())
    if unknown:
        raise BadRequest(f"there is no argument '{unknown[0][:60]}'", hint="there are: " + ", ".join(arguments))
    missing = [name for name, one in arguments.items() if one.needed and name not in found]
    if missing:
        raise BadRequest(f"the argument '{missing[0]}' is missing", hint=arguments[missing[0]].about)
    return {name: _value(name, arguments[name], value) for name, value in found.items()}


def _value(name: str, one: Argument, given: Any) -> Any:
    value: Any = _meant(one.kind, given)
    wrong_bool = isinstance(value, bool) and one.kind != "boolean"
    fits = isinstance(value, _TYPES[one.kind]) and not wrong_bool
    if not fits:
        raise BadRequest(f"'{name}' is no {one.kind}: {_shown(value)}", hint=one.about)
    if one.kind == "array":
        return [_item(f"{name}[{at}]", one, item) for at, item in enumerate(value)]
    if one.kind == "object":
        return read(one.items, value)
    if one.options and value not in one.options:
        raise BadRequest(f"'{name}' is {_shown(value)}", hint="it may be: " + ", ".join(one.options))
    if (one.least is not None and value < one.least) or (one.most is not None and value > one.most):
        raise BadRequest(f"'{name}' is {_shown(value)}", hint=f"it may be from {one.least:g} to {one.most:g}")
    return value


def _item(name: str, one: Argument, item: Any) -> Any:
    if one.items:
        # the daemon checks the items of verdicts one by one, and refuses one without the others
        if not isinstance(item, dict):
            raise BadRequest(f"'{name}' is no object: {_shown(item)}", hint="its fields: " + ", ".join(one.items))
        return {field: _read_if_valid(one.items.get(field), value) for field, value in item.items()}
    return _value(name, Argument(kind=one.of, about=one.about, options=one.options), item)


def _read_if_valid(one: Argument | None, value: Any) -> Any:
    try:
        return value if one is None else _value("", one, value)
    except BadRequest:
        return value


def _meant(kind: str, value: Any) -> Any:
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


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 80 else text[:79] + "…"
