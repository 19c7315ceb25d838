"""Encode and decode frames and their bodies: one byte for the kind, four for the length (big endian), a body.

The decoder does no I/O. It checks a frame's length as soon as the header has arrived, before it waits for the body
(DESIGN section 7). The parameters of a call are decoded into the Struct of its method, which checks their types. Errors
name the field that is wrong.
"""

from __future__ import annotations

import difflib
import struct
import threading
from typing import Annotated, Any, Final, TypeVar

import msgspec
from msgspec import Meta, Raw, Struct
from msgspec.structs import asdict

from ormahd.api import METHODS, Call, ErrorBody, MemoryEvent, Progress, Reply, Result
from ormahd.errors import BadRequest, OrmahError, TooLarge, field_and_fault, json_fault

MSGPACK: Final = b"m"
JSON: Final = b"j"
HOOK: Final = b"h"
MERGE: Final = b"g"
"""The kind of frames from git's merge driver: see `merging`."""
KINDS: Final = frozenset({MSGPACK, JSON, HOOK, MERGE})

HEADER: Final = struct.Struct(">cI")
LARGEST: Final = 1_073_741_824
"""Largest body that a client accepts, in bytes. Daemons of earlier versions could be configured to send this much."""


def pack(kind: bytes, body: bytes) -> bytes:
    """Return the frame with this kind and body."""
    return HEADER.pack(kind, len(body)) + body


class Frames:
    """Splits a stream of bytes into frames.

    `feed` adds bytes that arrived, `next` returns the frames one by one. After an error the caller must close the
    connection, because the start of the next frame is unknown.
    """

    def __init__(self, limit: int = LARGEST) -> None:
        self._limit = limit
        self._data = bytearray()

    def feed(self, data: bytes) -> None:
        """Add bytes that arrived."""
        self._data += data

    @property
    def partial(self) -> int:
        """Number of buffered bytes that `next` has not returned yet."""
        return len(self._data)

    @property
    def kind(self) -> bytes | None:
        """The kind of the arriving frame; None if no byte has arrived or the first byte is no valid kind."""
        kind = bytes(self._data[:1])
        return kind if kind in KINDS else None

    def next(self) -> tuple[bytes, bytes] | None:
        """Return the next frame as (kind, body), or None while it is incomplete.

        Raises:
            BadRequest: the first byte is no valid kind.
            TooLarge: the length in the header is over the limit.
        """
        if not self._data:
            return None
        kind = bytes(self._data[:1])
        if kind not in KINDS:
            raise BadRequest(
                f"frame kind: expected 'm', 'j', 'h' or 'g', got byte 0x{kind.hex()}",
                hint="a frame is kind (1 byte), length (4 bytes, big endian), body: see PROTOCOL.md",
                data={"field": "kind"},
            )
        if len(self._data) < HEADER.size:
            return None
        length: int = HEADER.unpack_from(self._data)[1]
        if length > self._limit:
            raise TooLarge(
                f"frame length: {length} bytes announced, at most {self._limit} are taken",
                hint="send less at once",
                data={"field": "length", "limit": self._limit},
            )
        end = HEADER.size + length
        if len(self._data) < end:
            return None
        body = bytes(memoryview(self._data)[HEADER.size : end])
        del self._data[:end]
        return kind, body


_T = TypeVar("_T")
_Id = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] | Annotated[str, Meta(max_length=256)] | None
_Line = Annotated[str, Meta(max_length=4096, pattern=r"^[^\x00]*$")]


class _Arrival(Struct, kw_only=True):
    """A call as it arrives: a `Call` whose `params` are still encoded."""

    method: _Line
    id: _Id = None
    params: Raw = Raw(b"")
    agent: _Line | None = None
    cwd: _Line | None = None
    session: _Line | None = None


class _Name(Struct):
    id: _Id = None


class _Answer(Struct, kw_only=True):
    """A reply as it arrives: a `Reply` whose `result` is still encoded."""

    id: _Id = None
    result: Raw = Raw(b"")
    error: ErrorBody | None = None
    progress: Progress | None = None
    event: MemoryEvent | None = None


_BROKEN: Final = (msgspec.DecodeError, RecursionError, UnicodeDecodeError)  # ValidationError is a DecodeError
_NOTHING: Final = {JSON: (b"", b"null"), MSGPACK: (b"", b"\xc0")}
_EMPTY: Final = {JSON: b"{}", MSGPACK: b"\x80"}
_resolving = threading.Lock()
_resolved: set[type] = set()


def resolved(type_: type[_T]) -> type[_T]:
    """Return `type_`, after msgspec has resolved the field types of this Struct and of the Structs in it.

    msgspec resolves a Struct at its first use, which is not thread-safe: a second thread may crash the process (SIGSEGV,
    msgspec 0.22). A lock here lets one thread resolve a type while the others wait.
    """
    if type_ not in _resolved:
        with _resolving:
            msgspec.msgpack.Decoder(type_)  # this resolves the type
            _resolved.add(type_)
    return type_


def _decode(kind: bytes, body: bytes, type_: type[_T]) -> _T:
    """Return the body of a frame (JSON or msgpack) as a value of `type_`."""
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
        raise _fault(
            kind, body, exc, "call", "a call is {id, method, params, agent, cwd, session}: see PROTOCOL.md"
        ) from exc
    known = METHODS.get(arrived.method)
    if known is None:
        raise unknown_method(arrived.method)
    raw = bytes(arrived.params)
    if raw in _NOTHING[kind]:
        raw = _EMPTY[kind]
    try:
        params = _decode(kind, raw, known[0])
    except _BROKEN as exc:
        raise _fault(kind, raw, exc, arrived.method, signature(arrived.method)) from exc
    _refuse_nul(params, arrived.method, "")
    return Call(**(asdict(arrived) | {"params": params}))


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
    """Return the reply with the result of a call. `id_`: the id of the call."""
    return Reply(id=id_, result=result)


def error_reply(id_: int | str | None, error: OrmahError) -> Reply:
    """Return the reply with the error of a call. `id_`: the id of the call; None if it could not be read."""
    return Reply(id=id_, error=ErrorBody(code=error.code, message=error.message, hint=error.hint, data=error.data))


def signature(method: str) -> str:
    """Return the names of a method's parameters in one line for error hints, required ones first."""
    fields = msgspec.structs.fields(METHODS[method][0])
    names = [f.encode_name for f in fields if f.required] + [f"[{f.encode_name}]" for f in fields if not f.required]
    return f"{method} takes: {', '.join(names)}" if names else f"{method} takes no parameters"


def unknown_method(method: str) -> BadRequest:
    """Return the error that there is no such method, with the most similar method as a hint."""
    quoted = method if len(method) <= 80 else method[:80] + "…"
    near = difflib.get_close_matches(quoted, METHODS, n=1)
    hint = f"did you mean {near[0]}?" if near else "hello returns the methods as `capabilities`"
    return BadRequest(f"method: there is no {quoted!r}", hint=hint, data={"field": "method"})


def _fault(kind: bytes, body: bytes, exc: Exception, where: str, hint: str) -> BadRequest:
    """Return msgspec's error about a body as a BadRequest that names the field. `where`: the value that the body is,
    for the message."""
    text = str(exc)
    if isinstance(exc, RecursionError):
        return BadRequest(f"{where}: nested too deeply", hint=hint, data={"field": ""})
    if not isinstance(exc, msgspec.ValidationError):
        why = f"JSON: {json_fault(body, text)}" if kind == JSON else f"msgpack: {text}"
        return BadRequest(f"{where}: no valid {why}", hint=hint, data={"field": ""})
    path, fault = field_and_fault(text)
    return BadRequest(f"{where}: {path or 'body'}: {fault}", hint=hint, data={"field": path})


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
    elif answer.event is not None:
        reply.event = answer.event
    else:
        raw = bytes(answer.result)
        reply.result = _decode(kind, raw, result) if raw else None
    return reply
