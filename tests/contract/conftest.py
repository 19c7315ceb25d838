"""A house for tests of jobs (see tests/jobs_house.py)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.jobs_house import JobsHouse, open_jobs_house


@pytest.fixture
def house() -> Iterator[JobsHouse]:
    with open_jobs_house() as found:
        yield found


@pytest.fixture
def unlinked() -> Iterator[JobsHouse]:
    """With no link that a test does not draw: a file of tests says `house = unlinked`."""
    with open_jobs_house(**{"linking.similarity": 1.0}) as found:
        yield found
