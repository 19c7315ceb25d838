"""The comparison of index and vault takes minutes in a large vault: it delays neither people's edits nor the end of the daemon."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from ormahd.errors import Unavailable
from ormahd.watch.reconciler import LEAST_FILES
from tests.contract.jobs_house import House, open_house

FILES = 3 * LEAST_FILES


@pytest.fixture
def house(monkeypatch: pytest.MonkeyPatch) -> Iterator[House]:
    with open_house(monkeypatch, **{"vault.adopt": "all"}) as found:
        for number in range(FILES):
            (found.vault / f"Page {number}.md").write_text(f"The words of page {number}.\n")
        found.ormah.reconciler.scan()
        yield found


def test_edits_are_brought_in_while_the_index_is_compared_with_the_vault(house: House) -> None:
    edited = house.vault / "Page 0.md"
    scan = threading.Thread(target=house.ormah.reconciler.scan, daemon=True)
    found: list[bool] = []

    def is_found() -> bool:
        return bool(house.ormah.index.search_text("pigeons", 5))

    def progress(_done: int, _total: int, what: str) -> None:
        if what == "files" and scan.ident is None:
            edited.write_text("The pigeons came home.\n")
            scan.start()
        elif what == "words" and not found:  # all files are read
            found.append(is_found())

    assert house.ormah.verify(progress) == []
    assert found == [True], "the scan did not wait until all files were compared"
    scan.join(120)


def test_every_file_is_compared_though_scans_come_between(house: House) -> None:
    index, damaged = house.ormah.index, house.vault / f"Page {FILES - 1}.md"
    scans = threading.Event()

    def keep_scanning() -> None:
        while not scans.is_set():
            house.ormah.reconciler.scan()

    with index.database.write() as connection:
        connection.execute("UPDATE text SET content = 'other' WHERE number IN (SELECT number FROM file WHERE path = ?)", (damaged.name,))  # fmt: skip
    scanning = threading.Thread(target=keep_scanning, daemon=True)
    scanning.start()
    found = house.ormah.verify()
    scans.set()
    scanning.join(120)
    assert {one.path for one in found if one.path} == {damaged.name}


def test_it_ends_at_once_when_the_daemon_stops(house: House) -> None:
    calls: list[str] = []

    def progress(_done: int, _total: int, what: str) -> None:
        calls.append(what)
        if what == "files":
            house.ormah.phase = "stopping"

    with pytest.raises(Unavailable, match="Ormah is stopping"):
        house.ormah.verify(progress)
    assert calls[-1] == "files"


def test_an_index_in_memory_is_compared_without_scans_between(house: House) -> None:
    """No write passes a reader there: the scan and the comparison would wait for each other."""
    assert house.ormah.index.into_memory("its disk is full")
    before = house.ormah.vault.head()
    scan = threading.Thread(target=house.ormah.reconciler.scan, daemon=True)
    heads: set[str | None] = set()

    def progress(done: int, _total: int, what: str) -> None:
        if what == "files" and scan.ident is None:
            (house.vault / "Page 0.md").write_text("The pigeons came home.\n")
            scan.start()
        elif what == "files" and done > LEAST_FILES:
            heads.add(house.ormah.vault.head())

    assert house.ormah.verify(progress) == []
    assert heads == {before}, "a scan came between"
    scan.join(120)
    assert house.ormah.index.search_text("pigeons", 5)
