"""The desk for tests of commands (see ctl_desk.py), and the time zone of this machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from tests.unit.ctl_desk import Desk, open_desk


@pytest.fixture
def zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Takes this process to a time zone, until the test ends."""

    def move(name: str) -> None:
        monkeypatch.setenv("TZ", name)
        time.tzset()

    yield move
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def desk() -> Iterator[Desk]:
    with open_desk() as found:
        yield found
