"""The thread that looks after the index and the state: nothing that is reported to it is lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ormahd.actions.outdated import forget
from ormahd.errors import NotFound
from ormahd.index.index import Index
from ormahd.mender import DatabaseMender, pause
from ormahd.state.state import State
from tests.contract.jobs_house import open_house
from tests.contract.serving import until
from tests.jobs_house import AGENT, open_jobs_house

Mended = Callable[[Callable[[], None]], DatabaseMender]
NOW = datetime(2026, 11, 27, tzinfo=UTC)


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Mended]:
    index = Index.open(tmp_path / "index", clock=lambda: NOW)
    state = State(tmp_path / "state", clock=lambda: NOW)
    menders: list[DatabaseMender] = []

    def make(scan: Callable[[], None]) -> DatabaseMender:
        def nothing() -> None: ...

        mender = DatabaseMender(
            index, state, scan=scan, forget=nothing, differs=lambda: False, rebuild=nothing, warn=lambda _: None,
            rested=lambda: 0.0,
        )  # fmt: skip
        menders.append(mender)
        return mender

    yield make
    for one in menders:
        one.stop()
    index.close()
    state.close()


def test_what_is_reported_during_a_scan_is_brought_in_by_another(made: Mended) -> None:
    scans: list[bool] = []

    def scan() -> None:
        scans.append(True)
        if len(scans) == 1:
            mender.behind()

    mender = made(scan)
    mender.behind()
    until(lambda: not mender.at_work)
    assert len(scans) == 2


def test_it_is_tried_again_soon_however_often_it_failed() -> None:
    assert [pause(failures) for failures in (0, 1, 2, 3, 4, 5_000)] == [0.5, 1.0, 2.0, 4.0, 5.0, 5.0]


def test_what_a_replaced_index_says_is_asked_again_errors_too(monkeypatch: pytest.MonkeyPatch) -> None:
    with open_house(monkeypatch) as house:
        index, node_id = house.ormah.index, house.remember("The lamp is in the hall")
        calls: list[int] = []

        def act() -> str:
            calls.append(index.generation)
            if len(calls) == 1:
                index.begin_anew("the test says so")
                return index.resolve_known(node_id)  # it is empty now
            return index.resolve(node_id)

        assert house.ormah.mended(act) == node_id
        assert len(calls) == 2

        calls.clear()
        with pytest.raises(NotFound):
            house.ormah.mended(lambda: (calls.append(0), index.resolve("0" * 8)))
        assert len(calls) == 1, "an index that stayed has the last word"


def test_no_change_is_unseen_for_a_moment_when_the_index_leaves_memory() -> None:
    with open_jobs_house() as house:
        index, node_id, gone = house.ormah.index, house.remember("The lamp is in the hall"), house.remember("A chair.")
        assert index.into_memory("the disk is full")
        house.update(node_id, content="The lamp is in the cellar")
        forget(house.ormah, gone, AGENT)
        new = house.remember("The rake is in the shed")
        generation = index.generation
        assert index.back_to_file()
        assert not index.database.in_memory
        assert index.generation == generation
        assert index.note(node_id).content == "The lamp is in the cellar"
        assert [found for found, _ in index.search_text("rake", 5)] == [new]
        with pytest.raises(NotFound):
            index.resolve_known(gone)
        assert house.ormah.verify() == []


def test_an_index_that_missed_a_commit_is_complete_again_in_memory_and_back_in_its_file() -> None:
    with open_jobs_house() as house:
        ormah, node_id = house.ormah, house.remember("The lamp is in the hall")
        database = ormah.index.database
        full = database._now.writer
        full.execute(f"PRAGMA max_page_count = {full.execute('PRAGMA page_count').fetchone()[0]}")
        house.update(node_id, content="The lamp is in the cellar. " + "lamp " * 20_000)
        until(lambda: ormah.index.position == ormah.vault.head())
        until(lambda: not database.in_memory and not ormah.mender.at_work)
        assert ormah.index.position == ormah.vault.head()
        assert ormah.index.note(node_id).content.startswith("The lamp is in the cellar.")
        assert ormah.verify() == []
