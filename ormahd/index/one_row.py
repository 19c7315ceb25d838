"""Many rows of SQLite read as one: Python's module gives the interpreter away at each row, and then waits for it.

Where nobody else wants it that costs nothing; beside three busy threads a hundred notes' tokens took 10 to 90 ms row by row
and take 5 in one, and a word of 700 notes 560 and 43 (alone 0.1 and 0.5, 0.6 and 0.8).
"""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def columns(
    connection: sqlite3.Connection, names: Sequence[str], rest: str, values: Sequence[object]
) -> list[list[str]]:
    """Each of these columns of the rows of `SELECT … {rest}`, aligned with each other, as texts: of numbers, or of texts without
    spaces; never NULL."""
    joined = ", ".join(f"group_concat({name}, ' ')" for name in names)
    found = connection.execute(f"SELECT {joined} {rest}", values).fetchone()
    return [[] if text is None else text.split(" ") for text in found]


def scored(
    connection: sqlite3.Connection, select: str, values: Sequence[object]
) -> tuple[list[str], NDArray[np.float64]]:
    """The rows of `select`, in their order: key (as in `columns`) and score, within 1e-15 of itself; equal ones stay equal."""
    # With a limit of its own SQLite keeps it apart: bm25 has no place in a query that aggregates.
    found = connection.execute(
        f"SELECT group_concat(key, ' '), group_concat(printf('%!.17g', score), ' ') FROM (SELECT * FROM ({select}) LIMIT -1)",
        values,
    ).fetchone()
    if found[0] is None:
        return [], np.empty(0, np.float64)
    return found[0].split(" "), np.fromstring(found[1], np.float64, sep=" ")


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
