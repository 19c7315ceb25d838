"""What the daemon may not read or write: unreadable notes and folders, folders that are read only. No memory is taken for deleted, what
cannot be done is refused by name, `doctor` says what to mend, and afterwards everything goes on by itself.

As root the daemon runs without root's rights (tests/without_rights.py): root may read everything."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ormahd.errors import InvalidNote, OrmahError, Unavailable
from tests import without_rights
from tests.crash.memories import Told
from tests.house import House, open_house, wait_until

pytestmark = pytest.mark.skipif(
    without_rights.command() is None, reason="this machine lets root run nothing without its rights"
)


def scan(told: Told) -> None:
    told.house.call("admin.run_task", name="index_updater")


def settled(told: Told) -> None:
    """As if nothing had been."""
    wait_until(lambda: told.house.call("hello").phase == "ready", "it is ready")
    scan(told)
    told.settled()
    wait_until(lambda: "Permission denied" not in told.findings(), told.findings, 60)


@pytest.fixture(scope="module")
def told() -> Iterator[Told]:
    with open_house() as house:
        house.before = without_rights.command() or ()
        without_rights.given(house.home)
        house.start()
        told = Told(house)
        for _ in range(3):
            told.remember("lamps")
        told.remember()
        yield told


@contextlib.contextmanager
def locked(mode: int, *paths: Path) -> Iterator[None]:
    """Those with other permissions, in this order, and back."""
    before = [(path, path.stat().st_mode) for path in paths]
    try:
        for path in paths:
            path.chmod(mode)
        yield
    finally:
        for path, was in reversed(before):
            path.chmod(was)


def folders(top: Path) -> list[Path]:
    """A folder and all below it but git's, the innermost first."""
    found = [Path(where) for where, _, _ in os.walk(top) if ".git" not in Path(where).relative_to(top).parts]
    return sorted(found, key=lambda path: -len(path.parts))


SOAK = pytest.mark.soak
"""A start without a fork takes some seconds: the suite has one or two of each kind."""


@pytest.mark.parametrize(
    ("what", "when"),
    [
        ("a note", "running"),
        ("a folder", "running"),
        ("a folder that may be listed", "running"),
        ("a folder", "before"),
        pytest.param("a note", "before", marks=SOAK),
        pytest.param("a folder that may be listed", "before", marks=SOAK),
    ],
)
def test_what_may_not_be_read_is_no_deletion(told: Told, what: str, when: str) -> None:
    house, node = told.house, next(iter(told.memories))
    note = told.path(node)
    head = house.git("rev-parse", "HEAD")
    if when == "before":
        house.kill()
    with locked(0o600 if "listed" in what else 0, note if what == "a note" else note.parent):
        if when == "before":
            house.start()
        scan(told)
        told.all_are_found()
        with pytest.raises(InvalidNote, match=r"cannot be read: Permission denied; nothing was changed") as refused:
            house.call("agent.update", node_id=node, content="other words")
        assert "readable for the user that runs the daemon" in (refused.value.hint or "")
        assert note.relative_to(house.vault).as_posix().rpartition("/")[0] in told.findings()
        assert house.call("admin.verify").ok
        scan(told)
        assert "Permission denied" in told.findings()
        assert house.git("rev-parse", "HEAD") == head
    settled(told)
    assert not [path for path in house.index_dir.iterdir() if "damaged" in path.name], "a sound index was set aside"


@pytest.mark.parametrize("when", ["running", pytest.param("before", marks=SOAK)])
def test_an_index_is_made_of_what_was_committed_where_the_file_may_not_be_read(told: Told, when: str) -> None:
    note = told.path(next(iter(told.memories)))
    with locked(0, note):
        if when == "before":
            told.house.kill()
            (told.house.index_dir / "index.sqlite3").unlink()
            told.house.start()
        else:
            told.house.call("admin.rebuild")
        told.all_are_found()
        assert told.house.call("admin.verify").ok
    settled(told)


READ_ONLY: dict[str, Callable[[House], list[Path]]] = {
    "the vault": lambda house: folders(house.vault),
    "the folder of notes": lambda house: [house.vault / "global" / "fact", *(house.vault / "global/fact").iterdir()],
    ".ormah": lambda house: folders(house.vault / ".ormah"),
    ".git": lambda house: [Path(where) for where, _, _ in os.walk(house.vault / ".git")],
    "git's objects": lambda house: [Path(where) for where, _, _ in os.walk(house.vault / ".git/objects")],
}


@pytest.mark.parametrize("what", READ_ONLY)
def test_where_nothing_can_be_written_reading_goes_on(told: Told, what: str) -> None:
    house = told.house
    paths = READ_ONLY[what](house)
    head, notes = house.git("rev-parse", "HEAD"), house.notes()
    with locked(0o500, *paths):
        scan(told)
        told.all_are_found()
        with pytest.raises(OrmahError) as refused:
            house.call("agent.remember", content="what cannot be kept")
        assert isinstance(refused.value, Unavailable), refused.value
        assert "nothing was changed" in refused.value.message
        assert "writable" in (refused.value.hint or "")
        assert f"nothing can be written in {house.vault}" in told.findings()
        assert (house.git("rev-parse", "HEAD"), house.notes()) == (head, notes)
    settled(told)
    assert "cannot be kept" not in told.findings()


@pytest.mark.parametrize("what", [pytest.param("the vault", marks=SOAK), ".ormah"])
def test_a_start_where_nothing_can_be_written_says_so_in_one_sentence(told: Told, what: str) -> None:
    house = told.house
    paths = READ_ONLY[what](house)
    where = house.vault if what == "the vault" else house.vault / ".ormah"
    house.kill()
    with locked(0o500, *paths):
        with pytest.raises(pytest.fail.Exception, match="ended with status 69") as ended:
            house.start()
        assert f"error: nothing can be written in {where}: Permission denied" in str(ended.value)
        assert "hint: make the folder writable" in str(ended.value)
        assert "Traceback" not in str(ended.value)
    house.start()
    settled(told)
