"""Files that can be made again, or hold only what happened, damaged under a running daemon and before its start: no memory is lost, what
cannot be answered yet says so, and the index is the vault's again by itself."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pytest

from ormahd.errors import NotReady
from tests.crash.damage import DAMAGE
from tests.house import House, open_house, wait_until

T = TypeVar("T")


@dataclass
class Told:
    """A house, and what was acknowledged in it."""

    house: House
    memories: dict[str, str] = field(default_factory=dict)

    def remember(self) -> None:
        number = len(self.memories)
        name = f"keeper{number}"
        done = answered(
            lambda: self.house.call(
                "agent.remember", content=f"the harbour's lamp {number} is kept by {name}", title=name
            )
        )
        self.memories[done.node_id] = name

    def check_sound(self) -> None:
        self.remember()
        house = self.house
        wait_until(lambda: answered(lambda: house.call("admin.verify")).ok, "the index is the vault's", 120)
        for node_id, name in self.memories.items():
            assert name in answered(lambda one=node_id: house.call("agent.get", node_id=one)).content  # type: ignore[misc]
        found = house.call("agent.recall", query=name)
        assert node_id in {one.id for one in found.results}
        assert house.git("status", "--porcelain") == ""


def answered(ask: Callable[[], T]) -> T:
    """What is answered once the index is made anew; until then, nothing but that is said."""

    def once() -> list[T]:
        try:
            return [ask()]
        except NotReady:
            return []

    return wait_until(once, "an answer", 120)[0]  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def told() -> Iterator[Told]:
    with open_house() as house:
        house.start()
        told = Told(house)
        for _ in range(12):
            told.remember()
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
    told.check_sound()


def test_rows_that_another_program_changed_are_found_by_verify_and_made_again_by_rebuild(told: Told) -> None:
    house = told.house
    with sqlite3.connect(house.index_dir / "index.sqlite3", timeout=120) as db:
        db.execute("UPDATE text SET content = 'something else altogether'")
    db.close()
    assert not house.call("admin.verify").ok
    house.call("admin.rebuild")
    told.check_sound()


def findings(house: House) -> str:
    found: Any = house.call("admin.doctor").findings
    return "\n".join(f"{one.path} {one.what} {one.mend}" for one in found)


def test_status_and_doctor_name_the_state_that_was_set_aside(told: Told) -> None:
    house = told.house
    house.stop()
    DAMAGE["garbled"](house.state / "state.sqlite3", random.Random(7))
    house.start()
    aside = house.state / "state.sqlite3.damaged"
    assert "it was set aside as state.sqlite3.damaged" in str(house.call("admin.health").warnings)
    assert str(aside) in findings(house)
    aside.unlink()
    house.restart()
    assert "set aside" not in findings(house)
