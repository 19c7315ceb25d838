"""SQLite: connections, statements that read or write many rows at once, and the files of a database.

Python's sqlite3 module releases the GIL at each row. Getting it back is slow while other threads are busy, so that
reading row by row takes many times as long. The databases can be rebuilt (index, state): functions here handle their
log files, obstacles at their paths, and their errors.
"""

from __future__ import annotations

import bisect
import itertools
import sqlite3
from collections.abc import Callable, Collection, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from ormahd.process import own_files

_LOG: Final = ("-wal", "-shm")
"""Suffixes of the files that SQLite keeps beside a database."""


class DatabaseFault(StrEnum):
    DAMAGED = "damaged"
    """The file is corrupt: it is set aside, and a new one is created."""
    NO_ROOM = "no room"
    """The disk is full, read-only or failing: existing data is intact, but nothing more can be written."""
    OTHER = "other"


_DAMAGED: Final = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT, sqlite3.SQLITE_CANTOPEN}
_NO_ROOM: Final = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR}
_SHORT: Final = {sqlite3.SQLITE_IOERR_SHORT_READ, sqlite3.SQLITE_READONLY_DBMOVED}
"""The file was truncated, or replaced by another one."""
_SAID: Final = ("no such table", "could not decode", "malformed", "not a database")


def fault_of(error: sqlite3.Error) -> DatabaseFault:
    """Return what `error` says about the database file."""
    code = getattr(error, "sqlite_errorcode", 0)
    said = str(error).lower()
    if code in _SHORT or code & 0xFF in _DAMAGED or any(words in said for words in _SAID):
        return DatabaseFault.DAMAGED
    if code & 0xFF in _NO_ROOM:
        return DatabaseFault.NO_ROOM
    return DatabaseFault.OTHER


def files(path: Path) -> list[Path]:
    """Return the paths of the database and of SQLite's files beside it, whether they exist or not."""
    return [path.with_name(path.name + end) for end in ("", *_LOG)]


def drop_log(path: Path) -> None:
    """Delete SQLite's files beside the database. Raises OSError."""
    for file in files(path)[1:]:
        own_files.remove(file)


def clear(path: Path) -> list[str]:
    """Create the database's folder, and set aside whatever is at the paths of its files and is not a file.

    A log without its database is deleted, because SQLite would apply it to a new database. Returns a sentence about
    each thing set aside. Raises OSError.
    """
    said = [own_files.make_way_for_folder(path.parent)]
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    said += [own_files.make_way(file) for file in files(path)]
    if own_files.kind(path) is None:
        drop_log(path)
    return [sentence for sentence in said if sentence is not None]


def identity(path: Path) -> tuple[int, int] | None:
    """Return the device and inode of the file, to detect its replacement; None if it does not exist."""
    try:
        found = path.lstat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


T = TypeVar("T")

Snapshot = Callable[[], sqlite3.Connection]
"""Returns a connection with a read snapshot. The snapshot begins at the first call, so that answers from memory need
none."""

SOME = 500
"""The most ids in one `IN (…)`."""
SIZES = (1, 2, 4, 8, 16, 32, 64, 125, 250, SOME)
"""The allowed numbers of ids in an `IN (…)`. With few different statements SQLite's statement cache is used, and
compiling is saved."""
VALUES = 900
"""The most parameters in one statement: older SQLite allows 999."""


def exact(number: str) -> str:
    """Return SQL for a floating-point column as text with full precision: JSON and SQLite's own texts have only 15
    digits."""
    return f"printf('%!.17g', {number})"


def marks(values: Collection[object]) -> str:
    """Return the question marks for an `IN (…)`."""
    return ", ".join("?" * len(values))


def chunks(values: Sequence[T], size: int = SOME) -> list[Sequence[T]]:
    """Split `values`, because SQLite limits the number of parameters in one statement."""
    return [values[at : at + size] for at in range(0, len(values), size)]


def sets(values: Sequence[T], size: int = SOME) -> list[Sequence[T]]:
    """Like `chunks`, for an `IN (…)`: each chunk is padded to one of `SIZES` by repeating its last value, which
    changes no result."""
    return [_filled(some) for some in chunks(values, size)]


def _filled(some: Sequence[T]) -> Sequence[T]:
    wanted = SIZES[bisect.bisect_left(SIZES, len(some))]
    return some if len(some) == wanted else [*some, *[some[-1]] * (wanted - len(some))]


def table(connection: sqlite3.Connection, names: Sequence[str], rest: str, values: Sequence[object]) -> list[list[Any]]:
    """Return the rows of `SELECT {names} {rest}`, in any order: texts, integers, NULL; floating-point numbers
    through `exact`."""
    found = connection.execute(f"SELECT json_group_array(json_array({', '.join(names)})) {rest}", values).fetchone()
    return msgspec.json.decode(found[0], type=list[list[Any]])


def put(connection: sqlite3.Connection, into: str, rows: Sequence[Sequence[object]], *, more: str = "") -> None:
    """Execute `{into} VALUES (…), (…), … {more}` for rows of equal length."""
    for some in chunks(rows, VALUES // len(rows[0])) if rows else ():
        one = f"({marks(rows[0])})"
        connection.execute(f"{into} VALUES {', '.join([one] * len(some))} {more}", [*itertools.chain(*some)])


def among(
    connection: sqlite3.Connection, statement: str, values: Sequence[object], *, first: Sequence[object] = ()
) -> None:
    """Execute a statement that ends in `IN` for all `values`; `first`: the parameters before them."""
    for some in sets(values):
        connection.execute(f"{statement} ({marks(some)})", (*first, *some))


def columns(
    connection: sqlite3.Connection, names: Sequence[str], rest: str, values: Sequence[object]
) -> list[list[str]]:
    """Return these columns of the rows of `SELECT … {rest}` as lists of texts, in the same order.

    The values must be numbers, or texts without spaces, and never NULL.
    """
    joined = ", ".join(f"group_concat({name}, ' ')" for name in names)
    found = connection.execute(f"SELECT {joined} {rest}", values).fetchone()
    return [[] if text is None else text.split(" ") for text in found]


def lookup(connection: sqlite3.Connection, key: str, value: str, rest: str, values: Sequence[object]) -> dict[str, int]:
    """Return `{text without spaces: integer}` from two columns."""
    keys, numbers = columns(connection, (key, value), rest, values)
    return dict(zip(keys, map(int, numbers), strict=True))


def scored(
    connection: sqlite3.Connection, select: str, values: Sequence[object]
) -> tuple[list[str], NDArray[np.float64]]:
    """Return the keys (as in `columns`) and scores of the rows of `select`, in order. Scores are exact to 1e-15;
    equal ones stay equal."""
    # The inner LIMIT keeps SQLite from flattening the subquery: bm25 is not allowed in an aggregate query.
    found = connection.execute(
        f"SELECT group_concat(key, ' '), group_concat({exact('score')}, ' ') FROM (SELECT * FROM ({select}) LIMIT -1)",
        values,
    ).fetchone()
    if found[0] is None:
        return [], np.empty(0, np.float64)
    # Not np.fromstring, which acquires the GIL for each number.
    return found[0].split(" "), np.fromiter(map(float, found[1].split(" ")), np.float64)


def blobs(connection: sqlite3.Connection, key: str, blob: str, rest: str, values: Sequence[object]) -> dict[int, bytes]:
    """Return `{integer: bytes}` from two columns."""
    keys, lengths, joined = connection.execute(
        f"SELECT group_concat({key}, ' '), group_concat(length({blob}), ' '), CAST(group_concat({blob}, '') AS BLOB) {rest}",
        values,
    ).fetchone()
    if keys is None:
        return {}
    ends = itertools.accumulate(map(int, lengths.split(" ")), initial=0)
    return {
        int(name): joined[begin:end]
        for name, (begin, end) in zip(keys.split(" "), itertools.pairwise(ends), strict=True)
    }
