"""The index's file while it is in use: damaged, gone, on a disk without room."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ormahd.errors import NoRoom, NotReady, Unavailable
from ormahd.index.database import Database
from ormahd.process import own_files


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
    assert own_files.aside(database.path).is_file()
    assert database.dropped == "somebody garbled it; it was set aside as index.sqlite3.damaged"
    database.begin_anew("again")
    assert [one.name for one in database.directory.iterdir() if "damaged" in one.name] == ["index.sqlite3.damaged"]


def test_one_that_is_gone_is_said_and_not_made_by_a_reader(database: Database) -> None:
    database.path.unlink()
    told: list[str] = []
    database.found_damaged = told.append
    with pytest.raises(NotReady, match="is damaged"), database.read():
        pass
    assert told
    assert not database.path.exists()


def test_one_that_nobody_can_read_is_set_aside_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "index.sqlite3").write_bytes(os.urandom(9000))
    made = Database(tmp_path)
    assert (mine(made), made.check()) == (None, None)
    assert "it was set aside as index.sqlite3.damaged" in (made.dropped or "")
    made.close()


def test_where_no_file_can_be_it_is_refused_with_the_folders_name(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Unavailable, match=f"{tmp_path}.* cannot be used"):
        Database(tmp_path / "file" / "below" / "it")


def test_a_full_disk_is_named_and_the_next_write_is_tried(database: Database) -> None:
    pages = database._now.writer.execute("PRAGMA page_count").fetchone()[0]
    database._now.writer.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(NoRoom, match=r"the disk at .* has .* MB free of"), database.write() as connection:
        connection.execute("INSERT INTO meta VALUES ('large', ?)", ("x" * 90_000,))
    database._now.writer.execute("PRAGMA max_page_count = 1000000")
    with database.write() as connection:
        connection.execute("UPDATE meta SET value = 'again' WHERE key = 'mine'")
    assert mine(database) == "again"
