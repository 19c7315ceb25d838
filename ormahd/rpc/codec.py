"""Encode and decode the bodies of frames: calls and replies. Errors name the field that is wrong.

The parameters of a call are decoded into the Struct of its method, which checks their types.
"""

from __future__ import annotations

import difflib
import re
import threading
from typing import Annotated, Any, Final, TypeVar

import msgspec
from msgspec import Meta, Raw, Struct

from ormahd.api import METHODS, Call, ErrorBody, Params, Progress, Reply, Result
from ormahd.errors import BadRequest, OrmahError
from ormahd.faults import in_words
from ormahd.rpc.frames import JSON, MSGPACK

_T = TypeVar("_T")
_Id = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] | Annotated[str, Meta(max_length=256)] | None
_Line = Annotated[str, Meta(max_length=4096, pattern=r"^[^\x00]*$")]


class _Arrival(Struct, kw_only=True):
    """A `Call` whose parameters are not decoded yet."""

    method: _Line
    id: _Id = None
    params: Raw = Raw(b"")
    agent: _Line | None = None
    cwd: _Line | None = None
    session: _Line | None = None


class _Name(Struct):
    id: _Id = None


class _Answer(Struct, kw_only=True):
    """A `Reply` whose result is not decoded yet."""

    id: _Id = None
    result: Raw = Raw(b"")
    error: ErrorBody | None = None
    progress: Progress | None = None


_BROKEN: Final = (msgspec.DecodeError, RecursionError, UnicodeDecodeError)  # ValidationError is a DecodeError
_NOTHING: Final = {JSON: (b"", b"null"), MSGPACK: (b"", b"\xc0")}
_EMPTY: Final = {JSON: b"{}", MSGPACK: b"\x80"}
_resolving = threading.Lock()
_resolved: set[type] = set()
_PLACE = re.compile(r" - at `(?:key in )?\$(?P<path>[^`]*)`$")
_FIELD = re.compile(r"^Object (?P<fault>contains unknown|missing required) field `(?P<field>[^`]*)`")


def resolved(type_: type[_T]) -> type[_T]:
    """Return `type_`, after msgspec has resolved the field types of this Struct and of the Structs in it.

    msgspec resolves a Struct at its first use, which is not thread-safe: a second thread may crash the process (SIGSEGV,
    msgspec 0.22). A lock here lets one thread resolve a type while the others wait.
    """
    if type_ not in _resolved:
        with _resolving:
            msgspec.msgpack.Decoder(type_)
            _resolved.add(type_)
    return type_


def _decode(kind: bytes, body: bytes, type_: type[_T]) -> _T:
    if kind == JSON:
        return msgspec.json.decode(body, type=resolved(type_))
    return msgspec.msgpack.decode(body, type=resolved(type_))


def encode(kind: bytes, value: Struct) -> bytes:
    """Encode `value` as the body of a frame of `kind` (JSON or msgpack)."""
    return msgspec.json.encode(value) if kind == JSON else msgspec.msgpack.encode(value)


# ---------------------------------------------------------------- the daemon's side


def read_call(kind: bytes, body: bytes) -> Call:
    """Decode the call in a body. `params` of the result is the Struct of the method, with checked types.

    Raises:
        BadRequest: the body is invalid; the message says which field and what was expected, `data` is `{"field": …}`.
    """
    try:
        arrived = _decode(kind, body, _Arrival)
    except _BROKEN as exc:
        raise _fault(kind, exc, "call", "a call is {id, method, params, agent, cwd, session}: see PROTOCOL.md") from exc
    known = METHODS.get(arrived.method)
    if known is None:
        raise unknown_method(arrived.method)
    raw = bytes(arrived.params)
    if raw in _NOTHING[kind]:
        raw = _EMPTY[kind]
    try:
        params = _decode(kind, raw, known[0])
    except _BROKEN as exc:
        raise _fault(kind, exc, arrived.method, signature(arrived.method)) from exc
    _refuse_nul(params, arrived.method, "")
    return Call(
        method=arrived.method, id=arrived.id, params=params, agent=arrived.agent, cwd=arrived.cwd, session=arrived.session
    )  # fmt: skip


def _refuse_nul(value: Any, method: str, path: str) -> None:
    """Raise BadRequest if any text in `value` contains a NUL character, which notes, paths and SQLite texts cannot hold."""
    if isinstance(value, str):
        if "\x00" in value:
            raise BadRequest(f"{method}: {path}: holds a NUL character", hint="remove it", data={"field": path})
    elif isinstance(value, list):
        for number, item in enumerate(value):
            _refuse_nul(item, method, f"{path}[{number}]")
    elif isinstance(value, Struct):
        for name in value.__struct_encode_fields__:
            _refuse_nul(getattr(value, name), method, f"{path}.{name}".lstrip("."))


def read_id(kind: bytes, body: bytes) -> int | str | None:
    """Return the id of a call that `read_call` could not decode, or None if the id cannot be decoded either."""
    try:
        return _decode(kind, body, _Name).id
    except _BROKEN:
        return None


def result_reply(id_: int | str | None, result: Result) -> Reply:
    return Reply(id=id_, result=result)


def error_reply(id_: int | str | None, error: OrmahError) -> Reply:
    return Reply(id=id_, error=ErrorBody(code=error.code, message=error.message, hint=error.hint, data=error.data))


def signature(method: str) -> str:
    """Return the names of a method's parameters in one line for error hints, required ones first."""
    fields = msgspec.structs.fields(METHODS[method][0])
    names = [f.encode_name for f in fields if f.required] + [f"[{f.encode_name}]" for f in fields if not f.required]
    return f"{method} takes: {', '.join(names)}" if names else f"{method} takes no parameters"


def unknown_method(method: str) -> BadRequest:
    shown = method if len(method) <= 80 else method[:80] + "…"
    near = difflib.get_close_matches(shown, METHODS, n=1)
    hint = f"did you mean {near[0]}?" if near else "hello returns the methods as `capabilities`"
    return BadRequest(f"method: there is no {shown!r}", hint=hint, data={"field": "method"})


def _fault(kind: bytes, exc: Exception, where: str, hint: str) -> BadRequest:
    """Turn msgspec's error about a body into a BadRequest that names the field."""
    text = str(exc)
    if isinstance(exc, RecursionError):
        return BadRequest(f"{where}: nested too deeply", hint=hint, data={"field": ""})
    if not isinstance(exc, msgspec.ValidationError):
        name = "JSON" if kind == JSON else "msgpack"
        return BadRequest(f"{where}: no valid {name}: {text}", hint=hint, data={"field": ""})
    place = _PLACE.search(text)
    path = place["path"].lstrip(".") if place else ""
    text = text[: place.start()] if place else text
    named = _FIELD.match(text)
    if named:
        path = f"{path}.{named['field']}".lstrip(".")
        text = "there is no such field" if named["fault"] == "contains unknown" else "is missing"
        return BadRequest(f"{where}: {path}: {text}", hint=hint, data={"field": path})
    return BadRequest(f"{where}: {path or 'body'}: {in_words(text)}", hint=hint, data={"field": path})


# ---------------------------------------------------------------- the caller's side


def read_reply(kind: bytes, body: bytes, result: type[Any]) -> Reply:
    """Decode the reply in a body; its result is decoded as `result`.

    Raises:
        msgspec.DecodeError: the body is not a reply, or its result has another type.
    """
    answer = _decode(kind, body, _Answer)
    reply = Reply(id=answer.id)
    if answer.error is not None:
        reply.error = answer.error
    elif answer.progress is not None:
        reply.progress = answer.progress
    else:
        raw = bytes(answer.result)
        reply.result = _decode(kind, raw, result) if raw else None
    return reply


__all__ = [
    "Call", "Params", "Reply", "encode", "error_reply", "read_call", "read_id", "read_reply", "result_reply", "signature",
    "unknown_method",
]  # fmt: skip
