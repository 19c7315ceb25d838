"""The desk for tests of commands (see ctl_desk.py)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.ctl_desk import Desk, open_desk


@pytest.fixture
def desk() -> Iterator[Desk]:
    with open_desk() as found:
        yield found
