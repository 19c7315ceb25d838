"""Whatever was done can be taken back, by `undo` and by plain `git revert`, also after later edits by hand (DESIGN 2.3)."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence

import pytest

from ormahd.note.read import parse
from tests.blackbox.tours import CORE, SWAP, TOURS, Tour, edit_by_hand, edited, walk_home
from tests.house import House, open_house


@pytest.fixture(scope="module")
def kitchen() -> Iterator[House]:
    """One daemon for all tours: each leaves the vault as it found it, but for the memories that it began with."""
    with open_house(ORMAH_TIERS_CORE_CAP=str(CORE)) as house:
        house.start()
        yield house


def by_undo(house: House, commits: list[str]) -> None:
    done = house.ctl("undo", *commits)
    assert done.returncode == 0, done.stderr
    for commit in commits:
        assert house.json("history", "show", commit)["undone_by"] is not None


def by_revert(house: House, commits: list[str]) -> None:
    house.git("revert", "--no-edit", *commits)


WAYS = pytest.mark.parametrize("take_back", [by_undo, by_revert])


def tours(given: Sequence[Tour]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("tour", given, ids=lambda tour: tour.name.replace(" ", "-"))


@WAYS
@tours([*TOURS, SWAP])
def test_without_later_edits_every_note_is_as_before_to_the_byte(kitchen: House, tour: Tour, take_back) -> None:
    state = tour.prepare(kitchen)
    before = kitchen.notes()
    commits = tour.walk(kitchen, state)
    assert kitchen.notes() != before or len(commits) > 1
    take_back(kitchen, commits)
    tour.end(kitchen, state)
    assert kitchen.notes() == before


def touched_and_edited(house: House, before: dict[str, bytes]) -> dict[str, bytes]:
    """A person edits every note that differs from `before` and was there; what `before` becomes by these edits."""
    here = {parse(data, path).id: path for path, data in before.items()}
    touched = {
        node: path for path, data in house.notes().items()
        if data != before.get(path) and (node := parse(data, path).id) in here
    }  # fmt: skip
    edit_by_hand(house, list(touched.values()))
    return before | {here[node]: edited(before[here[node]]) for node in touched}


@WAYS
@tours(TOURS)
def test_later_edits_survive(kitchen: House, tour: Tour, take_back) -> None:
    state = tour.prepare(kitchen)
    before = kitchen.notes()
    commits = tour.walk(kitchen, state)
    expected = touched_and_edited(kitchen, before)
    take_back(kitchen, commits)
    tour.end(kitchen, state)
    assert kitchen.notes() == expected


def test_names_that_changed_hands_go_back_by_undo_and_are_refused_by_git(kitchen: House) -> None:
    state = SWAP.prepare(kitchen)
    before = kitchen.notes()
    (commit,) = SWAP.walk(kitchen, state)
    expected = touched_and_edited(kitchen, before)
    meanwhile = kitchen.notes()
    done = subprocess.run(
        ["git", "revert", "--no-edit", commit], cwd=kitchen.vault, env=kitchen.env, capture_output=True
    )
    assert done.returncode == 1
    assert kitchen.notes() == meanwhile
    kitchen.git("revert", "--abort")
    by_undo(kitchen, [commit])
    walk_home(kitchen)
    assert kitchen.notes() == expected
