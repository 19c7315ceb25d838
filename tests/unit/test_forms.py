"""Other forms of words that full text search holds: parts of identifiers, initials, names."""

from __future__ import annotations

import pytest

from ormahd.text.forms import (
    GAP,
    NAME,
    READ,
    forms,
    identifiers,
    initials_terms,
    name_term,
    parts,
    spells,
)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("parseTideRow", ["parse", "tide", "row"]),
        ("XMLFeedReader", ["xml", "feed", "reader"]),
        ("useMap2D", ["use", "map", "2", "d"]),
        ("JSONLinesWriter", ["json", "lines", "writer"]),
        ("word", ["word"]),
        ("", []),
    ],
)
def test_parts_of_an_identifier(name: str, found: list[str]) -> None:
    assert parts(name) == found


def test_only_words_with_an_inner_capital_are_identifiers() -> None:
    text = "The parseTideRow of `XMLFeedReader` in NASA, Word and snake_case; parseTideRow again, " + "aB" * 40
    assert identifiers(text) == ["parseTideRow", "XMLFeedReader"]


@pytest.mark.parametrize(
    ("acronym", "text", "there"),
    [
        ("RPO", "Recovery point objective is an hour", True),
        ("RPO", "recovery, point objective", False),
        ("RPO", "point objective recovery", False),
        ("VFN", "Der Verein für Naturkunde tagt", True),
        ("DMV", "the Department of Motor Vehicles", True),
        ("NSDD", "North Sea Data Days", True),
        ("TS", "im Tierheim Süd", True),
        ("TS", "the tide stops", False),
        ("ΕΜΠ", "Εθνικό Μετσόβιο Πολυτεχνείο", True),
    ],
)
def test_an_acronym_is_spelled_by_words_that_follow_each_other(acronym: str, text: str, there: bool) -> None:
    assert spells(acronym, text) is there
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
