"""What the page makes of values: differences with their words marked, markdown, names and sentences."""

from __future__ import annotations

import pytest

from ormahctl.gateway.page import words
from tests.tables import rows

DIFFS = rows(__file__, "diffs")


@pytest.mark.parametrize(("text", "lines", "tally"), DIFFS)
def test_a_difference_marks_its_words(text: str, lines: list[list[str]], tally: str | None) -> None:
    assert [[one.how, str(one.html)] for one in words.diff(text)] == lines
    assert tally is None or words.tally(text) == tally


@pytest.mark.parametrize(("text", "html"), rows(__file__, "markdown_loads_and_runs_nothing"))
def test_markdown_loads_and_runs_nothing(text: str, html: str) -> None:
    assert str(words.markdown(text)) == html


@pytest.mark.parametrize(("text", "query", "html"), rows(__file__, "words_of_the_query_are_marked"))
def test_words_of_the_query_are_marked(text: str, query: str, html: str) -> None:
    assert str(words.marked(text, query)) == html


@pytest.mark.parametrize(("source", "name"), rows(__file__, "sources_have_names"))
def test_sources_have_names(source: str, name: str) -> None:
    assert words.who(source) == name


def test_large_texts_are_compared_in_bounded_time() -> None:
    old, new = words.changed_words("a " * 40_000, "b " * 40_000)
    assert "<del>" not in old
    assert str(new).startswith("b b ")
