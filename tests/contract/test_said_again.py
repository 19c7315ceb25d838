"""What was said last holds, also when it was said before: a fact changes, and changes back."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import TypeAlias

import pytest

from ormahd.actions.amend import PERSON, Caller
from ormahd.actions.outdated import outdated
from ormahd.actions.remember import store_memory
from ormahd.actions.transfer import export, import_lines
from ormahd.api import ExportParams, ImportParams, OutdatedParams
from ormahd.index.rows import Filter
from ormahd.ingest.bring_in import archive
from ormahd.ingest.extraction import Extraction
from ormahd.model.node import CreateNodeRequest
from tests.extraction_house import transcript
from tests.jobs_house import AGENT, JobsHouse, open_jobs_house
from tests.tables import rows

Way: TypeAlias = Callable[[JobsHouse, str], str | None]

CHANGES = rows(__file__, "changes")
"""(what was so first, what was so then)"""


@pytest.fixture(scope="module")
def kept() -> Iterator[JobsHouse]:
    with open_jobs_house(**{"embedding.model": "all-MiniLM-L6-v2"}) as found:
        yield found


@pytest.fixture
def house(kept: JobsHouse) -> Iterator[JobsHouse]:
    """The module's house, emptied again after each test."""
    yield kept
    kept.empty()


def by_agent(house: JobsHouse, text: str, replaces: str | None = None) -> str | None:
    house.go(days=30)
    done = store_memory(
        house.ormah, CreateNodeRequest(content=text, space="shop"), AGENT, replaces=[replaces] if replaces else []
    )
    return None if done.existing else done.node_id


def by_import(house: JobsHouse, text: str) -> str | None:
    house.go(days=30)
    line = json.dumps({"content": text, "space": "shop", "created": house.now.isoformat()})
    assert (
        import_lines(house.ormah, ImportParams(lines=[line]), AGENT).added
        + import_lines(house.ormah, ImportParams(lines=[line]), AGENT).skipped
        == 2
    )
    return None


def by_session(house: JobsHouse, text: str) -> str | None:
    house.go(days=30)
    name = f"aaaa{house.now:%m%d%H%M}-0000-4000-8000-000000000001"
    said = [f"Remember that {text[0].lower()}{text[1:]}"]
    archive(
        house.ormah,
        transcript(house.home / "t" / f"{name}.jsonl", said, session=name, at=house.now - timedelta(hours=1)),
    )
    Extraction(house.ormah).settle()
    return None


def holds(house: JobsHouse, text: str, space: str | None = "shop") -> None:
    house.go(seconds=1)
    hits = house.recall(text, space=space).results
    assert hits[0].content.casefold() == text.casefold(), [hit.content for hit in hits]
    assert hits[0].older_than is None
    assert hits[0].id in house.ormah.index.ids(Filter(alive_at=house.now))


@pytest.mark.parametrize("way", [by_agent, by_import, by_session])
@pytest.mark.parametrize(("first", "then"), CHANGES)
def test_what_was_said_last_holds(house: JobsHouse, first: str, then: str, way: Way) -> None:
    for text in (first, then, first, then, first):
        way(house, text)
        holds(house, text)


PARAPHRASES = [
    (*CHANGES[0], "Orders of the shop are stored in Postgres."),
    (*CHANGES[1], "The pilots' staging server listens on port 8443."),
    (*CHANGES[2], "Ines is the harbour master who is on duty."),
    (*CHANGES[4], "Node 18 is needed to build the shop."),
]


@pytest.mark.parametrize(
    ("way", "first", "then", "again"),
    [(by_agent, *one) for one in PARAPHRASES] + [(by_session, *PARAPHRASES[0]), (by_session, *PARAPHRASES[2])],
)
def test_it_may_be_said_again_in_other_words(house: JobsHouse, way: Way, first: str, then: str, again: str) -> None:
    for text in (first, then, again):
        way(house, text)
    hits = house.recall(then, space="shop").results
    assert hits[0].content == again
    assert hits[0].older_than is None


@pytest.mark.parametrize(("first", "then"), CHANGES)
def test_a_replaced_memory_that_is_said_again_holds(house: JobsHouse, first: str, then: str) -> None:
    older = by_agent(house, first)
    by_agent(house, then, replaces=older)
    again = by_agent(house, first)
    assert again not in {None, older}
    holds(house, first)
    assert by_agent(house, first) is None, "it holds already"


def test_an_outdated_memory_that_is_said_again_holds(house: JobsHouse) -> None:
    for text in (CHANGES[0][0], CHANGES[5][0]):
        made = by_agent(house, text)
        assert made is not None
        outdated(house.ormah, OutdatedParams(node_id=made, reason="no longer so"), Caller(PERSON))
        assert by_agent(house, text) is not None
        holds(house, text)


def test_an_import_of_what_was_exported_adds_nothing(house: JobsHouse) -> None:
    for text in (*CHANGES[0], CHANGES[0][0]):
        by_agent(house, text)
    lines = [
        json.dumps(item)
        for item in export(house.ormah.index, house.ormah.vault, ExportParams(after=None, limit=100)).items
    ]
    done = import_lines(house.ormah, ImportParams(lines=lines), AGENT)
    assert (done.added, done.skipped) == (0, len(lines))


def test_one_session_in_which_it_changes_twice(house: JobsHouse) -> None:
    first, then = CHANGES[4]
    said = [f"Remember that {text[0].lower()}{text[1:]}" for text in (first, then, first)]
    archive(house.ormah, transcript(house.home / "t" / "one.jsonl", said, at=house.now - timedelta(hours=1)))
    Extraction(house.ormah).settle()
    holds(house, first)
