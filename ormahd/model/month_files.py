"""Files of lines below `.ormah/`, one for each month: judgements, decisions. A line has an id, and of two with one id the later
counts, so that git may unite what two machines wrote. Specified in FORMAT.md. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Generic, TypeVar

from msgspec import Struct

from ormahd.model.line_merge import merge_lines

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
