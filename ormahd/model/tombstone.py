"""Tombstones: memories that must not be extracted again, one JSON line each in `.ormah/forgotten/YYYY-MM.jsonl`.

A line is written when a memory that was extracted from a session is removed. It has keyed hashes of the memory's
statement and of the turn of the session that it came from. It has no text, so it may stay after a purge. No I/O;
FORMAT.md specifies the format.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final

from msgspec import Struct

from ormahd.model.lines import MonthFiles

FORGOTTEN: Final = ".ormah/forgotten"
"""The folder of the files, relative to the vault."""
_HEX = re.compile(r"[0-9a-f]{32}")


class Tombstone(Struct, frozen=True):
    """The line, without text, for a removed memory that must not be extracted from sessions again.

    `salt`: the key of the hashes. It is the same in all lines of a vault; after two vaults were joined there are two.
    """

    salt: str
    statement: str
    """Hash of the normalised statement; "" if it is not known."""
    turn_hash: str
    """Hash of the key of the turn that the memory was extracted from; "" if it is not known."""
    gone_at: datetime

    @property
    def id(self) -> str:
        """The id of the line: a hash of its other hashes."""
        return sealed(self.salt, "line", f"{self.statement} {self.turn_hash}")


def sealed(salt: str, kind: str, text: str) -> str:
    """Return the hash of `text`, keyed with `salt`: 32 hexadecimal digits. `kind`: what the text is, such as "turn"; it
    is hashed too."""
    return hmac.new(salt.encode(), f"{kind}\n{text}".encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()[:32]


def new_salt() -> str:
    """Return a random salt: 32 hexadecimal digits."""
    return secrets.token_hex(16)


def tombstone(salt: str, statement: str | None, key: str | None, now: datetime) -> Tombstone:
    """Return the tombstone of a memory.

    `statement`: its normalised statement (`actions.tombstones.statement`), or None if it is not known. `key`: the key
    of the turn that it was extracted from, or None if it was not extracted. `now`: the time of its removal.
    """
    return Tombstone(
        salt=salt,
        statement="" if statement is None else sealed(salt, "statement", statement),
        turn_hash="" if key is None else sealed(salt, "turn", key),
        gone_at=now,
    )


class Tombstones(Struct, frozen=True):
    """The hashes and salts of all tombstones of a vault, to look up whether a memory was removed."""

    hashes: frozenset[str] = frozenset()
    salts: frozenset[str] = frozenset()

    @classmethod
    def of(cls, lines: Iterable[Tombstone]) -> Tombstones:
        """Return the `Tombstones` of these lines."""
        known = list(lines)
        hashes = frozenset(value for line in known for value in (line.statement, line.turn_hash) if value)
        return cls(hashes, frozenset(line.salt for line in known))

    def statement(self, statement: str) -> bool:
        """Return whether a memory with this normalised statement was removed."""
        return any(sealed(salt, "statement", statement) in self.hashes for salt in self.salts)

    def turn(self, key: str) -> bool:
        """Return whether a memory that was extracted from the turn with this key was removed."""
        return any(sealed(salt, "turn", key) in self.hashes for salt in self.salts)


def _line_keys(line: Tombstone) -> dict[str, Any]:
    """Return the keys of a tombstone's line, without `id` and time."""
    return {"salt": line.salt, "statement": line.statement, "turn": line.turn_hash}


def _parse_line(row: dict[str, Any], gone_at: datetime) -> Tombstone | str:
    """Return the tombstone that a line holds, or a sentence that says why the line is invalid."""
    for name in ("salt", "statement", "turn"):
        value = row.get(name)
        if not isinstance(value, str) or not (_HEX.fullmatch(value) or (name != "salt" and value == "")):
            return f"`{name}` is not 32 hexadecimal digits"
    if not row["statement"] and not row["turn"]:
        return "neither `statement` nor `turn` says what it is about"
    return Tombstone(row["salt"], row["statement"], row["turn"], gone_at)


FILES: Final = MonthFiles(FORGOTTEN, "gone_at", "the other fields", _line_keys, _parse_line)
encode, decode = FILES.encode, FILES.decode
