"""Every tour taken back by plain `git revert` where git's merge driver finds no daemon: as with it, to the byte."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ormahd.note.read import parse
from ormahd.vault.merge_driver import KEY, command
from tests.blackbox.tours import CORE, TOURS, Tour, edit_by_hand, edited
from tests.house import House, open_house


@pytest.fixture(scope="module")
def kitchen() -> Iterator[House]:
    """A daemon does the changes and follows; git's driver asks at a socket where nobody is."""
    with open_house(ORMAH_TIERS_CORE_CAP=str(CORE)) as house:
        house.start()
        yield house


@pytest.mark.parametrize("tour", TOURS, ids=lambda tour: tour.name.replace(" ", "-"))
def test_later_edits_survive(kitchen: House, tour: Tour) -> None:
    state = tour.prepare(kitchen)
    before = kitchen.notes()
    commits = tour.walk(kitchen, state)
    here = {parse(data, path).id: path for path, data in before.items()}
    touched = {
        parse(data, path).id: path for path, data in kitchen.notes().items()
        if data != before.get(path) and parse(data, path).id in here
    }  # fmt: skip
    edit_by_hand(kitchen, list(touched.values()))
    kitchen.git("config", KEY, command(Path("/nowhere/s")))
    kitchen.git("revert", "--no-edit", *commits)
    tour.end(kitchen, state)
    expected = before | {here[node]: edited(before[here[node]]) for node in touched}
    assert kitchen.notes() == expected
