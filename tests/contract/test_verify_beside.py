"""Comparing the index with the vault takes seconds in a large one: it reports its progress, and no write waits for it."""

from __future__ import annotations

import threading

import pytest

from ormahd.actions.outdated import forget
from ormahd.actions.remember import store_memory
from ormahd.actions.update import update
from ormahd.api import Difference, ForgetParams, UpdateParams
from ormahd.jobs.runner import IndexUpdater, Runner
from ormahd.model.node import CreateNodeRequest
from tests.contract import jobs_house
from tests.contract.jobs_house import ME, House
from tests.jobs_house import open_jobs_house

house = jobs_house.house
STAGES = ("the database", "files", "words", "links", "vectors", "Chroma")


def write(house: House, ids: list[str]) -> None:
    store_memory(house.ormah, CreateNodeRequest(content="Written while the index is compared, said nobody."), ME)
    update(house.ormah, UpdateParams(node_id=ids[0], content="Changed while the index is compared."), ME)
    forget(house.ormah, ForgetParams(node_id=ids[1]), ME)


@pytest.mark.parametrize("stage", STAGES)
def test_a_write_passes_at_each_stage_and_is_no_difference(house: House, stage: str) -> None:
    ids = house.several(4)
    assert house.ormah.index.wait_filled(60, settled=True)
    seen: list[str] = []

    def progress(_done: int, _total: int, said: str) -> None:
        if said == stage and stage not in seen:
            writer = threading.Thread(target=write, args=(house, ids), daemon=True)
            writer.start()
            writer.join(120)
            assert not writer.is_alive(), f"a write at {stage} waited for the comparison"
        seen.append(said)

    assert house.ormah.verify(progress) == []
    assert set(seen) == set(STAGES)


def test_what_does_differ_is_found_while_somebody_writes(house: House) -> None:
    ids = house.several(4)
    assert house.ormah.index.wait_filled(60, settled=True)
    lost = house.path(ids[3])
    house.ormah.index.apply({}, [lost.relative_to(house.vault).as_posix()], head=None)
    times = 0

    def progress(_done: int, _total: int, said: str) -> None:
        nonlocal times
        if said == "the database":
            times += 1
            store_memory(house.ormah, CreateNodeRequest(content=f"Written for the {times}. time."), ME)

    found = house.ormah.verify(progress)
    assert [(one.what, one.path) for one in found] == [("missing", lost.relative_to(house.vault).as_posix())]
    assert isinstance(found[0], Difference)
    assert times > 1, "it was looked at again"


def test_a_write_passes_while_the_folder_is_scanned(house: House) -> None:
    """The scan that `jobs run index_updater` makes says how far it is, and what is written meanwhile is found after it."""
    ids = house.several(4)
    for number in range(3):
        (house.vault / f"typed {number}.md").write_text(f"Typed by hand, number {number}.\n")
    seen: list[tuple[int, int]] = []

    def progress(done: int, total: int, said: str) -> None:
        if said != "index_updater: files":
            return
        if not seen:
            writer = threading.Thread(target=write, args=(house, ids), daemon=True)
            writer.start()
            writer.join(120)
            assert not writer.is_alive(), "a write waited for the scan"
        seen.append((done, total))

    (ran,) = Runner(house.ormah, [IndexUpdater()], None).run(["index_updater"], progress=progress)
    assert ran.error is None
    assert seen == [(number + 1, len(seen)) for number in range(len(seen))]
    assert len(seen) >= 3
    house.ormah.reconciler.scan()
    assert house.ormah.verify() == []


def test_an_edit_that_no_scan_has_brought_in_yet_is_no_difference() -> None:
    with open_jobs_house() as jobs:
        ormah, file = jobs.ormah, jobs.ormah.vault.root / "found.md"
        file.write_text("About pomelos.\n")
        assert ormah.verify() == []
        ormah.reconciler.scan()
        file.write_text(file.read_text() + "About takins.\n")
        assert ormah.verify() == []
        ormah.reconciler.scan()
        ormah.index.apply({}, ["found.md"], head=None)
        assert [(one.what, one.path) for one in ormah.verify()] == [("missing", "found.md")], "a lost row is one"
