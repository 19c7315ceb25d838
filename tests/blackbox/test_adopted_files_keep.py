"""An adopted file keeps what is the person's beside its words: its mode, its time, and its place, whatever is taken back and how."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.blackbox.tours import head
from tests.house import House, open_house, save, wait_until

SOME_DAY = 1_700_000_000_123_456_789


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    with open_house(ORMAH_VAULT_ADOPT="all") as found:
        found.vault.mkdir()
        found.start()
        yield found


def adopted(house: House, path: str, *, mode: int = 0o644) -> str:
    """A note of the person's that was just adopted; the commit."""
    file = house.vault / path
    file.parent.mkdir(exist_ok=True)
    beside = house.home / "beside.md"
    beside.write_text(text(path))
    beside.chmod(mode)
    os.utime(beside, ns=(SOME_DAY, SOME_DAY))
    beside.rename(file)
    wait_until(lambda: "id: " in file.read_text() and committed(house, path), f"{path} is adopted")
    return head(house)


def text(path: str) -> str:
    return f"A note in {path}.\n" + "with a line\n" * 20


def committed(house: House, path: str) -> bool:
    return path in house.git("ls-files").splitlines() and house.git("status", "--porcelain", "--", path) == ""


def modes(house: House, path: str) -> tuple[str, bool]:
    """The mode in HEAD (empty: it is not there), and whether the file may be run."""
    listed = house.git("ls-tree", "HEAD", "--", path)
    return listed.split(" ")[0], bool((house.vault / path).stat().st_mode & stat.S_IXUSR)


def test_an_executable_note_stays_one(house: House) -> None:
    path = "run.md"
    commit = adopted(house, path, mode=0o755)
    first = house.git("ls-tree", "HEAD^", "--", path).split(" ")[0]
    assert (first, *modes(house, path)) == ("100755", "100755", True)
    node = (house.vault / path).read_text().split("id: ")[1].split("\n")[0]
    house.json("update", node, "--tag", "seen")
    assert modes(house, path) == ("100755", True)
    (house.vault / path).write_text((house.vault / path).read_text() + "edited\n")
    wait_until(lambda: committed(house, path), "the edit is taken in")
    assert modes(house, path) == ("100755", True)
    (house.vault / path).rename(house.vault / "run further.md")
    wait_until(lambda: committed(house, "run further.md"), "the move is taken in")
    assert modes(house, "run further.md") == ("100755", True)
    (house.vault / "run further.md").rename(house.vault / path)
    wait_until(lambda: committed(house, path), "the move back is taken in")
    undo = house.json("undo", commit)["undone"][0]
    assert modes(house, path) == ("", True)
    house.json("undo", undo["undo_op"])
    assert modes(house, path) == ("100755", True)
    house.json("forget", node)
    assert not (house.vault / path).exists()
    undo = house.json("undo", house.json("history", "-n", "1")[0]["op"])["undone"][0]
    assert modes(house, path) == ("100755", True)
    assert committed(house, path)
    house.json("undo", undo["undo_op"])
    house.json("undo", house.json("history", "-n", "1")[0]["op"])
    assert modes(house, path) == ("100755", True)
    house.json("vault", "release", path, "--yes")
    assert modes(house, path) == ("", True)
    assert house.git("status", "--porcelain", "--", path).startswith("??")


def test_a_mode_that_the_person_changes_goes_with_the_next_edit(house: House) -> None:
    path = "walk.md"
    adopted(house, path)
    assert modes(house, path) == ("100644", False)
    (house.vault / path).chmod(0o755)
    (house.vault / path).write_text((house.vault / path).read_text() + "edited\n")
    wait_until(lambda: committed(house, path), "the edit is taken in")
    assert modes(house, path) == ("100755", True)


def test_a_file_whose_adoption_is_taken_back_has_the_time_that_it_had(house: House) -> None:
    path = "Old/old.md"
    commit = adopted(house, path)
    assert (house.vault / path).stat().st_mtime_ns == SOME_DAY
    house.json("undo", commit)
    assert (house.vault / path).read_text() == text(path)
    assert (house.vault / path).stat().st_mtime_ns == SOME_DAY


@pytest.mark.parametrize("edited", [False, True])
def test_a_revert_by_hand_after_a_move(house: House, edited: bool) -> None:
    """Git forgets the note where it is now, as it does with one that was not moved."""
    path, moved = f"B{edited}/n.md", f"U{edited}/n moved.md"
    other = f"B{edited}/stays.md"
    adopted(house, other)
    commit = adopted(house, path)
    (house.vault / moved).parent.mkdir()
    (house.vault / path).rename(house.vault / moved)
    wait_until(lambda: committed(house, moved), "the move is taken in")
    if edited:
        save(house.vault / moved, (house.vault / moved).read_text() + "edited\n")
        wait_until(lambda: committed(house, moved), "the edit is taken in")
    house.git("revert", "--no-edit", commit)
    wait_until(lambda: moved not in house.git("ls-files").splitlines(), "git forgets it")
    expected = text(path) + ("edited\n" if edited else "")
    assert Path(house.vault / moved).read_text() == expected
    assert not (house.vault / path).exists()
    house.json("jobs", "run", "index_updater")
    assert (house.vault / moved).read_text() == expected, "it is not adopted again"
    assert moved not in house.git("ls-files").splitlines()
    undo = next(op for op in house.json("history", "-n", "3") if op["subject"].startswith("Release"))
    house.json("undo", undo["op"])
    assert "id: " in (house.vault / moved).read_text()


def test_a_broken_note_is_no_fault_of_the_index_where_all_is_adopted_since(house: House) -> None:
    """It is committed as it is, and found as before."""
    house.json("vault", "adopt", "--all", "--index")
    (house.vault / "broken.md").write_text("---\ntags: x\nUnclosed, about tahrs.\n")
    (house.vault / "later.md").write_text("About takins.\n")
    wait_until(lambda: house.call("agent.recall", query="takins").results != [], "they are found")
    house.json("jobs", "run", "index_updater")
    done = house.json("vault", "adopt", "--all", "--yes")
    assert "broken.md" in [one["path"] for one in done["left_out"]]
    house.json("jobs", "run", "index_updater")  # the watcher may not have looked yet
    assert house.json("verify")["differences"] == []
    house.json("undo", "--run", done["run"], "--yes")
    house.json("jobs", "run", "index_updater")
    assert house.json("verify")["differences"] == []
    house.json("rebuild")
    assert house.json("verify")["differences"] == []
