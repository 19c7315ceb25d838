"""Bodies: a call or a reply as bytes, and back, with faults that name the field.

A call's parameters are read straight into the Struct of its method: nothing of the wrong shape is ever built.
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
    """A `Call` whose parameters are not read yet."""

    method: _Line
    id: _Id = None
    params: Raw = Raw(b"")
    agent: _Line | None = None
    cwd: _Line | None = None
    session: _Line | None = None


class _Name(Struct):
    id: _Id = None


class _Answer(Struct, kw_only=True):
    """A `Reply` whose result is not read yet."""

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
    """`type_`, whose fields' types msgspec has looked up, and those of every Struct in it.

    It does so when a Struct is first used, and a second thread that uses it meanwhile reads what is half made: a daemon whose first
    memories came from several clients at once died of it (SIGSEGV in `convert(..., from_attributes=True)`, msgspec 0.22). So every
    type that threads share comes through here: one thread looks up, the others wait.
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
    """The body of a frame of `kind` (JSON or msgpack)."""
    return msgspec.json.encode(value) if kind == JSON else msgspec.msgpack.encode(value)


# ---------------------------------------------------------------- the daemon's side


def read_call(kind: bytes, body: bytes) -> Call:
    """The call in a body; `params` of the result is the method's own Struct, checked.

    Raises:
        BadRequest: with the field, what was expected, and `data: {"field": …}`.
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
    """Refuse the character that no note, path or database text can hold, whatever field it came in."""
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
    """The id of a call that cannot be answered otherwise, or None when even that cannot be read."""
    try:
        return _decode(kind, body, _Name).id
    except _BROKEN:
        return None


def result_reply(id_: int | str | None, result: Result) -> Reply:
    return Reply(id=id_, result=result)


def error_reply(id_: int | str | None, error: OrmahError) -> Reply:
    return Reply(id=id_, error=ErrorBody(code=error.code, message=error.message, hint=error.hint, data=error.data))


def signature(method: str) -> str:
    """The parameters of a method in one line, required ones first, for hints."""
    fields = msgspec.structs.fields(METHODS[method][0])
    names = [f.encode_name for f in fields if f.required] + [f"[{f.encode_name}]" for f in fields if not f.required]
    return f"{method} takes: {', '.join(names)}" if names else f"{method} takes no parameters"


def unknown_method(method: str) -> BadRequest:
    shown = method if len(method) <= 80 else method[:80] + "…"
    near = difflib.get_close_matches(shown, METHODS, n=1)
    hint = f"did you mean {near[0]}?" if near else "hello returns the methods as `capabilities`"
    return BadRequest(f"method: there is no {shown!r}", hint=hint, data={"field": "method"})


def _fault(kind: bytes, exc: Exception, where: str, hint: str) -> BadRequest:
    """What is wrong with a body, in msgspec's words without its quotes, and the field it is in."""
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
    """The reply in a body, its result read into `result`.

    Raises:
        msgspec.DecodeError: the daemon speaks something else.
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
