"""A scan while a commit of ours is between the branch and the telling: it is waited for, not taken for somebody else's."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ormahd.watch import reconciler
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
def slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Slow]:
    monkeypatch.setattr(reconciler, "OURS_S", 120.0)  # the disk of a busy machine takes longer than a second
    slow = Slow(tmp_path / "vault")
    yield slow
    slow.go_on.set()
    slow.house.close()


def test_a_scan_waits_for_what_is_being_told_and_looks_at_its_part_alone(slow: Slow) -> None:
    house = slow.house
    house.write("far/away.md", "not looked at")
    writer = slow.write("on its way", TWO)
    slow.let_go(0.1)
    result = house.scan(paths=[slow.path])
    writer.join()
    assert (result.waiting, result.waiting_until, result.edited) == (set(), None, 0)
    assert house.index.head == house.reconciler.told == house.git("rev-parse", "HEAD")
    assert house.scan().edited == 1
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
    assert house.index.head == house.reconciler.told == house.git("rev-parse", "HEAD")
    house.settle()


def test_whether_the_index_is_behind_is_asked_once_ours_are_told(slow: Slow) -> None:
    house = slow.house
    assert not house.reconciler.behind()
    writer = slow.write("on its way", TWO)
    slow.let_go(0.1)
    assert not house.reconciler.behind()
    writer.join()
    house.git("commit", "-q", "--allow-empty", "-m", "by hand")
    assert house.reconciler.behind()


def test_a_commit_of_somebody_else_is_seen_though_we_write_all_the_time(
    slow: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reconciler, "OURS_S", 0.2)
    house = slow.house
    other = house.remember("first other", title="Other", node_id=TWO)
    house.write(other, house.read(other).replace(b"first", b"second"))
    house.git("commit", "-qam", "by hand")
    writer = slow.write("on its way", THREE)
    begun = time.monotonic()
    result = house.scan(paths=[slow.path])  # ours is not told before the scan has ended
    assert time.monotonic() - begun >= 0.2
    assert result.indexed >= 1
    assert house.index.find("second other") == [other]
    assert result.waiting_until is None or result.waiting == {""}
    slow.go_on.set()
    writer.join()
    house.settle()
    assert house.index.head == house.git("rev-parse", "HEAD")
    assert len(house.index.find("on its way")) == 1


@pytest.mark.parametrize("step", ["ref", "placed"])
def test_a_file_that_is_on_its_way_is_left_to_whoever_writes_it(
    slow: Slow, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Its commit tells the index of it: a scan that is quicker would read it, decide on it and index it for nothing."""
    monkeypatch.setattr(reconciler, "OURS_S", 0.05)
    house = slow.house
    slow.step = step
    told: list[str] = []
    apply = house.reconciler._apply

    def counted(upserts, removals, head) -> None:  # type: ignore[no-untyped-def]
        told.extend(upserts)
        apply(upserts, removals, head)

    house.reconciler._apply = counted
    writer = slow.write("on its way", TWO)
    result = house.scan()
    assert (result.indexed, result.edited, told) == (0, 0, [])
    assert house.reconciler.told != house.git("rev-parse", "HEAD")
    slow.go_on.set()
    writer.join()
    assert len(house.index.find("on its way")) == 1
    house.settle()
    assert house.index.head == house.reconciler.told == house.git("rev-parse", "HEAD")


def test_an_edit_over_a_file_that_is_on_its_way_is_taken_in(slow: Slow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconciler, "OURS_S", 0.05)
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
    assert vault.wait_rested(0.3, 3600.0, stopping)
    begun = time.monotonic()
    slow.house.remember("another one", node_id=TWO)
    assert vault.wait_rested(0.3, 3600.0, stopping)
    assert time.monotonic() - begun >= 0.3
    slow.house.remember("and one more", node_id=THREE)
    assert vault.wait_rested(3600.0, 0.1, stopping)  # its patience has an end
    stopping.set()
    assert not vault.wait_rested(3600.0, 3600.0, stopping)
