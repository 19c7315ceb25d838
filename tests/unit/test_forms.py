"""Other forms of words that full text search holds: parts of identifiers, initials, names."""

from __future__ import annotations

import pytest

from ormahd.text.forms import GAP, NAME, READ, forms, identifiers, initials_terms, is_written_out, name_term, parts
from tests.tables import rows


@pytest.mark.parametrize(("name", "found"), rows(__file__, "parts_of_an_identifier"))
def test_parts_of_an_identifier(name: str, found: list[str]) -> None:
    assert parts(name) == found


def test_only_words_with_an_inner_capital_are_identifiers() -> None:
    text = "The parseTideRow of `XMLFeedReader` in NASA, Word and snake_case; parseTideRow again, " + "aB" * 40
    assert identifiers(text) == ["parseTideRow", "XMLFeedReader"]


@pytest.mark.parametrize(
    ("acronym", "text", "there"), rows(__file__, "an_acronym_is_spelled_by_words_that_follow_each_other")
)
def test_an_acronym_is_spelled_by_words_that_follow_each_other(acronym: str, text: str, there: bool) -> None:
    assert is_written_out(acronym, text) is there
    held = set(forms([], text).split())
    assert not there or held.issuperset(initials_terms(acronym))


def test_names_are_the_words_of_titles_tags_and_headings() -> None:
    held = set(forms(["Kingfisher gateway", "port"], "# Heading of Marisol\n\nThe body speaks of Otto.").split())
    assert {one for one in held if one.startswith(NAME)} == set(
        map(name_term, ["kingfisher", "gateway", "port", "heading", "marisol"])
    )


def test_forms_are_bounded_and_the_same_again() -> None:
    text = "fetchLedgerRow reads the ledger row. " * 5_000
    assert forms(["Title"], text) == forms(["Title"], text[:READ])
    assert forms(["Title"], text).count(GAP) == 1
    assert forms([], "") == ""
