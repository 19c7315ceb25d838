"""The index's file while it is in use: damaged, gone, written to by others, on a disk without room."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from ormahd.errors import BegunAnew, NoRoom
from ormahd.index.database import Database
from ormahd.index.write import NODES
from ormahd.process import own_files
from ormahd.process.sql import DatabaseFault, fault_of
from tests import small_disk


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    made = Database(tmp_path / "index")
    with made.write() as connection:
        connection.execute("INSERT INTO meta VALUES ('mine', 'written')")
    yield made
    made.close()


def mine(database: Database) -> str | None:
    with database.ask() as connection:
        row = connection.execute("SELECT value FROM meta WHERE key = 'mine'").fetchone()
    return None if row is None else str(row[0])


def test_one_that_is_begun_anew_is_empty_and_the_old_one_is_kept(database: Database) -> None:
    with database.read() as reader:
        database.begin_anew("somebody garbled it")
        assert reader.execute("SELECT count(*) FROM meta WHERE key = 'mine'").fetchone() == (1,), "readers end in peace"
    assert mine(database) is None
    (aside,) = own_files.asides(database.directory)
    assert f"somebody garbled it; it was set aside as {aside.name}" == database.dropped
    database.begin_anew("again")
    assert len(own_files.asides(database.directory)) == 1, "one is enough"


def test_a_file_that_was_taken_away_is_not_made_anew_by_the_next_reader(database: Database) -> None:
    database.path.unlink()
    assert "was taken away" in (database.suspicion() or "")
    told: list[str] = []
    database.found_damaged = told.append
    with pytest.raises(BegunAnew), database.read():
        pass
    assert told
    assert not database.path.exists()


def test_what_another_program_writes_is_noticed_once(database: Database) -> None:
    assert database.suspicion() is None
    other = sqlite3.connect(database.path)
    with other:
        other.execute("DELETE FROM meta WHERE key = 'mine'")
    other.close()
    assert "another program wrote" in (database.suspicion() or "")
    assert database.suspicion() is None
    with database.write() as connection:
        connection.execute("INSERT INTO meta VALUES ('ours', 'is no suspicion')")
    assert database.suspicion() is None


@pytest.mark.parametrize(
    ("damage", "found"),
    [
        ("INSERT INTO text VALUES (7, 'nobody')", "texts of no file"),
        ("INSERT INTO embedded VALUES (1, 'x', 9)", "embeddings without vectors"),
        ("INSERT INTO file VALUES (1, 'a.md', 1, 1, 1, 'd', 'note', 'x', 'b')", "files without their text"),
    ],
)
def test_rows_that_do_not_fit_are_found(database: Database, damage: str, found: str) -> None:
    assert database.check() is None
    with database.write() as connection:
        connection.execute(damage)
    assert found in (database.check() or "")


@pytest.mark.parametrize("kind", sorted(NODES))
def test_memories_of_every_kind_have_a_row(database: Database, kind: str) -> None:
    with database.write() as connection:
        connection.execute("INSERT INTO file VALUES (1, 'a.md', 1, 1, 1, 'd', ?, 'x', 'b')", (kind,))
        connection.execute("INSERT INTO text VALUES (1, 'birch')")
        connection.execute("INSERT INTO words (rowid, title, content, tags) VALUES (1, 'a', 'birch', '')")
    assert "1 memories without a row" in (database.check() or "")


def test_without_room_it_goes_on_in_memory_and_back(database: Database) -> None:
    assert database.into_memory("the disk is full")
    assert "the disk is full" in (database.trouble or "")
    with database.read(), database.read():
        assert mine(database) == "written"
    with database.write() as connection:
        connection.execute("UPDATE meta SET value = 'in memory' WHERE key = 'mine'")
    assert mine(database) == "in memory"
    assert not database.into_memory("once more")
    assert database.back_to_file()
    assert mine(database) == "in memory", "the file has what was written meanwhile"
    assert database.trouble is None
    assert database.suspicion() is None
    with database.write() as connection:
        connection.execute("UPDATE meta SET value = 'in the file' WHERE key = 'mine'")
    assert mine(database) == "in the file"
    assert database.check() is None
    again = sqlite3.connect(database.path)
    assert again.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert again.execute("SELECT value FROM meta WHERE key = 'mine'").fetchone() == ("in the file",)
    again.close()


def test_it_stays_in_memory_while_the_disk_has_no_room_for_it(tmp_path: Path) -> None:
    if against := small_disk.mount(tmp_path, "size=4m"):
        pytest.skip(f"needs the right to mount: {against}")
    made, ballast = Database(tmp_path / "index"), tmp_path / "ballast"
    try:
        assert made.into_memory("the disk is full")
        with made.write() as connection:
            connection.execute("INSERT INTO meta VALUES ('mine', ?)", ("kept " * 100_000,))
        with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
        assert not made.back_to_file()
        assert made.in_memory
        assert mine(made) == "kept " * 100_000
        ballast.unlink()
        assert made.back_to_file()
        assert mine(made) == "kept " * 100_000
        assert made.check() is None
    finally:
        made.close()
        small_disk.unmount(tmp_path)


def test_what_cannot_be_a_folder_keeps_the_index_in_memory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    made = Database(tmp_path / "file" / "below" / "it")
    assert made.in_memory
    with made.write() as connection:
        connection.execute("INSERT INTO meta VALUES ('mine', 'kept')")
    assert mine(made) == "kept"
    assert not made.back_to_file()
    assert mine(made) == "kept"
    made.close()


def test_one_that_was_left_alone_is_trusted(tmp_path: Path) -> None:
    first = Database(tmp_path)
    assert not first.doubtful, "a new one has nothing to be doubted"
    first.close()
    second = Database(tmp_path)
    assert not second.doubtful
    crashed = Database(tmp_path)
    assert crashed.doubtful, "nobody closed the one before"
    second.close()
    crashed.close()
    with sqlite3.connect(tmp_path / "index.sqlite3") as other:
        other.execute("DELETE FROM model")
        other.execute("INSERT INTO model VALUES (5, 'x')")
    other.close()
    third = Database(tmp_path)
    assert third.doubtful
    third.close()


def test_errors_are_told_apart(tmp_path: Path) -> None:
    noise = tmp_path / "noise"
    noise.write_bytes(os.urandom(9000))

    def error_of(select: str, name: str) -> sqlite3.Error:
        with pytest.raises(sqlite3.Error) as caught:
            sqlite3.connect(name, uri=True).execute(select)
        return caught.value

    assert fault_of(error_of("SELECT * FROM sqlite_schema", str(noise))) is DatabaseFault.DAMAGED
    assert fault_of(error_of("SELECT * FROM gone", ":memory:")) is DatabaseFault.DAMAGED
    assert fault_of(error_of("SELECT 1", f"file:{tmp_path}/gone?mode=rw")) is DatabaseFault.DAMAGED
    assert fault_of(error_of("SELEC 1", ":memory:")) is DatabaseFault.OTHER
    small = sqlite3.connect(":memory:")
    small.execute("PRAGMA max_page_count = 2")
    small.execute("CREATE TABLE t (a)")
    with pytest.raises(sqlite3.Error) as full:
        small.execute("INSERT INTO t VALUES (zeroblob(90000))")
    assert fault_of(full.value) is DatabaseFault.NO_ROOM


def test_a_full_disk_is_named(database: Database) -> None:
    told: list[str] = []
    database.found_full = told.append
    pages = database._now.writer.execute("PRAGMA page_count").fetchone()[0]
    database._now.writer.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(NoRoom, match=r"the disk at .* has .* MB free of"), database.write() as connection:
        connection.execute("INSERT INTO meta VALUES ('large', ?)", ("x" * 90_000,))
    assert told
    assert mine(database) == "written"
