"""Merge files of JSON lines (`.ormah/*.jsonl`) three ways, as sets of lines by id. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar

from msgspec import Struct

from ormahd.model import strength


def one_side(base: Any, ours: Any, theirs: Any) -> tuple[bool, Any]:
    """Whether at most one side differs from the base, or both in the same way; and the value then."""
    if ours == theirs or theirs == base:
        return True, ours
    return ours == base, theirs


def merge_lines(base: bytes, ours: bytes, theirs: bytes) -> bytes:
    """Merge files of JSON lines as sets by the lines' `id`, in the order of the ids.

    A line that one side removed and the other left alone goes; one that a side changed stays. Of two versions of a
    line the choice is the same from both sides: for strength the larger numbers and later dates, else the one whose
    bytes sort last. A line without an id is its own id and stands at the end; conflict markers are left out.
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


def _row(line: bytes) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None


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
    """One kind of line."""

    folder: str
    """Where its files are, relative to the vault's root."""
    encode: Callable[[T], bytes]
    """The line, without its end: its id first and its time second (`merge_lines` keeps the line whose bytes sort last)."""
    decode: Callable[[bytes], T | str]
    """What a line holds, or why it holds nothing."""
    id: Callable[[T], str]
    said: Callable[[T], datetime]

    def ours(self, path: str) -> bool:
        """Whether a path of the vault is one of these files."""
        folder, _, name = path.rpartition("/")
        return folder == self.folder and _NAME.fullmatch(name) is not None

    def path(self, moment: datetime) -> str:
        """The file of that month, in UTC."""
        return f"{self.folder}/{moment.astimezone(UTC):%Y-%m}.jsonl"

    def read(self, data: bytes) -> tuple[dict[str, T], list[tuple[int, str]]]:
        """What a file holds by the ids of its lines, and the lines that hold nothing: (number from 1, why)."""
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
        """Of two with one id the one that was said last."""
        return one if other is None or self.said(one) >= self.said(other) else other

    def put(self, data: bytes, one: T) -> bytes:
        """The file with this in it, in place of what has its id. What cannot be read stays, at the end."""
        before = b"".join(
            line + b"\n"
            for line in data.splitlines()
            if not isinstance(known := self.decode(line), str) and self.id(known) == self.id(one)
        )
        return merge_lines(before, data, self.encode(one) + b"\n")
