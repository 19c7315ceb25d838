"""A section says whose it is: the headings above it are searched and shown with it, in copies and in sources."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ormahd.actions.amend import PERSON, Caller
from ormahd.api import IngestDocumentParams
from ormahd.ingest.documents.copies import ingest_document
from tests.jobs_house import JobsHouse, open_jobs_house
from tests.tables import rows

DOCUMENTS = dict(rows(__file__, "documents"))
ASKED = rows(__file__, "asked")


@pytest.fixture(scope="module")
def copied() -> Iterator[JobsHouse]:
    with open_jobs_house(**{"embedding.model": "all-MiniLM-L6-v2"}) as house:
        for name, text in DOCUMENTS.items():
            file = Path(house.home, f"{name}.md")
            file.write_text(text, "utf-8")
            ingest_document(house.ormah, IngestDocumentParams(str(file), space="home"), Caller(PERSON))
        yield house


@pytest.mark.parametrize(("question", "text", "whose"), ASKED)
def test_the_right_section_comes_first_and_names_its_subject(
    copied: JobsHouse, question: str, text: str, whose: str
) -> None:
    first = copied.recall(question, space="home").results[0]
    assert text in first.content
    assert whose in (first.title or "")
