"""A scan while a commit of ours is between the branch and the listeners: it waits for it, and does not take it for a person's."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.vault.observed import ONE, TWO, House, uuid

THREE = uuid(3)


class Slow:
    """A house whose writer stops, when asked to, once the branch has its commit, and goes on when it is let go."""

    def __init__(self, root: Path) -> None:
        self.stopping = False
        self.step = "ref"
        self.there = threading.Event()
        self.go_on = threading.Event()
        self.house = House(root, at=self._at)
        self.path = self.house.remember("first version", title="Title", node_id=ONE)
        self.house.settle()

    def _at(self, step: str) -> None:
        if step == self.step and self.stopping:
            self.there.set()
            assert self.go_on.wait(120)

    def write(self, text: str, node_id: str) -> threading.Thread:
        """Begin to store a memory in another thread; returns when HEAD has it, and nobody was told."""
        self.stopping = True
        thread = threading.Thread(target=self.house.remember, args=(text,), kwargs={"node_id": node_id})
        thread.start()
        assert self.there.wait(120)
        return thread

    def let_go(self, seconds: float = 0.0) -> None:
        threading.Timer(seconds, self.go_on.set).start()


@pytest.fixture
def slow(tmp_path: Path) -> Iterator[Slow]:
    slow = Slow(tmp_path / "vault")
    yield slow
    slow.go_on.set()
    slow.house.close()


@pytest.mark.parametrize("step", ["ref", "placed"])
def test_a_scan_waits_for_a_commit_of_ours_and_leaves_its_files_alone(slow: Slow, step: str) -> None:
    house = slow.house
    slow.step = step
    writer = slow.write("on its way", TWO)
    calls = len(house.index.calls)
    slow.let_go(0.1)
    result = house.scan()
    writer.join()
    assert (result.indexed, result.edited, result.waiting, len(house.index.calls)) == (0, 0, set(), calls)
    assert house.index.head == house.git("rev-parse", "HEAD")
    assert len(house.index.find("on its way")) == 1
    house.settle()


def test_a_commit_that_comes_during_a_scan_asks_for_no_other(slow: Slow) -> None:
    house = slow.house
    house.write(slow.path, house.read(slow.path).replace(b"first", b"second"))
    house.git("commit", "-qam", "by hand")
    writers = []

    def progress(done: int, of: int) -> None:
        if not writers:
            writers.append(slow.write("on its way", TWO))
            slow.let_go(0.1)

    result = house.scan(progress=progress)
    writers[0].join()
    assert (result.indexed, result.waiting, result.waiting_until) == (1, set(), None)
    assert house.index.head == house.git("rev-parse", "HEAD")
    house.settle()


def test_whether_the_index_is_behind_is_asked_once_ours_are_told(slow: Slow) -> None:
    house = slow.house
    assert not house.reconciler.lacks_head()
    writer = slow.write("on its way", TWO)
    slow.let_go(0.1)
    assert not house.reconciler.lacks_head()
    writer.join()
    house.git("commit", "-q", "--allow-empty", "-m", "by hand")
    assert house.reconciler.lacks_head()


def test_an_edit_over_a_file_that_is_on_its_way_is_taken_in(slow: Slow) -> None:
    house = slow.house
    slow.step = "placed"
    writer = slow.write("on its way", TWO)
    paths = (file.relative_to(house.root).as_posix() for file in house.root.rglob("*.md"))
    (path,) = (one for one in paths if b"on its way" in house.read(one))
    house.write(path, house.read(path).replace(b"on its way", b"somebody was here"))
    slow.go_on.set()
    writer.join()
    house.settle()
    assert house.index.find("somebody was here") == [path]
    assert "somebody was here" in house.git("show", f"HEAD:{path}")


def test_packing_waits_until_nobody_writes(slow: Slow) -> None:
    vault, stopping = slow.house.vault, threading.Event()
    assert vault.wait_until_quiet(0.3, 3600.0, stopping)
    begun = time.monotonic()
    slow.house.remember("another one", node_id=TWO)
    assert vault.wait_until_quiet(0.3, 3600.0, stopping)
    assert time.monotonic() - begun >= 0.3
    slow.house.remember("and one more", node_id=THREE)
    assert vault.wait_until_quiet(3600.0, 0.1, stopping)  # its patience has an end
    stopping.set()
    assert not vault.wait_until_quiet(3600.0, 3600.0, stopping)
