"""SQLite: statements that read or write many rows at once, and the files and errors of a database.

Python's sqlite3 module releases the GIL at each row. Getting it back is slow while other threads are busy, so that
reading row by row takes many times as long. Functions here therefore read many rows as one value. Others deal with a
database's log files, with things in the place of its files, and with its errors.
"""

from __future__ import annotations

import bisect
import itertools
import os
import sqlite3
from collections.abc import Callable, Collection, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from ormahd.errors import NoRoom, Unavailable
from ormahd.process import own_files

_LOG: Final = ("-wal", "-shm")
"""Suffixes of the files that SQLite keeps beside a database."""


class DatabaseFault(StrEnum):
    DAMAGED = "damaged"
    """The file is corrupt, truncated or replaced: it is set aside, and a new one is created."""
    NO_ROOM = "no room"
    """The disk is full, read-only or failing: existing data is intact, but nothing more can be written."""
    OTHER = "other"


_DAMAGED: Final = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT, sqlite3.SQLITE_CANTOPEN}
_NO_ROOM: Final = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR}
_SHORT: Final = {sqlite3.SQLITE_IOERR_SHORT_READ, sqlite3.SQLITE_READONLY_DBMOVED}
"""The file was truncated, or replaced by another one."""
_DAMAGED_MESSAGES: Final = ("no such table", "could not decode", "malformed", "not a database")


def fault_of(error: sqlite3.Error | OSError) -> DatabaseFault:
    """Return which fault of the database file, or of its disk, `error` shows."""
    code = getattr(error, "sqlite_errorcode", 0)
    message = str(error).lower()
    if code in _SHORT or code & 0xFF in _DAMAGED or any(words in message for words in _DAMAGED_MESSAGES):
        return DatabaseFault.DAMAGED
    if code & 0xFF in _NO_ROOM or own_files.is_full(error):
        return DatabaseFault.NO_ROOM
    return DatabaseFault.OTHER


def files(path: Path) -> list[Path]:
    """Return the paths of the database `path` and of SQLite's log files beside it, whether they exist or not."""
    return [path.with_name(path.name + end) for end in ("", *_LOG)]


def set_aside(path: Path) -> str:
    """Rename the damaged database at `path`, and delete its log files. It replaces one that was renamed earlier. Return
    a clause that says so; "" if there is no file.

    Raises:
        OSError: the system refused it.
    """
    clause = f"; it was set aside as {own_files.set_aside(path).name}" if os.path.lexists(path) else ""
    drop_log(path)
    return clause


def open_or_begin_anew(path: Path, connect: Callable[[], sqlite3.Connection]) -> tuple[sqlite3.Connection, str | None]:
    """Open the database `path` by calling `connect`, which creates one if there is none. A damaged one is moved aside
    before.

    Return (connection, why a damaged one was moved aside; None if there was none).

    Raises:
        NoRoom: the disk is full.
        Unavailable: no file can be used there.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            return connect(), None
        except sqlite3.DatabaseError as error:
            if fault_of(error) is not DatabaseFault.DAMAGED:
                raise
            why = f"SQLite cannot read it ({error}){set_aside(path)}"
            return connect(), why
    except (OSError, sqlite3.Error) as error:
        if fault_of(error) is DatabaseFault.NO_ROOM:
            raise no_room(path, error) from error
        hint = "make it writable for the user that runs the daemon"
        raise Unavailable(f"{path} cannot be used: {error}", hint=hint) from error


def no_room(path: Path, error: Exception) -> NoRoom:
    """Return the error for a database that cannot be written because of its disk."""
    message = f"{path} cannot be written ({error}): {own_files.room(path.parent)}"
    return NoRoom(message, hint="make room and repeat", data={"reason": "no_room"})


def drop_log(path: Path) -> None:
    """Delete SQLite's log files beside the database `path`. Raises OSError."""
    for file in files(path)[1:]:
        own_files.remove(file)


T = TypeVar("T")

SOME = 500
"""The largest number of values in one `IN (…)`."""
SIZES = (1, 2, 4, 8, 16, 32, 64, 125, 250, SOME)
"""The only numbers of values that an `IN (…)` has. So there are few different statements, which stay compiled in the
statement cache."""
VALUES = 900
"""The largest number of parameters in one statement; older versions of SQLite allow 999."""


def exact(number: str) -> str:
    """Return an SQL expression for the floating-point expression `number` as text with 17 digits, which is exact.

    JSON functions and casts of SQLite give only 15.
    """
    return f"printf('%!.17g', {number})"


def marks(values: Collection[object]) -> str:
    """Return as many question marks as there are `values`, for an `IN (…)`."""
    return ", ".join("?" * len(values))


def chunks(values: Sequence[T], size: int = SOME) -> list[Sequence[T]]:
    """Split `values` into parts of at most `size`, because SQLite limits the number of parameters of a statement."""
    return [values[at : at + size] for at in range(0, len(values), size)]


def sets(values: Sequence[T], size: int = SOME) -> list[Sequence[T]]:
    """Split `values` into parts for an `IN (…)`. Each part is extended to one of `SIZES` by repeating its last value,
    which changes no result."""
    parts = []
    for chunk in chunks(values, size):
        missing = SIZES[bisect.bisect_left(SIZES, len(chunk))] - len(chunk)
        parts.append([*chunk, *[chunk[-1]] * missing] if missing else chunk)
    return parts


def table(connection: sqlite3.Connection, names: Sequence[str], rest: str, values: Sequence[object]) -> list[list[Any]]:
    """Return the rows of `SELECT {names} {rest}`, in any order. `values`: the parameters. The columns hold texts,
    integers or NULL; wrap floating-point columns in `exact`."""
    found = connection.execute(f"SELECT json_group_array(json_array({', '.join(names)})) {rest}", values).fetchone()
    return msgspec.json.decode(found[0], type=list[list[Any]])


def put(connection: sqlite3.Connection, into: str, rows: Sequence[Sequence[object]], *, more: str = "") -> None:
    """Execute `{into} VALUES (…), (…), … {more}` for `rows`, which have equal lengths."""
    for chunk in chunks(rows, VALUES // len(rows[0])) if rows else ():
        row = f"({marks(rows[0])})"
        connection.execute(f"{into} VALUES {', '.join([row] * len(chunk))} {more}", [*itertools.chain(*chunk)])


def among(
    connection: sqlite3.Connection, statement: str, values: Sequence[object], *, first: Sequence[object] = ()
) -> None:
    """Execute `statement`, which ends in `IN`, for all `values`, in several parts if there are many. `first`: the
    statement's earlier parameters."""
    for chunk in sets(values):
        connection.execute(f"{statement} ({marks(chunk)})", (*first, *chunk))


def columns(
    connection: sqlite3.Connection, names: Sequence[str], rest: str, values: Sequence[object]
) -> list[list[str]]:
    """Return the columns `names` of the rows of `SELECT … {rest}`: one list of texts for each column, all in the same
    order. `values`: the parameters.

    The columns must hold numbers, or texts without spaces, and never NULL.
    """
    joined = ", ".join(f"group_concat({name}, ' ')" for name in names)
    found = connection.execute(f"SELECT {joined} {rest}", values).fetchone()
    return [[] if text is None else text.split(" ") for text in found]


def lookup(connection: sqlite3.Connection, key: str, value: str, rest: str, values: Sequence[object]) -> dict[str, int]:
    """Return `{key: value}` of the rows of `SELECT {key}, {value} {rest}`. Keys are texts without spaces, values
    integers."""
    keys, numbers = columns(connection, (key, value), rest, values)
    return dict(zip(keys, map(int, numbers), strict=True))


def scored(
    connection: sqlite3.Connection, select: str, values: Sequence[object]
) -> tuple[list[str], NDArray[np.float64]]:
    """Return (keys, scores) of the rows of the query `select`, in its order. It must have the columns `key` and
    `score`.

    Keys are texts without spaces. Scores are exact, so that equal ones stay equal.
    """
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
    """Return `{key: blob}` of the rows of `SELECT {key}, {blob} {rest}`. Keys are integers, values bytes."""
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
