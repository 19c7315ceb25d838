"""A session in a project begins with that project: its core, its latest decisions and procedures; then what is about the person."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from ormahd.whisper.greet import greet
from tests.jobs_house import JobsHouse, open_jobs_house


@pytest.fixture(scope="module")
def full() -> Iterator[JobsHouse]:
    with open_jobs_house() as house:
        house.remember("Drinks coffee black", tier="core", title="coffee", type="preference")
        house.remember("Lives in Dublin", about_self=True, title="dublin")
        for number in range(6):
            house.remember(f"Decided: pier {number}", type="decision", space="shop", title=f"pier {number}")
        house.remember("Run just ship", type="procedure", space="shop", title="ship")
        house.remember("Money is integer cents", tier="core", space="shop", title="money")
        house.remember("The office has a cat", space="shop", title="cat")
        house.remember("Decided elsewhere", type="decision", space="library", title="library")
        house.remember("Decided for everyone", type="decision", title="everyone")
        gone = house.remember("Decided and dropped", type="decision", space="shop", title="dropped")
        house.update(gone, tier="archival")
        yield house


@pytest.mark.parametrize(
    ("space", "titles"),
    [
        ("shop", ["money", "ship", "pier 5", "pier 4", "pier 3", "coffee", "dublin"]),
        ("library", ["library", "coffee", "dublin"]),
        ("empty", ["coffee", "dublin"]),
        (None, ["coffee", "dublin"]),
    ],
)
def test_what_a_session_begins_with(full: JobsHouse, space: str | None, titles: list[str]) -> None:
    said = greet(full.ormah, space=space, known=())
    assert re.findall(r"\*\*\[\w+\]\*\* (.*?) \(id:", said.text) == titles
