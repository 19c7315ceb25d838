"""Read a few fields of a JSON object that a strict parser rejects.

Harnesses cut strings in the middle of a character, write NaN, begin with a byte order mark or nest too deeply for a parser,
mostly in fields that Ormah does not need. This parser skips nested values: it only matches their brackets and strings.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from json import JSONDecoder
from typing import Any, Final

_STRING: Final = JSONDecoder(strict=False)
_KEY: Final = re.compile(r'[\s,]*(?=")')
_COLON: Final = re.compile(r"\s*:\s*")
_END: Final = re.compile(r"[\s,]*\}")
_SCALAR: Final = re.compile(r'[^\s,\[\]{}"]+')
_NESTED: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)
_WORDS: Final = {"null": None, "false": False, "true": True}


def fields(body: bytes, wanted: Collection[str]) -> dict[str, Any]:
    """Return the `wanted` fields that the object has: strings, true, false and null as Python values.

    A number is returned as its text, an object or list as its opening bracket. Invalid UTF-8 becomes U+FFFD; escaped lone
    surrogates stay in the strings. The time is linear in the length of `body`.

    Raises:
        ValueError: `body` is not an object, is truncated or has invalid syntax. The message quotes no text of it.
    """
    text = body.decode("utf-8-sig", "replace").strip()
    if text[:1] != "{":
        raise ValueError("no JSON object")
    found: dict[str, Any] = {}
    at = 1
    while (key := _KEY.match(text, at)) is not None:
        name, at = _string(text, key.end())
        colon = _COLON.match(text, at)
        if colon is None:
            raise ValueError("a field without a value")
        value, at = _value(text, colon.end())
        if name in wanted:
            found[name] = value
    if _END.match(text, at) is None:
        raise ValueError("it ends in the middle")
    return found


def _value(text: str, at: int) -> tuple[Any, int]:
    """Return the value that begins at `at`, and the position after it."""
    if text[at : at + 1] == '"':
        return _string(text, at)
    if text[at : at + 1] in ("{", "["):
        return text[at], _behind(text, at)
    scalar = _SCALAR.match(text, at)
    if scalar is None:
        raise ValueError("a field without a value")
    return _WORDS.get(scalar[0], scalar[0]), scalar.end()


def _string(text: str, at: int) -> tuple[str, int]:
    try:
        value, end = _STRING.raw_decode(text, at)
    except ValueError:
        raise ValueError("a text that does not end, or with a wrong escape") from None
    return str(value), end


def _behind(text: str, at: int) -> int:
    """Return the position after the object or list that begins at `at`."""
    depth = 0
    for found in _NESTED.finditer(text, at):
        if found[0] in ("{", "["):
            depth += 1
        elif found[0] in ("}", "]"):
            depth -= 1
            if depth == 0:
                return found.end()
    raise ValueError("it ends in the middle")
