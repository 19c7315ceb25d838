"""The kernel's events as they are read: few readings where few come, at once where many do, and none is lost."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ormahd.watch.source import GATHER_S, Source, native
from tests.house import wait_until


class Heard:
    """A folder that is watched, and what was told of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.told: set[str] = set()
        self.lost: list[str] = []
        self.source: Source = native(lambda path, _folder, _appeared: self.told.add(path), self.lost.append)
        self.source.add(str(folder))


@pytest.fixture
def heard(tmp_path: Path) -> Iterator[Heard]:
    one = Heard(tmp_path)
    yield one
    one.source.stop()
    assert not one.source.alive


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="inotify")
def test_what_comes_in_quick_succession_is_read_in_one_go(heard: Heard) -> None:
    reader, reads = heard.source._reader, []
    read = reader.read_events
    reader.read_events = lambda: reads.append(None) or read()
    begun = time.monotonic()
    for number in range(150):
        (heard.folder / f"{number}.md").write_text("x")
        time.sleep(0.002)
    wait_until(lambda: len(heard.told) == 150, "all of them were told")
    assert heard.lost == []
    assert len(reads) <= 2 + (time.monotonic() - begun) / GATHER_S


def test_a_flood_is_read_at_once(heard: Heard) -> None:
    """More than a reading takes: nothing is lost of it, so that no full scan is asked for."""
    for number in range(6000):
        (heard.folder / f"{number}.md").write_text("x")
    wait_until(lambda: len(heard.told) == 6000, "all of them were told")
    assert heard.lost == []
