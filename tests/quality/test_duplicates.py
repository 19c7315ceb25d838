"""Two memories become one by themselves only where nothing that carries meaning differs: floors of `text.sameness`."""

from __future__ import annotations

import pytest

from ormahd.text.sameness import Same, same
from tests.quality.duplicates import DIFFERENT, OTHER_WORDS, SAME, TITLES, Figures, measure, pairs, texts

LEAST_RECALL = 0.95


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


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The user prefers tabs.", "user prefers   TABS"),
        ("We don't deploy on Fridays!", "We do not deploy on Fridays"),
        ("**Never** use *.py here", "never use *.py here"),
        ("- one point\n- another", "* one point\n* another"),
        ("The colour of the centre is grey", "the color of the center is gray"),
        ("A job runs every five minutes", "The job runs every 5 minutes."),
        ("Use `uv` for installs", "use uv for installs"),
        ("不用 Redis。", "不用 Redis"),
        ("Le serveur est à Paris.", "le serveur est à paris"),
    ],
)  # fmt: skip
def test_the_same(one: str, other: str) -> None:
    assert same(None, one, None, other) is not None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The port is 5432", "The port is 5433"),
        ("It costs 1.5", "It costs 15"),
        ("It was -5 degrees", "It was 5 degrees"),
        ("temperature - 5", "temperature 5"),
        ("Run it with -v", "Run it with v"),
        ("Is it on?", "It is on."),
        ("Is it on?", "Is it on."),
        ("Plan A failed", "Plan failed"),
        ("The `PATH` is set", "The path is set"),
        ("set fooBar", "set foobar"),
        ("[x] done", "[ ] done"),
        ("It is for US only", "it is for us only"),
        ("It has 5 MB of memory", "It has 5 Mb of memory"),
        ("a != b", "a = b"),
        ("x >= 3", "x > 3"),
        ("Macht das Licht an", "Macht das Licht"),
        ("read /etc/a.conf", "read /etc/a/conf"),
        ("```\nif a:\n    b\nc\n```", "```\nif a:\n    b\n    c\n```"),
        ("Kafka replaced Redis", "Redis replaced Kafka"),
        ("résumé is a file", "resume is a file"),
        ("", ""),
        ("...", "!!!"),
    ],
)  # fmt: skip
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
