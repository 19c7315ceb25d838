"""What a transaction is made of, as values: kinds, changes, commits, and the sortable ids of ops."""

from __future__ import annotations

import hashlib
import secrets
import threading
from collections.abc import Callable
from datetime import datetime
from enum import StrEnum

from msgspec import Struct

Clock = Callable[[], datetime]
"""Gives the present as an aware UTC datetime."""
Entropy = Callable[[int], bytes]
"""Gives that many random bytes (`secrets.token_bytes`)."""


class Kind(StrEnum):
    """What an op was for; the trailer `Ormah-Kind` (DESIGN section 5)."""

    INIT = "init"
    REMEMBER = "remember"
    UPDATE = "update"
    FORGET = "forget"
    OUTDATED = "outdated"
    LINK = "link"
    FEEDBACK = "feedback"
    MERGE = "merge"
    CONSOLIDATE = "consolidate"
    CLUSTER = "cluster"
    CONFLICT = "conflict"
    DECAY = "decay"
    PROMOTE = "promote"
    STRENGTH = "strength"
    ADOPT = "adopt"
    EDIT = "edit"
    UNDO = "undo"
    IMPORT = "import"
    INGEST = "ingest"
    SYNC = "sync"
    PURGE = "purge"
    RELEASE = "release"
    SPACE = "space"


Stat = tuple[int, int, int]
"""(bytes, mtime in nanoseconds, inode) of a file: as long as it has these, it has the bytes it had."""


class Change(Struct, frozen=True):
    """One file of an op. `path` is posix and relative to the vault's root; `old` is the sha256 (hex) of the bytes
    that it replaced, None where there was no file; `data` is the new content, None where the file went away."""

    path: str
    node_id: str | None
    old: str | None
    data: bytes | None
    stat: Stat | None = None
    """Of the file with `data`, as it was put in its place; None: not known."""
    apart: bool = False
    """Whether the history has something else than the folder: `held`, or no such file (None)."""
    held: bytes | None = None

    @property
    def in_history(self) -> bytes | None:
        """What the op's commit has at the path."""
        return self.held if self.apart else self.data


class Committed(Struct, frozen=True):
    """An op that is in the history."""

    op: str
    commit: str
    kind: Kind
    source: str
    subject: str
    time: datetime
    changes: tuple[Change, ...]
    parent: str | None = None
    """The commit it was put on; None: the first one, or it is not known any more."""


def sha256(data: bytes) -> str:
    """The digest by which versions of a file are told apart (the same as `note.note.digest`)."""
    return hashlib.sha256(data).hexdigest()


_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
OP_LENGTH = 26


class OpIds:
    """Ids that sort by time: 48 bits of milliseconds and 80 random bits in Crockford's base 32, as in a ULID but in
    lower case. Within a process each is greater than the one before, also when the clock stands or goes back."""

    def __init__(self, clock: Clock, entropy: Entropy = secrets.token_bytes) -> None:
        self._clock = clock
        self._entropy = entropy
        self._last = 0
        self._lock = threading.Lock()

    def __call__(self) -> str:
        with self._lock:
            drawn = (int(self._clock().timestamp() * 1000) << 80) | int.from_bytes(self._entropy(10), "big")
            self._last = max(drawn, self._last + 1)
            value = self._last
        return "".join(_ALPHABET[(value >> shift) & 31] for shift in range(5 * (OP_LENGTH - 1), -1, -5))


def is_op(text: str) -> bool:
    return len(text) == OP_LENGTH and set(text) <= set(_ALPHABET)
