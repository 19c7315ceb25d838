"""Files that can be made again, or hold only what happened, damaged under a running daemon and before its start: no memory is lost, what
cannot be answered yet says so, and the index is the vault's again by itself."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator

import pytest

from tests.crash.damage import DAMAGE
from tests.crash.memories import Told, telling


@pytest.fixture(scope="module")
def told() -> Iterator[Told]:
    with telling(12) as told:
        yield told


CELLS = [
    *(("index.sqlite3", kind, when) for kind in ("garbled", "truncated", "removed") for when in ("running", "before")),
    *(("state.sqlite3", kind, when) for kind in ("garbled", "truncated") for when in ("running", "before")),
    *(("chroma.sqlite3", kind, "before") for kind in ("garbled", "removed")),
    ("feedback.key", "truncated", "before"),
    ("ormahd.log", "removed", "running"),
]


@pytest.mark.parametrize(("name", "kind", "when"), CELLS)
def test_a_damaged_file_loses_no_memory(told: Told, name: str, kind: str, when: str) -> None:
    house = told.house
    if when == "before":
        house.stop()
    for file in house.home.rglob(name):
        DAMAGE[kind](file, random.Random(f"{name} {kind} {when}"))
    if when == "before":
        house.start()
    told.settled()


def test_rows_that_another_program_changed_are_found_by_verify_and_made_again_by_rebuild(told: Told) -> None:
    house = told.house
    with sqlite3.connect(house.index_dir / "index.sqlite3", timeout=120) as db:
        db.execute("UPDATE text SET content = 'something else altogether'")
    db.close()
    assert not house.call("admin.verify").ok
    house.call("admin.rebuild")
    told.settled()


def test_status_and_doctor_name_the_state_that_was_set_aside(told: Told) -> None:
    house = told.house
    house.stop()
    DAMAGE["garbled"](house.state / "state.sqlite3", random.Random(7))
    house.start()
    aside = house.state / "state.sqlite3.damaged"
    assert "it was set aside as state.sqlite3.damaged" in str(house.call("admin.health").warnings)
    assert str(aside) in told.findings()
    aside.unlink()
    house.restart()
    assert "set aside" not in told.findings()
