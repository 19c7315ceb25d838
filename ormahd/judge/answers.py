"""Finds the JSON answer in a judge's output, and checks it against a closed schema.

A model may surround its answer with a code fence, prose that has braces, or its thoughts. So a JSON decoder is tried
at every `{` and `[`. Of the values that fit the schema, the one with the most usable items is taken; of several such
values the last one, because a model writes its drafts first.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

KEY: Final = "answers"
"""The only key of an answer. Its value is the list of items."""
STARTS: Final = 400
"""Maximum number of opening brackets that are tried. An answer has a few; hostile text may have millions."""
FAULTS: Final = 5
"""Maximum number of faults that are reported. The judge is shown them when it is asked to repair its answer."""

_OPENING = re.compile(r"[{\[]")
_THOUGHT = re.compile(r"<think(?:ing)?>")
_THOUGHT_END = re.compile(r"</think(?:ing)?>")
_BAD_ESCAPE = re.compile(r"\\(?:(?=[^\"\\/bfnrtu])|(?=u(?![0-9a-fA-F]{4})))")
_PAIR = re.compile(r"\\\\")


class AnswerReading(Struct, frozen=True):
    """What was read from an answer.

    `items`: its usable items, in the order of the answer. `faults`: what is wrong with the other ones. `found`: whether
    the answer has a list of items at all.
    """

    items: tuple[Any, ...]
    faults: tuple[str, ...]
    found: bool


def read(text: str, item: type[Struct]) -> AnswerReading:
    """Return the items in `text`, the answer of a judge, converted to the type `item`. Never raises.

    If the answer has several lists of items, the one with most usable items is taken; of equal ones the last.
    """
    # the answer without the model's thoughts, which may contain drafts of it
    *thoughts, rest = _THOUGHT_END.split(text)
    visible = "".join([*(_THOUGHT.split(thought, maxsplit=1)[0] for thought in thoughts), rest])
    if not visible.strip():
        return AnswerReading((), ("the answer is empty",), False)
    best: AnswerReading | None = None
    # models write `\\d` and `C:\\Users` without escaping the backslash: it is tried doubled too
    escaped = "\\\\".join(_BAD_ESCAPE.sub(r"\\\\", part) for part in _PAIR.split(visible))
    for tried in dict.fromkeys((visible, escaped)):
        for reading in _readings(tried, item):
            if best is None or len(reading.items) >= len(best.items):
                best = reading
    return best or AnswerReading((), (_why_unreadable(visible),), False)


def schema(item: type[Struct]) -> dict[str, Any]:
    """Return the JSON schema of an answer that is a list of items of the type `item`. It allows no other fields,
    requires every field, and has no `$ref`."""
    (root,), defined = msgspec.json.schema_components([item])

    def inline(part: Any) -> Any:
        """Return a part of the schema without `$ref`, descriptions and defaults."""
        if isinstance(part, list):
            return [inline(value) for value in part]
        if not isinstance(part, dict):
            return part
        if "$ref" in part:
            return inline(defined[part["$ref"].rpartition("/")[2]])
        return {key: inline(value) for key, value in part.items() if key not in {"description", "default"}}

    items = inline(root) | {"required": list(item.__struct_fields__)}
    list_of = {"type": "array", "items": items}
    return {"type": "object", "additionalProperties": False, "required": [KEY], "properties": {KEY: list_of}}


def _readings(text: str, item: type[Struct]) -> Iterator[AnswerReading]:
    """Yield a reading for each JSON value in `text` that has the form of an answer: an object with the key `KEY`, or a
    bare list of items. If there are items outside any list, the last reading has all of these."""
    single = []
    for value in _values(text):
        if isinstance(value, Mapping) and isinstance(value.get(KEY), list):
            extra = sorted(set(value) - {KEY})[:FAULTS]
            yield _convert_items(value[KEY], item, [f"the object has {name!r} beside {KEY!r}" for name in extra])
        elif isinstance(value, list) and (not value or any(_is_item(part, item) for part in value)):
            yield _convert_items(value, item, [])
        elif _is_item(value, item):
            single.append(value)
    if single:
        yield _convert_items(single, item, [f"the items do not stand in one complete object with a list {KEY!r}"])


def _values(text: str) -> Iterator[Any]:
    """Yield the outermost JSON objects and lists in `text`, in order."""
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
    """Raise ValueError: the decoder calls this for NaN and Infinity, which are no JSON."""
    raise ValueError(f"{name} is no JSON")


def _is_item(value: Any, item: type[Struct]) -> bool:
    """Return whether a JSON value was meant as an item: an object that has most of the fields of `item`."""
    names = set(item.__struct_fields__)
    return isinstance(value, Mapping) and 2 * len(names & set(value)) > len(names)


def _convert_items(values: Sequence[Any], item: type[Struct], faults: list[str]) -> AnswerReading:
    """Return the reading of a list of items: those that can be converted, and `faults` with a line for each other
    one."""
    items = []
    for number, value in enumerate(values, 1):
        # Through UTF-16, which makes replacement characters of lone surrogates: no UTF-8 file can hold them
        text = json.dumps(value, ensure_ascii=False).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        try:
            items.append(msgspec.json.decode(text, type=item))
        except msgspec.DecodeError as exc:
            faults.append(f"item {number}: {exc}")
    return AnswerReading(tuple(items), tuple(faults[:FAULTS]), True)


def _why_unreadable(text: str) -> str:
    """Return why an answer has no list of items, in words for the judge."""
    if re.match(r"\s*(?:<!doctype|<html)", text, re.IGNORECASE):
        return "the answer is a page of HTML"
    if "{" not in text and "[" not in text:
        return "the answer is prose without JSON"
    return f"the answer holds no JSON object with a list {KEY!r} that is complete"
