"""Notes that were moved out of the vault and linked back, or whose place something else has taken: kept as HEAD has them, named once, and
nothing is done about them for ever."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests import fresh_vault
from tests.vault.observed import ONE, TWO, House

NOTES = {
    "Projects/Rook.md": "the rook is a bird",
    "Projects/deep/Crow.md": "the crow is a bird",
    "Alone.md": "the wren is a bird",
}


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    fresh_vault.copy_to(tmp_path / "vault", "observed", lambda root: House(root).close())
    found = House(tmp_path / "vault")
    for path, text in NOTES.items():
        found.write(path, text + "\n")
    found.settle()
    yield found
    found.close()


def out(house: House, name: str) -> Path:
    """Move a file or folder out of the vault; where it is now."""
    there = house.root.parent / f"outside {Path(name).name}"
    shutil.move(house.root / name, there)
    return there


def linked(house: House, name: str) -> None:
    os.symlink(out(house, name), house.root / name)


def swapped(name: str, make: Callable[[Path], None]) -> Callable[[House], None]:
    def change(house: House) -> None:
        out(house, name)
        make(house.root / name)

    return change


CHANGES: dict[str, tuple[Callable[[House], None], str, int]] = {
    "a folder linked back": (lambda house: linked(house, "Projects"), "Projects", 2),
    "an inner folder linked back": (lambda house: linked(house, "Projects/deep"), "Projects/deep", 1),
    "a note linked back": (lambda house: linked(house, "Alone.md"), "Alone.md", 1),
    "a folder, linked to nothing": (swapped("Projects", lambda at: os.symlink("nowhere", at)), "Projects", 2),
    "a folder, linked in a circle": (swapped("Projects", lambda at: os.symlink("Projects", at)), "Projects", 2),
    "a pipe for a note": (swapped("Alone.md", os.mkfifo), "Alone.md", 1),
    "a folder for a note": (swapped("Alone.md", os.mkdir), "Alone.md", 1),
    "a folder linked to another": (swapped("Projects", lambda at: os.symlink("/usr/share", at)), "Projects", 2),
    "a note linked to a folder": (swapped("Alone.md", lambda at: os.symlink("/usr/share", at)), "Alone.md", 1),
}  # fmt: skip


@pytest.mark.parametrize(("change", "place", "notes"), CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("told", [True, False], ids=["told", "scanned"])
def test_notes_are_kept_as_committed_and_named_once(
    house: House, change: Callable[[House], None], place: str, notes: int, told: bool
) -> None:
    before, head = house.index.nodes(), house.git("rev-parse", "HEAD")
    change(house)
    assert house.scan(paths=[place] if told else None).waiting == set()
    house.settle()
    assert house.index.nodes() == before
    assert house.git("rev-parse", "HEAD") == head
    (said,) = house.reconciler.problems()
    assert (said["path"], said["level"]) == (place, "warning")
    assert said["what"].startswith(f"stands in the place of {'a note' if notes == 1 else '2 notes'} and is a ")
    house.index.rows.clear()  # the index was deleted
    house.reconciler = house.new_reconciler()
    house.settle()
    assert house.index.nodes() == before
    assert {path for path, _, _ in house.reconciler.files()} == set(before.values())
    assert house.reconciler.problems(fresh=True) == [said]


def test_what_is_put_back_is_read_again_and_what_is_removed_is_deleted(house: House) -> None:
    there = house.root.parent / "outside Projects"
    linked(house, "Projects")
    house.settle()
    (there / "Rook.md").write_text((there / "Rook.md").read_text().replace("a bird", "a piece"))
    (house.root / "Projects").unlink()
    shutil.move(there, house.root / "Projects")
    house.settle()
    assert house.index.find("the rook is a piece") == ["Projects/Rook.md"]
    assert house.reconciler.problems() == []
    linked(house, "Projects")
    house.settle()
    (house.root / "Projects").unlink()
    house.settle()
    assert house.index.find("is a bird") == ["Alone.md"]
    assert house.log() == ["Delete 2 notes: Rook, Crow"]
    assert house.clean()


def test_others_are_taken_in_beside_a_link(house: House) -> None:
    linked(house, "Projects")
    house.write("Projects.md", "a note of the folder's name\n")
    house.remember("the jay is a bird", node_id=ONE)
    house.settle()
    assert len(house.index.find("is a bird")) == 4
    assert house.index.find("of the folder's name") == ["Projects.md"]
    house.remember("the daw is a bird", node_id=TWO)
    house.settle()
    assert len(house.index.find("is a bird")) == 5
