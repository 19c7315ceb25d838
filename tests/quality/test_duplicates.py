"""Two memories become one by themselves only where nothing that carries meaning differs: floors of `text.sameness`."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from ormahd.text.sameness import Same, same
from tests.quality.duplicates import DIFFERENT, OTHER_WORDS, SAME, TITLES, Figures, measure, pairs, texts

LEAST_RECALL = 0.95
TABLES = tomllib.loads(Path(__file__).with_name("test_duplicates.toml").read_text("utf-8"))


@pytest.fixture(scope="module")
def figures() -> Figures:
    return measure(pairs(texts(), rounds=4))


def test_nothing_that_differs_is_merged(figures: Figures) -> None:
    assert figures.wrong == []
    assert figures.negatives.total() > 4_000
    assert set(figures.negatives) == {*DIFFERENT, *TITLES}, "every kind was met"


def test_what_says_the_same_in_the_same_words_is_merged(figures: Figures) -> None:
    assert figures.share([*SAME, "untitled"]) >= LEAST_RECALL
    assert set(figures.recall) == {*SAME, *OTHER_WORDS, "untitled"}


@pytest.mark.parametrize(("one", "other"), TABLES["the_same"])
def test_the_same(one: str, other: str) -> None:
    assert same(None, one, None, other) is not None


@pytest.mark.parametrize(("one", "other"), TABLES["not_the_same"])
def test_not_the_same(one: str, other: str) -> None:
    assert same(None, one, None, other) is None


@pytest.mark.parametrize(
    ("one", "other", "right"),
    [
        (("Ports", "It listens on 80"), ("ports", "It listens on 80."), Same.EXACT),
        (("The ports", "It listens on 80"), ("Ports", "It listens on 80"), Same.NEAR),
        (("Listens on 80", "The proxy listens on 80"), (None, "The proxy listens on 80"), Same.NEAR),
        (("Staging", "It listens on 80"), ("Production", "It listens on 80"), None),
        (("Staging", "It listens on 80"), (None, "It listens on 80"), None),
        (("No staging", "There is no word of staging"), ("Staging", "There is no word of staging"), None),
    ],
)  # fmt: skip
def test_titles(one: tuple[str | None, str], other: tuple[str | None, str], right: Same | None) -> None:
    assert same(*one, *other) is right
    assert same(*other, *one) is right
