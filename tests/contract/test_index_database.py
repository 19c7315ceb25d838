"""The index's file among other processes: a shell, a backup or a viewer may open it while the daemon has it."""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

from ormahd.index.database import Database

LOOK = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
print(db.execute("SELECT count(*) FROM file").fetchone()[0])
db.close()
"""


def looked_at_by_somebody_else(path: Path) -> str:
    return subprocess.run([sys.executable, "-c", LOOK, path], capture_output=True, text=True, check=True).stdout.strip()


def test_somebody_elses_look_takes_no_log_away(tmp_path: Path) -> None:
    """Who closes a database as its last user deletes the log; we are there, whatever we have opened before."""
    database = Database(tmp_path)
    with ExitStack() as readers:
        for _ in range(4):  # each opens another connection
            readers.enter_context(database.read())
    with database.write() as connection:
        connection.execute("INSERT INTO meta VALUES ('mine', 'written')")
    log = tmp_path / "index.sqlite3-wal"
    before = log.stat().st_ino
    assert looked_at_by_somebody_else(database.path) == "0"
    assert log.stat().st_ino == before
    assert log.stat().st_size > 0
    with ExitStack() as readers:
        for _ in range(6):
            connection = readers.enter_context(database.read())
            assert connection.execute("SELECT value FROM meta WHERE key = 'mine'").fetchone() == ("written",)
    database.close()
