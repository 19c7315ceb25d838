"""Finds the JSON in what a judge printed, and checks it against a closed schema.

A model may put its answer into a fence, prose with braces, or thoughts. Every `{` and `[` is tried as the start of a JSON
value, so that strings and nesting are read by the same rules as any JSON. Of the values that fit, the one with the most
usable items wins, and of equals the last, because drafts come first.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

KEY: Final = "answers"
"""The key of an answer's one list."""
STARTS: Final = 400
"""How many opening brackets are tried: an answer has one, and hostile text has millions."""
FAULTS: Final = 5
"""Number of faults that a reading names; the judge is shown them in the repair round."""

_OPENING = re.compile(r"[{\[]")
_THOUGHTS = re.compile(r"<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL)
_BAD_ESCAPE = re.compile(r"\\(?:(?=[^\"\\/bfnrtu])|(?=u(?![0-9a-fA-F]{4})))")
_PAIR = re.compile(r"\\\\")
_SURROGATES = re.compile("[\ud800-\udfff]")


class AnswerReading(Struct, frozen=True):
    """The usable items of an answer, in its order, and what was wrong with the rest. `found`: whether there was a list at all."""

    items: tuple[Any, ...]
    faults: tuple[str, ...]
    found: bool


def read(text: str, item: type[Struct]) -> AnswerReading:
    """Return the items of the answer in `text`, each an `item`. Never raises."""
    shown = _THOUGHTS.sub("", text)
    if not shown.strip():
        return AnswerReading((), ("the answer is empty",), False)
    best: AnswerReading | None = None
    for tried in dict.fromkeys((shown, _escaped(shown))):
        for reading in _readings(tried, item):
            if best is None or len(reading.items) >= len(best.items):
                best = reading
    return best or AnswerReading((), (_why_none(shown),), False)


def schema(item: type[Struct]) -> dict[str, Any]:
    """Return the JSON schema of an answer whose items are `item`: closed, every field required, no references."""
    (one,), defined = msgspec.json.schema_components([item])

    def inline(part: Any) -> Any:
        if isinstance(part, dict):
            name = str(part.get("$ref", "")).rpartition("/")[2]
            return (
                inline(defined[name])
                if name
                else {key: inline(value) for key, value in part.items() if key != "description"}
            )
        return [inline(value) for value in part] if isinstance(part, list) else part

    return {
        "type": "object", "additionalProperties": False, "required": [KEY],
        "properties": {KEY: {"type": "array", "items": inline(one)}},
    }  # fmt: skip


def _readings(text: str, item: type[Struct]) -> Iterator[AnswerReading]:
    """Yield what each JSON value in `text` comes to as an answer; last, its single objects together."""
    single = []
    for value in _values(text):
        reading = _fitted(value, item)
        if reading is not None:
            yield reading
        elif _is_one(value, item):
            single.append(value)
    if single:
        yield _items(single, item, [f"the items do not stand in one complete object with a list {KEY!r}"])


def _values(text: str) -> Iterator[Any]:
    """Yield the outermost JSON objects and lists in `text`, in their order."""
    decoder = json.JSONDecoder(strict=False, parse_constant=_refuse)
    at = 0
    for _ in range(STARTS):
        opening = _OPENING.search(text, at)
        if opening is None:
            return
        try:
            value, at = decoder.raw_decode(text, opening.start())
        except (ValueError, RecursionError):
            at = opening.end()
        else:
            yield value


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _escaped(text: str) -> str:
    r"""Return `text` with each backslash that JSON does not know doubled: models write `\d` and `C:\temp` as they are."""
    return "\\\\".join(_BAD_ESCAPE.sub(r"\\\\", part) for part in _PAIR.split(text))


def _fitted(value: Any, item: type[Struct]) -> AnswerReading | None:
    """Return the reading of one JSON value; None if it is no answer at all."""
    if isinstance(value, Mapping):
        if KEY in value:
            extra = sorted(set(value) - {KEY})
            faults = [f"the object has {one!r} beside {KEY!r}" for one in extra[:FAULTS]]
            return _items(value[KEY], item, faults) if isinstance(value[KEY], list) else None
        return None
    if isinstance(value, list) and (not value or any(_is_one(one, item) for one in value)):
        return _items(value, item, [])
    return None


def _is_one(value: Any, item: type[Struct]) -> bool:
    """Return whether a value was meant as an item: it has most of its fields."""
    names = set(item.__struct_fields__)
    return isinstance(value, Mapping) and 2 * len(names & set(value)) > len(names)


def _items(values: Sequence[Any], item: type[Struct], faults: list[str]) -> AnswerReading:
    found = []
    for number, value in enumerate(values, 1):
        try:
            found.append(msgspec.convert(_mended(value), item, strict=True))
        except msgspec.ValidationError as exc:
            faults.append(f"item {number}: {exc}")
    return AnswerReading(tuple(found), tuple(faults[:FAULTS]), True)


def _mended(value: Any) -> Any:
    """Return a value whose strings have no half characters, which no file could hold."""
    if isinstance(value, str):
        return _SURROGATES.sub("\N{REPLACEMENT CHARACTER}", value)
    if isinstance(value, list):
        return [_mended(one) for one in value]
    if isinstance(value, dict):
        return {name: _mended(one) for name, one in value.items()}
    return value


def _why_none(text: str) -> str:
    if re.match(r"\s*(?:<!doctype|<html)", text, re.IGNORECASE):
        return "the answer is a page of HTML"
    if "{" not in text and "[" not in text:
        return "the answer is prose without JSON"
    return f"the answer holds no JSON object with a list {KEY!r} that is complete"
