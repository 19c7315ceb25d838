"""A house for tests of jobs (see tests/jobs_house.py)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ormahd.ormah import Ormah
from tests.contract import archiving
from tests.jobs_house import JobsHouse, open_jobs_house


@pytest.fixture
def ormah(tmp_path: Path) -> Iterator[Ormah]:
    """For tests of sessions (see archiving.py)."""
    with archiving.opened(tmp_path) as found:
        yield found


@pytest.fixture
def house() -> Iterator[JobsHouse]:
    with open_jobs_house() as found:
        yield found


@pytest.fixture
def unlinked() -> Iterator[JobsHouse]:
    """With no link that a test does not draw: a file of tests says `house = unlinked`."""
    with open_jobs_house(**{"linking.similarity": 1.0}) as found:
        yield found
