"""A query that names only a time of which there is no memory is searched by its words, and says so."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.jobs_house import JobsHouse, open_jobs_house
from tests.tables import rows

NOTES = (
    "Deploys go out before noon, never on a Friday.", "Der Wochenmarkt ist am Samstag am Hafen.",
    "The harbour was dredged in March.", "Backups run in the evening.", "The retrospective of last week is on the wiki.",
    "El barco sale el lunes.",
)  # fmt: skip


@pytest.fixture(scope="module")
def old() -> Iterator[JobsHouse]:
    with open_jobs_house() as house:
        for text in NOTES:
            house.remember(text)
        house.go(days=400)
        yield house


@pytest.mark.parametrize(("query", "text"), rows(__file__, "its_words_are_searched"))
def test_its_words_are_searched(old: JobsHouse, query: str, text: int) -> None:
    found = old.recall(query)
    assert found.results
    assert found.results[0].content == NOTES[text]


def test_what_is_of_that_time_comes_alone(old: JobsHouse) -> None:
    made = old.remember("The crane was painted.")
    found = old.recall("today")
    assert ([hit.id for hit in found.results], found.degraded) == ([made], [])
    assert old.recall("yesterday").degraded == ["period"]
