"""Many rows of SQLite read as one, or written by one statement: Python's module gives the interpreter away at each row, and then
waits for it.

Where nobody else wants it that costs nothing; beside three busy threads a hundred notes' tokens took 10 to 90 ms row by row
and take 5 in one, and a word of 700 notes 560 and 43 (alone 0.1 and 0.5, 0.6 and 0.8).
"""

from __future__ import annotations

import bisect
import itertools
import sqlite3
from collections.abc import Callable, Collection, Sequence
from typing import Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")

Snapshot = Callable[[], sqlite3.Connection]
"""A connection on one snapshot, from when it is first asked for: what is answered from memory begins none."""

SOME = 500
"""Ids in one `IN (…)`."""
SIZES = (1, 2, 4, 8, 16, 32, 64, 125, 250, SOME)
"""Ids in the `IN (…)` of a statement: with as many as there happen to be nearly every statement is a new one to SQLite, and to compile
one takes a tenth of a millisecond, half of what these take in all."""
VALUES = 900
"""Parameters in one statement: older SQLite takes 999."""


def exact(number: str) -> str:
    """A column of numbers with a fraction as texts that tell all of it: JSON, and SQLite's own texts, have 15 digits."""
    return f"printf('%!.17g', {number})"


def marks(values: Collection[object]) -> str:
    """Question marks for an `IN (…)`."""
    return ", ".join("?" * len(values))


def chunks(values: Sequence[T], size: int = SOME) -> list[Sequence[T]]:
    """SQLite takes a limited number of parameters in one statement."""
    return [values[at : at + size] for at in range(0, len(values), size)]


def sets(values: Sequence[T], size: int = SOME) -> list[Sequence[T]]:
    """`chunks` for an `IN (…)`, each filled up by its last value to one of `SIZES`: to SQLite a set, in which it counts once."""
    return [_filled(some) for some in chunks(values, size)]


def _filled(some: Sequence[T]) -> Sequence[T]:
    wanted = SIZES[bisect.bisect_left(SIZES, len(some))]
    return some if len(some) == wanted else [*some, *[some[-1]] * (wanted - len(some))]


def table(connection: sqlite3.Connection, names: Sequence[str], rest: str, values: Sequence[object]) -> list[list[Any]]:
    """The rows of `SELECT {names} {rest}`, in any order: texts, integers, NULL; numbers with a fraction through `exact`."""
    found = connection.execute(f"SELECT json_group_array(json_array({', '.join(names)})) {rest}", values).fetchone()
    return msgspec.json.decode(found[0], type=list[list[Any]])


def put(connection: sqlite3.Connection, into: str, rows: Sequence[Sequence[object]], *, more: str = "") -> None:
    """`{into} VALUES (…), (…), … {more}`, all rows equally long."""
    for some in chunks(rows, VALUES // len(rows[0])) if rows else ():
        one = f"({marks(rows[0])})"
        connection.execute(f"{into} VALUES {', '.join([one] * len(some))} {more}", [*itertools.chain(*some)])


def among(
    connection: sqlite3.Connection, statement: str, values: Sequence[object], *, first: Sequence[object] = ()
) -> None:
    """A statement that ends in `IN`, for all these values; `first`: those of parameters before it."""
    for some in sets(values):
        connection.execute(f"{statement} ({marks(some)})", (*first, *some))


def columns(
    connection: sqlite3.Connection, names: Sequence[str], rest: str, values: Sequence[object]
) -> list[list[str]]:
    """Each of these columns of the rows of `SELECT … {rest}`, aligned with each other, as texts: of numbers, or of texts without
    spaces; never NULL."""
    joined = ", ".join(f"group_concat({name}, ' ')" for name in names)
    found = connection.execute(f"SELECT {joined} {rest}", values).fetchone()
    return [[] if text is None else text.split(" ") for text in found]


def lookup(connection: sqlite3.Connection, key: str, value: str, rest: str, values: Sequence[object]) -> dict[str, int]:
    """By a column of texts without spaces a column of integers."""
    keys, numbers = columns(connection, (key, value), rest, values)
    return dict(zip(keys, map(int, numbers), strict=True))


def scored(
    connection: sqlite3.Connection, select: str, values: Sequence[object]
) -> tuple[list[str], NDArray[np.float64]]:
    """The rows of `select`, in their order: key (as in `columns`) and score, within 1e-15 of itself; equal ones stay equal."""
    # With a limit of its own SQLite keeps it apart: bm25 has no place in a query that aggregates.
    found = connection.execute(
        f"SELECT group_concat(key, ' '), group_concat({exact('score')}, ' ') FROM (SELECT * FROM ({select}) LIMIT -1)",
        values,
    ).fetchone()
    if found[0] is None:
        return [], np.empty(0, np.float64)
    # Not np.fromstring, which takes the interpreter anew for each number.
    return found[0].split(" "), np.fromiter(map(float, found[1].split(" ")), np.float64)


def blobs(connection: sqlite3.Connection, key: str, blob: str, rest: str, values: Sequence[object]) -> dict[int, bytes]:
    """By an integer column a column of bytes."""
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
