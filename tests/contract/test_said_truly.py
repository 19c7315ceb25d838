"""Actions that are more than one commit, and are stopped in between: what was done by then is said, never that nothing was changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ormahd.actions.amend import Caller
from ormahd.actions.purge import purge
from ormahd.actions.undo import undo
from ormahd.api import PurgeParams, UndoParams
from ormahd.errors import NotFound, VaultBusy
from tests.jobs_house import JobsHouse, open_jobs_house

PERSON = Caller("person")


@pytest.fixture
def house() -> Iterator[JobsHouse]:
    with open_jobs_house(**{"vault.busy_wait_seconds": 0.0}) as found:
        yield found


def held_from(house: JobsHouse, stage: Callable[[int, str], bool]) -> tuple[Path, Callable[[int, int, str], None]]:
    """Another git takes index.lock at a stage of the action's progress: the lock, and what the action is given."""
    lock = house.ormah.vault.root / ".git/index.lock"

    def progress(done: int, _total: int, what: str) -> None:
        if stage(done, what):
            lock.touch()

    return lock, progress


def test_a_purge_that_is_stopped_says_what_it_did_and_the_way_back(house: JobsHouse) -> None:
    node = house.remember("the red door is behind the shelf")
    path = house.path(node)
    branches = iter(range(100))

    def progress(_done: int, _total: int, what: str) -> None:
        if what == "checking every object":  # another program moves a branch each time
            house.git("update-ref", f"refs/heads/other-{next(branches)}", "HEAD")

    with pytest.raises(VaultBusy) as caught:
        purge(house.ormah, PurgeParams(node_id=node), PERSON, progress)
    assert "nothing was changed" not in caught.value.message
    assert "out of today's notes, and in the history as before" in caught.value.message
    assert not path.exists()
    assert house.git("log", "--format=%h", "--", path.relative_to(house.ormah.vault.root).as_posix())
    assert f"revert {house.head[:8]} takes that back" in caught.value.message
    house.revert(house.head)
    assert house.found("red door") == [node]
    done = purge(house.ormah, PurgeParams(node_id=node), PERSON, lambda *_: None)
    assert done.op is not None
    with pytest.raises(NotFound):
        house.row(node)
    assert house.git("log", "--all", "--format=%h", "-Sred door") == ""


def test_a_purge_that_is_refused_before_it_began_says_so(house: JobsHouse) -> None:
    node = house.remember("the red door is behind the shelf")
    head = house.head
    (house.ormah.vault.root / ".git/index.lock").touch()
    with pytest.raises(VaultBusy, match="nothing was changed"):
        purge(house.ormah, PurgeParams(node_id=node), PERSON, lambda *_: None)
    assert house.head == head
    assert house.path(node).exists()


def test_an_undo_of_several_says_how_many_were_undone(house: JobsHouse) -> None:
    nodes = [house.remember(f"bee number {number} lives in hive {number * 7}") for number in range(3)]
    ops = house.git("log", "-3", "--format=%(trailers:key=Ormah-Op,valueonly)").split()
    lock, progress = held_from(house, lambda done, what: what == "undoing" and done == 1)
    with pytest.raises(VaultBusy) as caught:
        undo(house.ormah, UndoParams(list(ops)), PERSON, progress)
    lock.unlink()
    assert "nothing was changed" not in caught.value.message
    assert "1 of 3 changes were undone before that" in caught.value.message
    assert len(caught.value.data["undone"]) == 1
    found = {node for node in nodes if node in house.found("bee number hive")}
    assert found == set(nodes[:2])
