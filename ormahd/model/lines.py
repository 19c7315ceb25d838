"""Merge the files of JSON lines in `.ormah/`, and read and write lines that are stored in one file per month. No
I/O."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar

from msgspec import Struct

from ormahd.model import strength


def one_side(base: Any, ours: Any, theirs: Any) -> tuple[bool, Any]:
    """Return (True, merged value) if a three-way merge has no conflict, otherwise (False, any value).

    There is no conflict if at most one side differs from the base, or if both sides are equal.
    """
    if ours == theirs or theirs == base:
        return True, ours
    return ours == base, theirs


def merge_lines(base: bytes, ours: bytes, theirs: bytes) -> bytes:
    """Merge three versions of a file of JSON lines, matching lines by their `id`. The result is sorted by id.

    A line is removed if one side removed it and the other did not change it. Two versions of a line are merged
    symmetrically: for strength the larger numbers and later dates, otherwise the version whose bytes sort last. Lines
    without an id are compared as a whole and placed at the end; conflict markers are dropped.
    """
    if theirs in (base, ours):
        return ours
    if ours == base:
        return theirs
    before, here, there = _by_id(base), _by_id(ours), _by_id(theirs)
    merged: dict[tuple[bool, str, bytes], bytes] = {}
    for key in here.keys() | there.keys():
        one_sided, line = one_side(before.get(key), here.get(key), there.get(key))
        if not one_sided:
            line = _either(here.get(key), there.get(key))
        if line is not None:
            merged[key] = line
    return b"".join(merged[key] + b"\n" for key in sorted(merged))


def _by_id(data: bytes) -> dict[tuple[bool, str, bytes], bytes]:
    found: dict[tuple[bool, str, bytes], bytes] = {}
    for line in data.splitlines():
        if not line.strip() or line.startswith((b"<<<<<<<", b"|||||||", b"=======", b">>>>>>>")):
            continue
        row = _row(line)
        name = row.get("id") if row is not None else None
        key = (False, name, b"") if isinstance(name, str) and name else (True, "", line)
        found[key] = _either(found.get(key), line) or line
    return found


def read_row(line: bytes) -> dict[str, Any] | str:
    """Return the JSON object of a line, or a sentence that says why the line is no JSON object."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return "it is no JSON"
    return row if isinstance(row, dict) else "it is no JSON object"


def _row(line: bytes) -> dict[str, Any] | None:
    row = read_row(line)
    return None if isinstance(row, str) else row


def _either(one: bytes | None, other: bytes | None) -> bytes | None:
    if one is None or other is None or one == other:
        return one or other
    left, right = _row(one), _row(other)
    if left is not None and right is not None and _is_strength(left) and _is_strength(right):
        return strength.strength_line(strength.merged_row(left, right)).encode("utf-8", "surrogatepass")
    return max(one, other)


def _is_strength(row: dict[str, Any]) -> bool:
    return strength.row_problem(row) is None and row["id"] == f"{row['node']}@{row['machine']}"


T = TypeVar("T")

_NAME = re.compile(r"\d{4}-\d{2}\.jsonl")


class MonthFiles(Struct, Generic[T], frozen=True):
    """Reads and writes one type of line, stored in one file per month, such as judgements. If two lines have the
    same id, the later one counts.

    `encode` writes the id first and the time second, because `merge_lines` keeps the line whose bytes sort last.
    """

    folder: str
    """The folder of the files, relative to the vault."""
    encode: Callable[[T], bytes]
    """Returns the line without its newline."""
    decode: Callable[[bytes], T | str]
    """Returns the value of a line, or a sentence that says why it is invalid."""
    id: Callable[[T], str]
    said: Callable[[T], datetime]
    """Returns the time of a value; of two values with one id the one with the later time counts."""

    def ours(self, path: str) -> bool:
        """Whether `path`, relative to the vault, is a file of one month in `folder`."""
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
                one = self.decode(line)
                if isinstance(one, str):
                    bad.append((number, one))
                else:
                    found[self.id(one)] = self.later(one, found.get(self.id(one)))
        return found, bad

    def later(self, one: T, other: T | None) -> T:
        """Return the one of two values with the same id that has the later time."""
        return one if other is None or self.said(one) >= self.said(other) else other

    def put(self, data: bytes, one: T) -> bytes:
        """Return the content `data` of a file with `one` added. A value that has the same id is removed. Unreadable
        lines move to the end."""
        before = b"".join(
            line + b"\n"
            for line in data.splitlines()
            if not isinstance(known := self.decode(line), str) and self.id(known) == self.id(one)
        )
        return merge_lines(before, data, self.encode(one) + b"\n")
