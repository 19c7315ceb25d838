"""`state.sqlite3` while it is in use: whatever becomes of it, the next call is answered, and what can be kept is."""

from __future__ import annotations

import random
import shutil
import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ormahd.errors import BegunAnew
from ormahd.process import own_files
from ormahd.state.feedback import KeyedHashes
from ormahd.state.state import State
from tests.crash.damage import DAMAGE

NOW = datetime(2026, 11, 27, 12, tzinfo=UTC)


@pytest.fixture
def state(tmp_path: Path) -> Iterator[State]:
    made = State(tmp_path / "state", clock=lambda: NOW)
    made.touch(["first"], how="get", session_id=None)
    yield made
    made.close()


def used(state: State) -> list[str]:
    return [row[1] for row in state.accesses()]


@pytest.mark.parametrize("kind", DAMAGE)
@pytest.mark.parametrize("name", ["state.sqlite3", "state.sqlite3-wal"])
def test_a_damaged_file_is_set_aside_when_it_is_opened(tmp_path: Path, name: str, kind: str) -> None:
    first = State(tmp_path / "running", clock=lambda: NOW)
    first.touch(["first"] * 3000, how="get", session_id=None)
    crashed = tmp_path / "crashed"
    shutil.copytree(tmp_path / "running", crashed)
    first.close()
    DAMAGE[kind](crashed / name, random.Random(1))
    second = State(crashed, clock=lambda: NOW)
    second.touch(["second"], how="get", session_id=None)
    assert used(second)[-1] == "second"
    assert second.trouble is None
    for one in own_files.asides(crashed):
        assert any(one.name in sentence for sentence in second.notices), "it is said by its name"
    second.close()


def test_one_of_another_version_is_set_aside(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "state.sqlite3") as db:
        db.execute("PRAGMA user_version = 9999")
    db.close()
    state = State(tmp_path, clock=lambda: NOW)
    assert "it has format 9999" in state.notices[0]
    assert used(state) == []
    state.close()


def test_damage_while_it_is_in_use_is_mended_by_asking_again(state: State) -> None:
    with state.transaction() as db:
        db.execute("DROP TABLE access")
    with pytest.raises(BegunAnew):
        state.accesses()
    state.touch(["second"], how="get", session_id=None)
    assert used(state) == ["second"]
    assert "set aside" in state.notices[0]


def test_a_full_disk_forgets_nothing(state: State) -> None:
    with state.transaction() as db:
        pages = db.execute("PRAGMA page_count").fetchone()[0]
        db.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(BegunAnew):
        state.touch(["x" * 90_000], how="get", session_id=None)
    assert state.trouble is not None
    assert "kept in memory" in (state.trouble_said or "")
    state.touch(["second"], how="get", session_id=None)
    assert used(state) == ["first", "second"]
    state.look()  # there is room: no disk is full here
    assert state.trouble is None
    assert used(state) == ["first", "second"]
    with sqlite3.connect(f"file:{state.path}?mode=ro", uri=True) as db:
        assert db.execute("SELECT count(*) FROM access").fetchone() == (2,)
    db.close()


@pytest.mark.parametrize("kind", ["removed", "folder", "fifo"])
def test_one_that_was_taken_away_is_written_anew_with_all_that_was_known(state: State, kind: str) -> None:
    DAMAGE[kind](state.path, random.Random(1))
    state.touch(["second"], how="get", session_id=None)
    state.look()
    assert own_files.kind(state.path) == "a file"
    assert used(state) == ["first", "second"]
    again = State(state.path.parent, clock=lambda: NOW)
    assert used(again) == ["first", "second"]
    again.close()


def test_without_a_folder_it_is_kept_in_memory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    state = State(tmp_path / "file" / "below" / "it", clock=lambda: NOW)
    state.touch(["first"], how="get", session_id=None)
    state.look()
    assert used(state) == ["first"]
    assert state.trouble is not None
    state.close()


@pytest.mark.parametrize("kind", DAMAGE)
def test_the_key_of_hashes_is_made_again(tmp_path: Path, kind: str) -> None:
    first = KeyedHashes(tmp_path).hash("x")
    assert KeyedHashes(tmp_path).hash("x") == first
    DAMAGE[kind](tmp_path / "feedback.key", random.Random(1))
    second = KeyedHashes(tmp_path).hash("x")
    assert KeyedHashes(tmp_path).hash("x") == second
    assert KeyedHashes(tmp_path / "nowhere" / "at all").hash("x"), (
        "and where it cannot be kept there is one for this life"
    )
