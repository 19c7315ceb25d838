"""Houses for tests (see tests/house.py)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.blackbox.by_hand import Hand, helpers
from tests.house import House, open_house, wait_until

__all__ = ["House", "open_house", "wait_until"]


@pytest.fixture
def house() -> Iterator[House]:
    """A house whose daemon the test starts itself."""
    with open_house() as found:
        yield found


@pytest.fixture
def daemon(request: pytest.FixtureRequest) -> Iterator[House]:
    """A fresh vault with a daemon that is ready; a parameter has further settings."""
    with open_house(**getattr(request, "param", {})) as found:
        found.start()
        yield found


@pytest.fixture(scope="module")
def shared() -> Iterator[House]:
    """One daemon for all tests of a file that do not mind each other's memories."""
    with open_house() as found:
        found.start()
        yield found


@pytest.fixture(params=[True, False], ids=["daemon", "helper"])
def hand(request: pytest.FixtureRequest) -> Iterator[Hand]:
    with open_house() as house:
        house.start()
        yield Hand(house, request.param)
        wait_until(lambda: not helpers(house), "the helper has ended with its git")
