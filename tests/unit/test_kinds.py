"""Which types a question names."""

from __future__ import annotations

import pytest

from ormahd.search.gather import NAMING, WORDS, named_types
from ormahd.text.words import words
from tests.tables import rows


@pytest.mark.parametrize(("text", "named"), [*rows(__file__, "kinds"), ("x" * 1_000_000, [])])
def test_kinds(text: str, named: list[str]) -> None:
    assert named_types(text) == set(named)


def test_the_words_are_as_texts_are_cut() -> None:
    assert all(list(words(word)) == [word] for word in NAMING)
    assert sum(map(len, WORDS.values())) == len(NAMING), "no word names two kinds"
