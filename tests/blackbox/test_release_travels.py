"""What one machine released is not removed from the folder of another: it loses Ormah's lines there too, and stays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from tests.blackbox.two_houses import two_houses
from tests.house import House, wait_until


def test_a_released_file_stays_on_the_other_machine() -> None:
    with two_houses() as (one, two, bare):
        files = {f"Mine {number}.md": f"written by a person, number {number}\n" for number in range(5)}
        for path, text in files.items():
            (one.vault / path).write_text(text)
        wait_until(lambda: all("id: " in (one.vault / path).read_text() for path in files), "they are adopted")
        wait_until(lambda: one.git("status", "--porcelain") == "", "they are committed")
        one.json("sync", "setup", str(bare))
        two.json("sync", "setup", str(bare), "--yes")
        assert all("id: " in (two.vault / path).read_text() for path in files)
        (two.vault / "Mine 0.md").write_text((two.vault / "Mine 0.md").read_text() + "and here\n")
        wait_until(lambda: two.git("status", "--porcelain") == "", "the edit is taken in")
        two.json("sync")
        one.json("sync")
        one.json("vault", "release", *files, "--yes")
        one.json("sync")
        two.json("sync")
        expected = {**files, "Mine 0.md": files["Mine 0.md"] + "and here\n"}
        for house in (one, two):
            assert {path: (house.vault / path).read_text() for path in files} == expected
            assert not set(files) & set(house.git("ls-files").splitlines())
        two.json("jobs", "run", "index_updater")
        two.restart()
        assert {path: (two.vault / path).read_text() for path in files} == expected, "it is not adopted there again"
        assert two.json("verify")["ok"]


class Machines(NamedTuple):
    one: House
    two: House


@pytest.fixture(scope="module")
def machines() -> Iterator[Machines]:
    with two_houses() as (one, two, bare):
        one.json("sync", "setup", str(bare))
        two.json("sync", "setup", str(bare), "--yes")
        yield Machines(one, two)


def shared(machines: Machines, path: str) -> None:
    """A note of a person's is adopted, and on both machines."""
    one, two = machines
    (one.vault / path).parent.mkdir(exist_ok=True)
    (one.vault / path).write_text(text(path))
    wait_until(lambda: "id: " in (one.vault / path).read_text() and clean(one), f"{path} is adopted")
    one.json("sync")
    two.json("sync")


def clean(house: House) -> bool:
    return house.git("status", "--porcelain", "--untracked-files=no") == ""


def edit(house: House, path: str) -> None:
    (house.vault / path).write_text((house.vault / path).read_text() + "and this line\n")
    wait_until(lambda: clean(house), "the edit is taken in")


def came_to_an_end(machines: Machines, path: str, moved: str | None = None) -> None:
    """Both have all of it, sync has nothing more to say, git knows the file on none of them, and that stays so."""
    for house in (*machines, *machines):
        house.json("sync")
    assert machines.one.git("rev-parse", "HEAD") == machines.two.git("rev-parse", "HEAD")
    for house in machines:
        house.json("jobs", "run", "index_updater")
        assert not {path, moved} & set(house.git("ls-files").splitlines())
        assert house.json("verify")["ok"]
        assert house.json("sync", "--conflicts") == []


def text(path: str, *, edited: bool = False) -> str:
    return f"written by a person in {path}\n" + ("and this line\n" if edited else "")


@pytest.mark.parametrize("how", ["release", "undo"])
@pytest.mark.parametrize("first", ["released", "edited"])
def test_a_file_that_was_released_here_and_edited_there(machines: Machines, how: str, first: str) -> None:
    """Whichever comes to the remote first: the edited file stays in place, without our lines, and its machine is told."""
    one, two = machines
    path = f"{how} {first}.md"
    shared(machines, path)
    edit(two, path)
    if first == "edited":
        two.json("sync")
    if how == "release":
        one.json("vault", "release", path, "--yes")
    else:
        adoption = next(op["op"] for op in one.json("history", "-n", "9") if op["kind"] == "adopt")
        one.json("undo", adoption)
    told = one.json("sync")["told"]
    two_told = two.json("sync")["told"]
    if first == "edited":
        assert len(told) == 1
        assert "was released here and changed on another machine" in told[0]
        assert "git show" in told[0]
        commit = told[0].partition("git show ")[2].strip(")").strip("'").split(":")[0]
        assert "and this line" in one.git("show", f"{commit}:{path}")
    else:
        assert told == []
        assert len(two_told) == 1
        assert f"ormahctl vault adopt '{path}'" in two_told[0]
    assert (one.vault / path).read_text() == text(path)
    assert (two.vault / path).read_text() == text(path, edited=True)
    came_to_an_end(machines, path)
    assert ((one.vault / path).read_text(), (two.vault / path).read_text()) == (text(path), text(path, edited=True))


def test_a_file_that_was_moved_and_released_here_and_edited_there(machines: Machines) -> None:
    one, two = machines
    path, moved = "Inbox/moved.md", "Inbox/moved further.md"
    shared(machines, path)
    edit(two, path)
    (one.vault / path).rename(one.vault / moved)
    wait_until(lambda: moved in one.git("ls-files"), "the move is taken in")
    one.json("vault", "release", moved, "--yes")
    one.json("sync")
    two.json("sync")
    assert (two.vault / path).read_text() == text(path, edited=True)
    came_to_an_end(machines, path, moved)
    two.restart()
    assert (two.vault / path).read_text() == text(path, edited=True), "it is not adopted again"
    assert (one.vault / moved).read_text() == text(path)


def test_what_another_machine_adopts_again_is_not_in_the_way(machines: Machines) -> None:
    one, two = machines
    path = "again.md"
    shared(machines, path)
    one.json("vault", "release", path, "--yes")
    one.json("sync")
    two.json("sync")
    assert (two.vault / path).read_text() == text(path)
    two.json("vault", "adopt", path)
    two.json("sync")
    one.json("sync")
    assert (one.vault / path).read_text() == (two.vault / path).read_text() != text(path)
    assert path in one.git("ls-files").splitlines()
