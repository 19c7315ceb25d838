"""Stems by language, and how well a model reads a text."""

from __future__ import annotations

import pytest

from ormahd.embedding.reading import read_share
from ormahd.text.language import STEM, function_words, languages, note_stems, question_stems
from ormahd.text.words import query_terms, words
from tests.tables import rows


@pytest.mark.parametrize(("text", "named"), rows(__file__, "the_language_of_a_text"))
def test_the_language_of_a_text(text: str, named: str | None) -> None:
    assert (named in languages(text)) if named else languages(text) == ()


@pytest.mark.parametrize(("note", "asked"), rows(__file__, "a_word_is_found_in_another_form"))
def test_a_word_is_found_in_another_form(note: str, asked: str) -> None:
    (term,) = words(asked)
    assert not note_stems(note, words(note)).isdisjoint(question_stems(term))


def test_a_note_in_english_has_no_stems_of_other_languages() -> None:
    text = "The keys of the garage are with the neighbour."
    assert note_stems(text, words(text)) == set()


@pytest.mark.parametrize("word", ["", "a", "v1.2", "snake_case", "c++", "钥匙", "12", "don't", "A\u093f"])
def test_what_is_no_word_of_a_language_with_stems_has_at_most_marked_ones(word: str) -> None:
    assert all(stem.startswith(STEM) for stem in question_stems(word))


def test_function_words_of_the_question_s_language_are_dropped() -> None:
    assert query_terms("Wo ist die Rechnung für das Dach") == ["rechnung", "dach"]
    assert "die" not in function_words("how do processes die in the pool")
    assert "die" in query_terms("how do processes die in the pool")


def test_the_share_that_a_model_reads() -> None:
    assert read_share("", 0, [], []) == 1.0
    assert read_share("12 34", 0, [(0, 2), (3, 5)], ["12", "34"]) == 1.0
    assert read_share("garage keys", 0, [(0, 6), (7, 11)], ["garage", "keys"]) == 1.0
    assert read_share("ключ", 0, [(0, 1), (1, 2), (2, 3), (3, 4)], list("ключ")) == 0.0
    assert read_share("钥匙 key", 0, [(0, 1), (1, 2), (3, 6)], ["[UNK]", "[UNK]", "key"]) == pytest.approx(3 / 5)
    assert read_share("query: ключ", 7, [(0, 5), (7, 11)], ["query", "[UNK]"]) == 0.0
