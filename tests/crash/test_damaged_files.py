"""Every file that can be made again, or holds only what happened, damaged in every way, under a running daemon and before its start:
memories are read and written all the same, and the index is the vault's again by itself."""

from __future__ import annotations

import itertools
import os
import random
import shutil
import sqlite3
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ormahd.process import own_files
from tests.crash.damage import DAMAGE
from tests.house import House, open_house, wait_until

INDEX = ("index.sqlite3", "index.sqlite3-wal")
CHROMA = ("chroma.sqlite3", "data_level0.bin", "header.bin", "length.bin", "link_lists.bin", "chroma.unclean")
STATE = ("state.sqlite3", "state.sqlite3-wal", "feedback.key", "ormahd.log", "ormahd.log.1")
FILES = (*INDEX, *CHROMA, *STATE)
WHEN = ("running", "before")
CELLS = [(file, kind, when) for when in WHEN for file in FILES for kind in DAMAGE]
CHOSEN = [
    (file, list(DAMAGE)[(at + turn) % len(DAMAGE)], WHEN[(at + turn) % 2])
    for at, file in enumerate(FILES)
    for turn in (0, 3)
]
"""Each file under a running daemon and before a start, each kind of damage three times or more: 26 of 208 cells."""


def either(*first: Sequence[str]) -> list[Any]:
    """Every combination under a running daemon or before a start, in turns; the soak has the other half."""
    return [
        pytest.param(*cell, when, marks=() if (at + turn) % 2 else pytest.mark.soak)
        for at, cell in enumerate(itertools.product(*first))
        for turn, when in enumerate(WHEN)
    ]


@dataclass
class Told:
    """A house, and what was acknowledged in it."""

    house: House
    index: Path
    state: Path
    memories: dict[str, str] = field(default_factory=dict)

    def remember(self) -> None:
        number = len(self.memories)
        name = f"keeper{number}"
        done = self.house.call("agent.remember", content=f"the harbour's lamp {number} is kept by {name}", title=name)
        self.memories[done.node_id] = name

    def whisper(self, name: str) -> None:
        self.house.call("agent.whisper", prompt=f"which lamp does {name} keep?", session_id=f"session of {name}")

    def sound(self) -> None:
        """What has to hold, whatever was damaged: nothing is lost, everything is found, the index is the vault's."""
        self.remember()
        latest, *_, earliest = reversed(self.memories.items())
        for node_id, name in (latest, earliest):
            assert name in self.house.call("agent.get", node_id=node_id).content
            found = self.house.call("agent.recall", query=name)
            assert node_id in {one.id for one in found.results}, (name, found)
            self.whisper(name)
        wait_until(lambda: self.house.call("admin.verify").ok, lambda: str(self.house.call("admin.verify")), 60)

    def complete(self) -> None:
        """Everything that was ever acknowledged is there, and clean."""
        for node_id, name in self.memories.items():
            assert name in self.house.call("agent.get", node_id=node_id).content
        assert self.house.git("status", "--porcelain") == ""


@pytest.fixture(scope="module")
def told() -> Iterator[Told]:
    with open_house() as house:
        house.start()
        told = Told(house, house.index_dir, house.state)
        for _ in range(12):
            told.remember()
        told.whisper("keeper3")
        house.call("admin.verify")
        yield told
        told.complete()


def place_of(told: Told, name: str) -> Path:
    """Where the file lies, or would; what a cell before this one left in its place is gone."""
    top = told.index if name in (*INDEX, *CHROMA) else told.state
    found = [path for path in sorted(top.rglob(name)) if own_files.kind(path) == "a file"]
    if found:
        return found[0]
    path = top / ("chroma" if name in CHROMA[:-1] else "") / name
    if own_files.kind(path.parent) == "a folder" or name not in CHROMA:
        own_files.remove(path)
        path.write_bytes(b"nothing that anybody wrote " * 400)
    return path


def damaged(told: Told, name: str, kind: str, when: str) -> None:
    if when == "before":
        told.house.kill()
    path = place_of(told, name)
    if own_files.kind(path) == "a file":
        DAMAGE[kind](path, random.Random(f"{name} {kind} {when}"))
    if when == "before":
        told.house.start()
    told.sound()


@pytest.mark.parametrize(("name", "kind", "when"), CHOSEN)
def test_a_damaged_file_keeps_nobody_from_a_memory(told: Told, name: str, kind: str, when: str) -> None:
    damaged(told, name, kind, when)


@pytest.mark.soak
@pytest.mark.parametrize(("name", "kind", "when"), CELLS)
def test_every_file_in_every_way(told: Told, name: str, kind: str, when: str) -> None:
    damaged(told, name, kind, when)


# ---------------------------------------------------------------- folders


def taken(folder: Path, kind: str, home: Path) -> bool:
    """Take a folder away, and put something else in its place. False: a daemon has made the folder again in between."""
    gone = folder.rename(home / f"gone-{uuid.uuid4()}")
    shutil.rmtree(gone, ignore_errors=True)  # a daemon may be putting things into it
    try:
        if kind == "file":
            with folder.open("x") as file:
                file.write("nothing of yours")
        elif kind == "fifo":
            os.mkfifo(folder)
        elif kind == "link":
            folder.symlink_to(home / "nowhere")
    except FileExistsError:
        return False
    return True


@pytest.mark.parametrize(
    ("which", "kind", "when"),
    [*either(["index"], ["removed", "file", "fifo", "link"]), *either(["state"], ["file", "removed", "link", "fifo"])],
)
def test_a_folder_of_ours_may_be_anything(told: Told, which: str, kind: str, when: str) -> None:
    house = told.house
    folder = told.index if which == "index" else told.state
    if when == "before":
        house.kill()
    wait_until(lambda: taken(folder, kind, house.home), f"{kind} in the place of {folder}")
    if when == "before":
        house.start()
    told.sound()
    wait_until((folder / f"{which}.sqlite3").is_file, f"{which}.sqlite3 in {folder}", 30)
    told.sound()


# ---------------------------------------------------------------- rows

ROWS = {
    "rows": "DELETE FROM node WHERE number % 2 = 0",
    "files": "DELETE FROM file",
    "words": "INSERT INTO words (words) VALUES ('delete-all')",
    "texts": "UPDATE text SET content = 'something else altogether'",
    "titles": "UPDATE node SET title = 'something else', tier = 'archival'",
    "vectors": "UPDATE vector SET vector = X'00112233'",
    "tokens": "UPDATE token SET vectors = X'00'",
    "no vectors": "DELETE FROM vector",
    "a table": "DROP TABLE text",
    "edges": "UPDATE edge SET target = 'ffffffff-0000-4000-8000-000000000000'",
}


@pytest.mark.parametrize(("what", "when"), either(list(ROWS)))
def test_rows_that_somebody_else_changed_are_made_again(told: Told, what: str, when: str) -> None:
    house = told.house
    if when == "before":
        house.stop()
    with sqlite3.connect(told.index / "index.sqlite3", timeout=120) as db:
        db.execute(ROWS[what])
    db.close()
    if when == "before":
        house.start()
    for node_id, name in list(told.memories.items())[:4]:
        assert name in wait_until(lambda one=node_id: content(house, one), f"{name} of {what}", 30)  # type: ignore[misc]
    told.sound()
    assert {house.call("agent.get", node_id=one).tier for one in told.memories} == {"working"}


def content(house: House, node_id: str) -> str | None:
    said = str(house.call("agent.get", node_id=node_id).content)
    return said if "lamp" in said else None


# ---------------------------------------------------------------- what is said


def findings(house: House) -> str:
    return "\n".join(f"{one.path} {one.what} {one.mend}" for one in house.call("admin.doctor").findings)


def test_doctor_names_the_state_that_was_set_aside(told: Told) -> None:
    house = told.house
    house.kill()
    DAMAGE["garbled"](told.state / "state.sqlite3", random.Random(7))
    house.start()
    told.sound()
    aside = own_files.asides(told.state, "state.sqlite3")
    assert aside
    assert str(aside[-1]) in findings(house)
    assert aside[-1].name in (told.state / "ormahd.log").read_text()
    for one in own_files.asides(told.state):
        own_files.remove(one)
    house.restart()
    assert "set aside" not in findings(house)
