"""A page of HTML is read as text with headings, whatever its markup; what is no page is left as it is."""

from __future__ import annotations

import time

import pytest

from ormahd.ingest.documents.sections import sections
from ormahd.ingest.documents.web_page import is_page, markdown_of
from tests.tables import rows

BEGIN = "<!DOCTYPE html>\n<html>"


@pytest.mark.parametrize(("page", "text"), rows(__file__, "a_page_becomes_text"))
def test_a_page_becomes_text(page: str, text: str) -> None:
    found, title = markdown_of(f"{BEGIN}<head><title>The\n quay</title></head><body>{page}</body></html>")
    assert (found, title) == (text, "The quay")


def test_its_sections_have_its_headings() -> None:
    text, title = markdown_of(
        f"{BEGIN}<title>Harbour</title>It has a long quay.<h1>Crane</h1><p>It lifts ten tons.</p>"
    )
    assert [(one.title, one.text) for one in sections(text, title)] == [
        ("Harbour", "It has a long quay."), ("Crane", "It lifts ten tons."),
    ]  # fmt: skip


@pytest.mark.parametrize(("text", "page"), rows(__file__, "a_page_is_known_by_its_beginning"))
def test_a_page_is_known_by_its_beginning(text: str, page: bool) -> None:
    assert is_page(text) is page


@pytest.mark.parametrize(
    "piece", ["<", "<a", "<a ", "<!", "<!--", "</", "<script>", "<title>", "&", "<p", "<![CDATA[", "<?", "--><!--"]
)
def test_no_page_takes_long(piece: str) -> None:
    begun = time.process_time()
    markdown_of(BEGIN + piece * (500_000 // len(piece)))
    assert time.process_time() - begun < 8
