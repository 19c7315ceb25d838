"""A scan that runs beside a request to adopt, and a list of released files that changes without its files."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from ormahd.actions.adopting import adopt, release
from ormahd.api import AdoptParams, AdoptResult, ReleaseParams
from ormahd.note.values import NoteKind
from tests.jobs_house import AGENT, JobsHouse, open_jobs_house
from tests.vault.git_house import git

NAMES = ("a", "b", "c", "d", "e", "f")


@contextmanager
def opened(*, quiet: float) -> Iterator[JobsHouse]:
    with open_jobs_house(**{"vault.quiet_seconds": quiet}) as found:
        yield found


@contextmanager
def scanning(house: JobsHouse) -> Iterator[None]:
    """Scan without a pause, as the watcher does for files that are about to rest."""
    stop = threading.Event()

    def scans() -> None:
        while not stop.is_set():
            house.ormah.reconciler.scan()

    thread = threading.Thread(target=scans)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def adopt_all(house: JobsHouse) -> AdoptResult:
    return adopt(house.ormah, AdoptParams(everything=True, yes=True))


def memories(house: JobsHouse) -> set[str]:
    """The files at the top of the vault that are memories."""
    return {path for path, kind in house.ormah.index.kinds().items() if kind == NoteKind.NOTE and "/" not in path}


def differences(house: JobsHouse) -> list[str]:
    return [f"{one.path}: {one.detail}" for one in house.ormah.verify(lambda *_: None)]


def test_files_that_a_scan_adopts_during_the_request_are_part_of_its_run() -> None:
    with opened(quiet=0.5) as house:
        root = house.ormah.vault.root
        adopt(house.ormah, AdoptParams(everything=True, index=True))
        for name in NAMES:
            (root / f"{name}.md").write_text(f"About {name}, written just now.\n")
        with scanning(house):
            done = adopt_all(house)
        files = {f"{name}.md" for name in NAMES}
        assert {one.path for one in done.adopt} == files == memories(house)
        listed = git(root, "log", "--format=%(trailers:key=Ormah-Kind,valueonly,separator=)%(trailers:key=Ormah-Run,valueonly,separator=)")  # fmt: skip
        runs = {line.removeprefix("adopt") for line in listed.splitlines() if line.startswith("adopt")}
        assert done.run in runs
        assert len(runs) == 2, "the other is of the choice before"
        house.undo(run=done.run)
        house.ormah.reconciler.scan()
        assert memories(house) == set()
        assert [(root / path).read_text() for path in sorted(files)] == [
            f"About {n}, written just now.\n" for n in NAMES
        ]
        assert differences(house) == []


def test_a_file_that_counts_as_released_again_is_only_found() -> None:
    """The choice that cancelled its release is taken back alone, and the adoption that followed is not."""
    with opened(quiet=0.0) as house:
        file = house.ormah.vault.root / "run.md"
        file.write_text("About running.\n")
        house.ormah.reconciler.scan()
        release(house.ormah, ReleaseParams(["run.md"]), AGENT, lambda *_: None)
        done = adopt_all(house)
        assert memories(house) == {"run.md"}
        choice = git(house.ormah.vault.root, "log", "--grep=^Choose what becomes", "--format=%H").strip()
        house.undo(choice)
        house.ormah.reconciler.scan()
        assert "run.md" in house.ormah.reconciler.released.files()
        assert memories(house) == set()
        assert differences(house) == []
        assert done.op is not None
