"""Rows read as one row are the same rows."""

from __future__ import annotations

import contextlib
import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ormahd.process import sql

SCORES = st.floats(1e-9, 1e3) | st.floats(-1e3, -1e-9) | st.just(0.0)
"""As bm25 has them."""


@pytest.fixture(scope="module")
def memory():
    connection = sqlite3.connect(":memory:")
    connection.execute(
        "CREATE TABLE t (number INTEGER PRIMARY KEY, id TEXT NOT NULL, score REAL NOT NULL, bytes BLOB NOT NULL)"
    )
    yield connection
    connection.close()


def fill(connection: sqlite3.Connection, rows: list[tuple[float, bytes]]) -> None:
    connection.execute("DELETE FROM t")
    connection.executemany(
        "INSERT INTO t VALUES (?, ?, ?, ?)",
        [(7 * at, f"n-{at}", score, data) for at, (score, data) in enumerate(rows)],
    )


@given(rows=st.lists(st.tuples(SCORES, st.binary(max_size=40)), max_size=30))
def test_what_is_read_in_one_row_is_what_the_rows_have(memory, rows):
    fill(memory, rows)
    where, above = "FROM t WHERE number >= ?", (0,)
    numbers, ids = sql.columns(memory, ("number", "id"), where, above)
    assert list(zip(map(int, numbers), ids, strict=True)) == memory.execute("SELECT number, id FROM t").fetchall()
    assert sql.blobs(memory, "number", "bytes", where, above) == dict(
        memory.execute("SELECT number, bytes FROM t").fetchall()
    )
    keys, scores = sql.scored(memory, f"SELECT id AS key, score {where} ORDER BY score, number", above)
    wanted = memory.execute("SELECT id, score FROM t ORDER BY score, number").fetchall()
    assert keys == [row[0] for row in wanted]
    assert scores.tolist() == pytest.approx([row[1] for row in wanted], rel=1e-15, abs=0.0)


def test_of_no_rows_it_is_nothing(memory):
    fill(memory, [])
    assert sql.columns(memory, ("number", "id"), "FROM t", ()) == [[], []]
    assert sql.blobs(memory, "number", "bytes", "FROM t", ()) == {}
    keys, scores = sql.scored(memory, "SELECT id AS key, score FROM t", ())
    assert (keys, scores.tolist()) == ([], [])


def test_bytes_that_end_a_text_or_are_no_text_at_all_stay(memory):
    fill(memory, [(0.0, b"\x00a\x00\x00"), (0.0, b""), (0.0, b"\xff\xfe\x80"), (0.0, bytes(range(256)) * 500)])
    found = sql.blobs(memory, "number", "bytes", "FROM t", ())
    assert [found[7 * at] for at in range(4)] == [b"\x00a\x00\x00", b"", b"\xff\xfe\x80", bytes(range(256)) * 500]


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30) | st.sampled_from(
    ["", "[]", '{"a": 1}', "\x00", "a\x00b", '"\\']
)
VALUES = st.none() | TEXTS | st.integers(-(2**63), 2**63 - 1)


@given(rows=st.lists(st.tuples(VALUES, VALUES), max_size=500))
def test_what_is_written_and_read_as_one_is_what_was_given(rows):
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE t (number INTEGER PRIMARY KEY, a, b)")
        numbered = [(at, *row) for at, row in enumerate(rows)]
        sql.put(connection, "INSERT INTO t", numbered)
        assert connection.execute("SELECT * FROM t ORDER BY number").fetchall() == numbered
        assert sorted(map(tuple, sql.table(connection, ("number", "a", "b"), "FROM t", ()))) == numbered
        sql.put(
            connection, "INSERT INTO t", [(*row[:2], None) for row in numbered],
            more="ON CONFLICT DO UPDATE SET b = excluded.b",
        )  # fmt: skip
        sql.among(connection, "UPDATE t SET b = ? WHERE number IN", [row[0] for row in numbered[::2]], first=("even",))
        wanted = [(number, a, None if number % 2 else "even") for number, a, _ in numbered]
        assert connection.execute("SELECT * FROM t ORDER BY number").fetchall() == wanted
        sql.among(connection, "DELETE FROM t WHERE number IN", [row[0] for row in numbered])
        assert connection.execute("SELECT count(*) FROM t").fetchone() == (0,)


def test_a_thousand_rows_of_many_columns_are_more_than_one_statement_takes():
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(f"CREATE TABLE t ({', '.join(f'c{at}' for at in range(17))})")
        rows = [tuple(range(at, at + 17)) for at in range(1000)]
        sql.put(connection, "INSERT INTO t", rows)
        assert connection.execute("SELECT * FROM t ORDER BY 1").fetchall() == rows


@given(st.integers(0, 1200))
def test_sets_hold_the_same_and_come_in_few_sizes(count: int) -> None:
    values = list(range(count))
    found = sql.sets(values)
    assert [*dict.fromkeys(value for some in found for value in some)] == values
    assert {len(some) for some in found} <= set(sql.SIZES)
    assert all(len(some) <= 250 for some in sql.sets(values, 250))
