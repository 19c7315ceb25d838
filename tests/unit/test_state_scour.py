"""The state forgets rows that hold something, whatever table they are in, and their bytes too."""

from datetime import UTC, datetime
from pathlib import Path

from ormahd.note.forgetting import Forgotten
from ormahd.state.state import State

NOW = datetime(2026, 11, 21, 20, tzinfo=UTC)


def test_rows_and_bytes_go(tmp_path: Path) -> None:
    state = State(tmp_path, clock=lambda: NOW)
    state.touch(["going", "staying", "going"], how="recall", session_id="s")
    state.answered("r1", "agent.get", "digest", b"\x00the zebrafish\xff")
    state.answered("r2", "agent.get", "digest", b"another")
    (tmp_path / "state.sqlite3.damaged").write_bytes(b"zebrafish")
    with state.transaction() as db:
        db.execute("PRAGMA defer_foreign_keys = ON")
        tables = [row[0] for row in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        for table in tables:
            columns = db.execute(f"PRAGMA table_info({table})").fetchall()
            values = ["a zebrafish" if row[2] == "TEXT" else b"zebrafish" if row[2] == "BLOB" else 7 for row in columns]
            db.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(values))})", values)

    wanted = Forgotten(secrets=("zebrafish", "going"))
    assert state.scour(wanted, change=False) == len(tables) + 3
    assert state.scour(wanted, change=True) == len(tables) + 1, "two went with the rows that they belong to"
    assert [row[1] for row in state.accesses()] == ["staying"]
    assert state.answer("r1") is None
    assert state.answer("r2") == ("agent.get", "digest", b"another")
    left = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert b"zebrafish" not in left
    assert b"going" not in left
    state.touch(["later"], how="get", session_id=None)
    state.close()
