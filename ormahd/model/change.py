"""Values of a transaction: kinds, changes, commits, and the sortable ids of ops. No I/O.

Also the state of a file of the vault when it was read, and the findings of `doctor`.
"""

from __future__ import annotations

import hashlib
import secrets
import threading
from collections.abc import Callable
from datetime import datetime
from enum import StrEnum
from typing import Any

from msgspec import Struct


class FileState(Struct, frozen=True):
    """The state of a file when it was read. It shows whether the file changed since, without reading it again.

    `path` is posix and relative to the vault; `digest` is the sha256 (hex) of the bytes on disk.
    """

    path: str
    size: int
    mtime_ns: int
    inode: int
    digest: str


def finding(path: str | None, level: str, what: str, mend: str, line: int | None = None) -> dict[str, Any]:
    """Return one problem that `doctor` found, in the form of its reply. `what`: the problem. `mend`: how a person can
    solve it."""
    return {"level": level, "what": what, "path": path, "line": line, "mend": mend}


Clock = Callable[[], datetime]
"""Returns the present as an aware UTC datetime."""
Entropy = Callable[[int], bytes]
"""Returns that many random bytes (`secrets.token_bytes`)."""


class Kind(StrEnum):
    """The kind of an op, as written in the trailer `Ormah-Kind` of its commit."""

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
    EDIT = "edit"
    UNDO = "undo"
    IMPORT = "import"
    INGEST = "ingest"
    SYNC = "sync"
    PURGE = "purge"
    SPACE = "space"


Stat = tuple[int, int, int]
"""(bytes, mtime in nanoseconds, inode): files with equal values are taken to have the same content."""


class ChangedFile(Struct, frozen=True):
    """One file of an op.

    `path` is posix and relative to the vault. `old` is the sha256 (hex) of the replaced bytes, None for a new file.
    `data` is the new content, None for a removed file.
    """

    path: str
    node_id: str | None
    old: str | None
    data: bytes | None
    stat: Stat | None = None
    """The stat of the file after `data` was written; None if unknown."""


class Committed(Struct, frozen=True):
    """An op that was committed, with the files that it changed."""

    op: str
    commit: str
    kind: Kind
    source: str
    subject: str
    time: datetime
    changes: tuple[ChangedFile, ...]
    parent: str | None = None
    """The parent commit; None for the first commit, or if it is unknown."""


def sha256(data: bytes) -> str:
    """Return the sha256 of `data` (hex), which identifies a version of a file."""
    return hashlib.sha256(data).hexdigest()


_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
OP_LENGTH = 26


class OpIds:
    """Generates ids that sort by time: lower-case ULIDs (48 bits of milliseconds and 80 random bits in Crockford's
    base 32).

    Within a process each id is greater than the one before, even if the clock goes back.
    """

    def __init__(self, clock: Clock, entropy: Entropy = secrets.token_bytes) -> None:
        self._clock = clock
        self._entropy = entropy
        self._last = 0
        self._lock = threading.Lock()

    def __call__(self) -> str:
        """Return a new id, greater than all before."""
        with self._lock:
            drawn = (int(self._clock().timestamp() * 1000) << 80) | int.from_bytes(self._entropy(10), "big")
            self._last = max(drawn, self._last + 1)
            value = self._last
        return "".join(_ALPHABET[(value >> shift) & 31] for shift in range(5 * (OP_LENGTH - 1), -1, -5))


def is_op(text: str) -> bool:
    """Return whether `text` has the form of an op id."""
    return len(text) == OP_LENGTH and set(text) <= set(_ALPHABET)
