"""A section says whose it is: the headings above it are searched and shown with it, in copies and in sources."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ormahd.actions.amend import PERSON, Caller
from ormahd.api import IngestDocumentParams
from ormahd.ingest.documents.copies import ingest_document
from tests.jobs_house import JobsHouse, open_jobs_house

DOCUMENTS = {
    "house": "# House\n\n## Router\n\n### Address\n\nIt is 192.168.1.1.\n\n### Care\n\nReboot it on the first of the month.\n\n"
    "## Printer\n\n### Address\n\nIt is 192.168.1.20.\n\n### Care\n\nClean the drum twice a year.\n\n"
    "## Boiler\n\n### Care\n\nThe service is due in October.\n",
    "CHANGELOG": "# Changelog\n\n## 2.4\n\n### Added\n\n- export of tide tables\n\n### Fixed\n\n- a leak of file handles\n\n"
    "## 2.3\n\n### Added\n\n- a night mode for the bridge\n\n### Fixed\n\n- the clock in winter\n",
    "faq": "Harbour\n=======\n\nBerths\n------\n\n### How much is it?\n\nTwo euros for each metre.\n\n### Whom do I call?\n\nInes, at extension 12.\n\n"
    "Crane\n-----\n\n### How much is it?\n\nForty euros for each hour.\n\n### Whom do I call?\n\nTomek, at extension 30.\n",
    "meetings": "# Meetings of the board\n\n## 2026-03-02\n\n### Decided\n\nThe jetty is painted green.\n\n"
    "## 2026-06-08\n\n### Decided\n\nThe shed will be sold to the club.\n",
}
ASKED = [
    ("what is the address of the router?", "192.168.1.1.", "Router"),
    ("what is the printer's address?", "192.168.1.20", "Printer"),
    ("what care does the boiler need?", "October", "Boiler"),
    ("how do I care for the router?", "Reboot", "Router"),
    ("what was added in version 2.4?", "tide tables", "2.4"),
    ("what was fixed in 2.3?", "clock in winter", "2.3"),
    ("how much is the crane?", "Forty euros", "Crane"),
    ("how much is a berth?", "Two euros", "Berths"),
    ("whom do I call about the crane?", "Tomek", "Crane"),
    ("what was decided in the meeting of 2026-06-08?", "sold to the club", "2026-06-08"),
]


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
