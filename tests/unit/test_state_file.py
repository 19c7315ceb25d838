"""`state.sqlite3` while it is in use: damaged, gone, on a disk without room."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ormahd.errors import NoRoom, NotReady, Unavailable
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


@pytest.mark.parametrize("kind", ["empty", "truncated", "garbled_page", "garbled", "removed"])
def test_a_damaged_file_is_set_aside_when_it_is_opened(tmp_path: Path, kind: str) -> None:
    first = State(tmp_path, clock=lambda: NOW)
    first.touch(["first"] * 3000, how="get", session_id=None)
    first.close()
    DAMAGE[kind](tmp_path / "state.sqlite3", random.Random(1))
    second = State(tmp_path, clock=lambda: NOW)
    second.touch(["second"], how="get", session_id=None)
    assert used(second)[-1] == "second"
    if own_files.aside(second.path).exists():
        assert "it was set aside as state.sqlite3.damaged" in second.notices[0]
    second.close()


def test_one_of_another_version_is_set_aside(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "state.sqlite3") as db:
        db.execute("PRAGMA user_version = 9999")
    db.close()
    state = State(tmp_path, clock=lambda: NOW)
    assert "it has format 9999" in state.notices[0]
    assert used(state) == []
    state.close()


def test_damage_while_it_is_in_use_is_said_once_and_the_next_call_is_answered(state: State) -> None:
    with state.transaction() as db:
        db.execute("DROP TABLE access")
    with pytest.raises(NotReady, match="was begun anew"):
        state.accesses()
    state.touch(["second"], how="get", session_id=None)
    assert used(state) == ["second"]
    assert len(state.notices) == 1


def test_a_full_disk_is_named_and_the_next_write_is_tried(state: State) -> None:
    with state.transaction() as db:
        pages = db.execute("PRAGMA page_count").fetchone()[0]
        db.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(NoRoom, match=r"the disk at .* has .* MB free of"), state.transaction() as db:
        db.execute("INSERT INTO access (node_id, time, how) VALUES (?, '', '')", ("x" * 90_000,))
    state.touch(["x" * 90_000], how="get", session_id=None)  # telemetry: no answer depends on it
    with state.transaction() as db:
        db.execute("PRAGMA max_page_count = 1000000")
    state.touch(["second"], how="get", session_id=None)
    assert used(state) == ["first", "second"]


def test_without_a_folder_it_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Unavailable, match=r"state\.sqlite3 cannot be used"):
        State(tmp_path / "file" / "below" / "it", clock=lambda: NOW)


@pytest.mark.parametrize("kind", ["empty", "truncated", "removed"])
def test_the_key_of_hashes_is_made_again(tmp_path: Path, kind: str) -> None:
    first = KeyedHashes(tmp_path).hash("x")
    assert KeyedHashes(tmp_path).hash("x") == first
    DAMAGE[kind](tmp_path / "feedback.key", random.Random(1))
    second = KeyedHashes(tmp_path).hash("x")
    assert KeyedHashes(tmp_path).hash("x") == second
