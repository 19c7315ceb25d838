"""Every error that a caller can get: a code for programs, a sentence for people, a hint about what to do.

The codes and their exit statuses are part of the protocol (DESIGN section 12). A new kind of failure gets a new class
here; the meaning of a code never changes. Messages about an invalid value (`fault`) name its key, the value, what is
allowed, and what was probably meant.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final

from msgspec import Struct

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic_core import ErrorDetails


class OrmahError(Exception):
    """A failure whose message names its subject, and whose hint says what to do.

    `code` is sent over the protocol, `exit_status` is the exit status of a command, `data` is for programs.
    """

    code: ClassVar[str] = "internal"
    exit_status: ClassVar[int] = 70

    def __init__(self, message: str, *, hint: str | None = None, data: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.data: dict[str, Any] = dict(data or {})


class BadRequest(OrmahError):
    """The request itself is invalid: a field, a value, an argument. Repeating it unchanged fails again."""

    code = "bad_request"
    exit_status = 2


class TooLarge(BadRequest):
    """A value is larger than a frame, a note or a batch may be."""

    code = "too_large"


class Ambiguous(OrmahError):
    """A prefix matches more than one id."""

    code = "ambiguous"
    exit_status = 2


class NotFound(OrmahError):
    """Nothing has that id, path, op or name."""

    code = "not_found"
    exit_status = 3


class Conflict(OrmahError):
    """The note changed since it was read, or two requests exclude each other. Nothing was changed."""

    code = "conflict"
    exit_status = 4


class InvalidNote(OrmahError):
    """A file cannot be read as a note; it is left as it is."""

    code = "invalid_note"
    exit_status = 5


class TooManyChanges(OrmahError):
    """More would change at once than the limits allow. Nothing was changed."""

    code = "too_many_changes"
    exit_status = 6


class Unavailable(OrmahError):
    """The daemon, or something that it needs, is unavailable; `data.reason` names the cause if programs need it."""

    code = "unavailable"
    exit_status = 69


class NoRoom(Unavailable):
    """A disk is full, and nothing was changed. The message names the disk; work continues once there is space."""


class NotReady(OrmahError):
    """The daemon runs, but the part that this call needs is still loading or is being rebuilt: it can be repeated."""

    code = "not_ready"
    exit_status = 69


class Internal(OrmahError):
    """A bug in Ormah. `data.incident` is its number in the log."""


class VaultBusy(OrmahError):
    """Another program holds the repository. Nothing was changed; the request can be repeated."""

    code = "vault_busy"
    exit_status = 75


class Incompatible(OrmahError):
    """The versions of client and daemon, or of the vault's format and this program, do not match."""

    code = "incompatible"
    exit_status = 76


BY_CODE: dict[str, type[OrmahError]] = {
    cls.code: cls
    for cls in (
        *(BadRequest, TooLarge, Ambiguous, NotFound, Conflict, InvalidNote, TooManyChanges),
        *(Unavailable, NotReady, Internal, VaultBusy, Incompatible),
    )
}


MAX_QUOTED: Final = 60
"""Maximum number of characters of a value that an error message quotes."""
_QUOTED = re.compile(r"'([^']*)'")


class Fault(Struct, frozen=True):
    """An invalid value. `key`: its path (`connections[0].edge`). `what`: the end of a sentence that begins with the key
    ("is missing"). `hint`: what to do, if anything."""

    key: str
    what: str
    hint: str | None = None

    def __str__(self) -> str:
        return f"{self.key}: {self.what}" if self.key else self.what


def fault(exc: ValidationError, fields: Iterable[str] = ()) -> Fault:
    """Return the first fault that pydantic found. `fields`: the valid field names of the outermost value.

    For `CreateNodeRequest(tier="hot")`: "tier: 'hot' is not allowed; it may be core, working or archival".
    """
    return faults(exc, fields)[0]


def faults(exc: ValidationError, fields: Iterable[str] = ()) -> list[Fault]:
    """Return all faults that pydantic found; see `fault`."""
    known = list(fields)
    # A misspelled name comes before the missing one that was meant.
    errors = sorted(exc.errors(include_url=False), key=lambda error: _FIRST.get(error["type"], 1))
    return [_fault(error, known) for error in errors]


def _fault(first: ErrorDetails, fields: Iterable[str]) -> Fault:
    """Return the first error of Pydantic as a Fault. `fields`: the names of the outermost value's fields, for a
    suggestion."""
    key = ""
    for part in first["loc"]:
        if isinstance(part, int):
            key += f"[{part}]"
        elif "[" not in part and "(" not in part:  # else it names a member of a union, not a field
            key += f".{part}" if key else part
    kind = first["type"]
    if kind == "missing":
        return Fault(key, "is missing")
    if kind == "extra_forbidden":
        meant = near(key, fields) if key == first["loc"][0] else None  # `fields` are those of the outermost value
        return Fault(key, "there is no such field", meant and f"did you mean {meant}?")
    if kind == "value_error":
        return Fault(key, f"{first['ctx']['error']}" if "ctx" in first else "is not allowed")
    context: Mapping[str, Any] = first.get("ctx") or {}
    allowed = _allowed(first, context)
    given = quote_value(first["input"])
    choices = _QUOTED.findall(str(context.get("expected", "")))
    meant = near(str(first["input"]), choices) if isinstance(first["input"], str) else None
    return Fault(key, f"{given} is not allowed; it {allowed}", meant and f"did you mean {meant}?")


def quote_value(value: Any) -> str:
    """Return a value as an error message quotes it: as JSON, cut to `MAX_QUOTED` characters."""
    if isinstance(value, bool):
        text = "true" if value else "false"
    elif value is None:
        text = "null"
    elif isinstance(value, dict):
        text = "a map"
    elif isinstance(value, (list, tuple, set)):
        text = f"a list of {len(value)}"
    else:
        text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= MAX_QUOTED else text[:MAX_QUOTED] + "…"


def near(word: str, known: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """Return the word of `known` that is most similar to `word`, or None if none is similar enough. `cutoff`: minimum
    similarity, 0 to 1."""
    by_fold = {one.casefold(): one for one in known}
    folded = word.strip().casefold()[:200]
    found = difflib.get_close_matches(folded, by_fold, n=1, cutoff=cutoff)
    found = found or [one for one in by_fold if len(folded) > 2 and one.startswith(folded)][:1]
    return by_fold[found[0]] if found else None


def either(words: Iterable[str]) -> str:
    """Return the words as `a, b or c`."""
    *others, last = list(words) or [""]
    return f"{', '.join(others)} or {last}" if others else last


_FIRST: Final[Mapping[str, int]] = {"extra_forbidden": 0, "none_required": 2}
_LIMITS: Final[Mapping[str, str]] = {
    "greater_than": "must be more than {gt}", "greater_than_equal": "must be at least {ge}", "less_than": "must be less than {lt}",
    "less_than_equal": "may be at most {le}", "finite_number": "must be a finite number",
    "string_too_long": "may have at most {max_length:,} characters", "string_too_short": "must not be empty",
    "too_long": "may have at most {max_length:,} items", "too_short": "must have at least {min_length:,} items",
    "string_pattern_mismatch": "has another form",
}  # fmt: skip
_KINDS: Final[Mapping[str, str]] = {
    "string": "text", "int": "a whole number", "float": "a number", "bool": "true or false", "list": "a list", "dict": "a map",
    "datetime": "a time, such as 2026-11-21 or 2026-11-21T20:00:00Z", "date": "a day, such as 2026-11-21", "path": "a path",
    "model": "a map of fields", "timezone": "a time with its zone", "set": "a list", "tuple": "a list",
}  # fmt: skip
_OTHERWISE: Final = "is of another kind"


def _allowed(error: ErrorDetails, context: Mapping[str, Any]) -> str:
    """Return which values are allowed, as the rest of a sentence that begins with "it"."""
    kind = error["type"]
    if kind in ("enum", "literal_error"):
        return "may be " + either(_QUOTED.findall(str(context["expected"])))
    if kind in _LIMITS:
        return _LIMITS[kind].format(**context)
    wanted = _KINDS.get(kind.split("_")[0])
    return f"must be {wanted}" if wanted else _OTHERWISE


_SAME: Final = {name: _KINDS[name] for name in ("int", "float", "bool")}
_WORDS: Final = {**_SAME, "str": "text", "array": "a list", "object": "a map", "null": "null", "bytes": "bytes"}
"""{type as msgspec names it: in words}."""
_TICKED = re.compile(r"`([^`]*)`")


def in_words(text: str) -> str:
    """Return msgspec's message about a type in plain words: "expected text, got a whole number"."""

    def word(found: re.Match[str]) -> str:
        """Return msgspec's names of types, which `|` separates, in plain words."""
        return " or ".join(_WORDS.get(one.strip(), one.strip()) for one in found[1].split("|"))

    words = _TICKED.sub(word, text)
    words = words.replace(" >= ", " of at least ").replace(" <= ", " of at most ")
    return words[:1].lower() + words[1:]


_PLACE = re.compile(r" - at `(?:key in )?\$(?P<path>[^`]*)`$")
_FIELD = re.compile(r"^Object (?P<fault>contains unknown|missing required) field `(?P<field>[^`]*)`")


def field_and_fault(text: str) -> tuple[str, str]:
    """Return the field that `text`, a message of msgspec, is about ("": the whole value), and its fault in plain
    words."""
    place = _PLACE.search(text)
    path = place["path"].lstrip(".") if place else ""
    text = text[: place.start()] if place else text
    named = _FIELD.match(text)
    if named is None:
        return path, in_words(text)
    fault = "there is no such field" if named["fault"] == "contains unknown" else "is missing"
    return f"{path}.{named['field']}".lstrip("."), fault


LONE_SURROGATE: Final = re.compile("[\\ud800-\\udfff]")
"""Matches half of a surrogate pair: JSON can contain one as an escape, but UTF-8 cannot encode it."""


def json_fault(data: bytes | bytearray | memoryview, otherwise: str) -> str:
    """Return why `data` is refused as JSON. If Python can parse it, and it has no lone half of a surrogate pair, return
    `otherwise`."""
    try:
        found = json.dumps(json.loads(str(data, "utf-8")), ensure_ascii=False)
    except RecursionError:
        return "it is nested too deeply"
    except UnicodeDecodeError as exc:
        return f"it is no UTF-8 (byte {exc.start + 1})"
    except ValueError as exc:
        return str(exc)
    half = LONE_SURROGATE.search(found)
    return half_of_a_pair(half[0]) if half else otherwise


def half_of_a_pair(half: str) -> str:
    """Return the end of a sentence that says that a text has the lone surrogate `half`."""
    return f"it has half of a surrogate pair (\\u{ord(half):04x}), which is no character: send both halves, or none"
