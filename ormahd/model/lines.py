"""Merge the files of JSON lines in `.ormah/`, and read and write lines that are stored in one file per month. No
I/O."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Generic, Protocol, TypeVar

from msgspec import Struct

from ormahd.model import strength
from ormahd.model.node import read_time, write_time


def is_lines(path: str) -> bool:
    """Return whether a file contains JSON lines with ids, which merge as a set."""
    return path.endswith(".jsonl") and ".ormah" in path.split("/")[:-1]


def one_side(base: Any, ours: Any, theirs: Any) -> tuple[bool, Any]:
    """Return (True, merged value) if a three-way merge has no conflict, otherwise (False, any value).

    There is no conflict if at most one side differs from the base, or if both sides are equal.
    """
    if ours == theirs or theirs == base:
        return True, ours
    return ours == base, theirs


def merge_lines(base: bytes, ours: bytes, theirs: bytes) -> bytes:
    """Return the merge of three versions of a file of JSON lines, which are matched by their `id`. The result is sorted
    by id.

    A line is removed if one side removed it and the other did not change it. If both sides changed a line, the order of
    the sides does not matter: a line of strength gets the larger numbers and later dates, another is the version whose
    bytes sort last. Lines without an id are compared as a whole and placed at the end; conflict markers are dropped.
    """
    if theirs in (base, ours):
        return ours
    if ours == base:
        return theirs
    before, mine, other = _keyed_lines(base), _keyed_lines(ours), _keyed_lines(theirs)
    merged: dict[tuple[bool, str, bytes], bytes] = {}
    for key in mine.keys() | other.keys():
        one_sided, line = one_side(before.get(key), mine.get(key), other.get(key))
        if not one_sided:
            line = _merge_line(mine.get(key), other.get(key))
        if line is not None:
            merged[key] = line
    return b"".join(merged[key] + b"\n" for key in sorted(merged))


def _keyed_lines(data: bytes) -> dict[tuple[bool, str, bytes], bytes]:
    """Return {sort key: line} of a file of JSON lines, without conflict markers. The sort key is (False, id, b""), or
    (True, "", line) for a line without an id, so that those come last."""
    found: dict[tuple[bool, str, bytes], bytes] = {}
    for line in data.splitlines():
        if not line.strip() or line.startswith((b"<<<<<<<", b"|||||||", b"=======", b">>>>>>>")):
            continue
        row = _json_object(line)
        name = row.get("id") if row is not None else None
        key = (False, name, b"") if isinstance(name, str) and name else (True, "", line)
        found[key] = _merge_line(found.get(key), line) or line
    return found


def read_row(line: bytes) -> dict[str, Any] | str:
    """Return the JSON object of a line, or a sentence that says why the line is no JSON object."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return "it is no JSON"
    return row if isinstance(row, dict) else "it is no JSON object"


def _json_object(line: bytes) -> dict[str, Any] | None:
    """Return the JSON object of a line; None if the line is no JSON object."""
    row = read_row(line)
    return None if isinstance(row, str) else row


def _merge_line(first: bytes | None, other: bytes | None) -> bytes | None:
    """Return the merge of two versions of a line: for strength of both, otherwise the one whose bytes sort last. If
    only one version exists, it is returned."""
    if first is None or other is None or first == other:
        return first or other
    first_row, second_row = _json_object(first), _json_object(other)
    if first_row is not None and second_row is not None and _is_strength(first_row) and _is_strength(second_row):
        return strength.strength_line(strength.merged_row(first_row, second_row)).encode("utf-8", "surrogatepass")
    return max(first, other)


def _is_strength(row: dict[str, Any]) -> bool:
    """Return whether the JSON object of a line is a valid line of `strength.jsonl`."""
    return strength.row_problem(row) is None and row["id"] == f"{row['node']}@{row['machine']}"


class Identified(Protocol):
    """A value with an id."""

    @property
    def id(self) -> str: ...


T = TypeVar("T", bound=Identified)

_NAME = re.compile(r"\d{4}-\d{2}\.jsonl")


class MonthFiles(Struct, Generic[T], frozen=True):
    """Reads and writes the lines of one type, such as judgements, in one file for each month. If two lines have the
    same id, the later one counts.

    A line begins with the id and the time, because `merge_lines` keeps the line whose bytes sort last.
    """

    folder: str
    """The folder of the files, relative to the vault."""
    time: str
    """The time of a value, as an attribute of `T` and as a key of the line. Of two values with one id the later counts."""
    made_of: str
    """The keys of which the id is made, for the error."""
    row: Callable[[T], dict[str, Any]]
    """Returns the other keys of a value's line."""
    value: Callable[[dict[str, Any], datetime], T | str]
    """Called with a line's keys and its time. Returns its value, or a sentence that says why it is invalid."""

    def encode(self, value: T) -> bytes:
        """Return the JSON line of a value without its newline."""
        row = {"id": value.id, self.time: write_time(getattr(value, self.time), "milliseconds")}
        return json.dumps(row | self.row(value), ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")

    def decode(self, line: bytes) -> T | str:
        """Return the value of a line, or a sentence that says why it is invalid. Unknown keys are ignored."""
        row = read_row(line)
        if isinstance(row, str):
            return row
        time = read_time(row.get(self.time))
        value = f"`{self.time}` is no time with a zone" if time is None else self.value(row, time)
        if isinstance(value, str) or row.get("id") == value.id:
            return value
        return f"`id` is not made of {self.made_of}"

    def ours(self, path: str) -> bool:
        """Return whether `path`, relative to the vault, is the file of a month in `folder`."""
        folder, _, name = path.rpartition("/")
        return folder == self.folder and _NAME.fullmatch(name) is not None

    def path(self, moment: datetime) -> str:
        """Return the path of the file for the month of `moment`, in UTC."""
        return f"{self.folder}/{moment.astimezone(UTC):%Y-%m}.jsonl"

    def read(self, data: bytes) -> tuple[dict[str, T], list[tuple[int, str]]]:
        """Return `{id: value}` of a file with the content `data`, and `(line number, reason)` for each unreadable
        line."""
        found: dict[str, T] = {}
        bad: list[tuple[int, str]] = []
        for number, line in enumerate(data.splitlines(), start=1):
            if line.strip():
                value = self.decode(line)
                if isinstance(value, str):
                    bad.append((number, value))
                else:
                    found[value.id] = self.later(value, found.get(value.id))
        return found, bad

    def later(self, value: T, other: T | None) -> T:
        """Return which of two values with the same id has the later time. `other`: None if there is only one."""
        return value if other is None or getattr(value, self.time) >= getattr(other, self.time) else other

    def put(self, data: bytes, value: T) -> bytes:
        """Return the content `data` of a file with `value` added, in place of one with the same id. Unreadable lines
        move to the end."""
        lines = [(line, self.decode(line)) for line in data.splitlines()]
        old = [line + b"\n" for line, known in lines if not isinstance(known, str) and known.id == value.id]
        return merge_lines(b"".join(old), data, self.encode(value) + b"\n")
