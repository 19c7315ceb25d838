"""A home for tests that connect agents (see connecting.py)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.setup.connecting import a_home


@pytest.fixture
def home() -> Iterator[Path]:
    with a_home() as found:
        yield found
