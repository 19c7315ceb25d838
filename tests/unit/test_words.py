"""Words: cutting texts of many scripts, and the promise that full text search finds what `words` gives."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ormahd.text.words import (
    _UNJOINED,
    _UNSPACED,
    FTS_TOKENIZE,
    IDENTITY_WORDS,
    PART,
    STOP_WORDS,
    _fold,
    _marks,
    _text_parts,
    _word_pattern,
    fold,
    fts_match,
    fts_text,
    is_question,
    overlap,
    query_terms,
    words,
)
from tests.tables import rows

PLAIN_TOKENIZE = "porter unicode61 remove_diacritics 2"


class Shelf:
    """One FTS5 table; `finds` tells whether a stored text answers a MATCH expression."""

    def __init__(self, tokenize: str) -> None:
        self.db = sqlite3.connect(":memory:")
        self.db.execute(f'CREATE VIRTUAL TABLE shelf USING fts5(text, tokenize="{tokenize}")')

    def finds(self, text: str, match: str) -> bool:
        self.db.execute("DELETE FROM shelf")
        self.db.execute("INSERT INTO shelf(text) VALUES (?)", (fts_text(text),))
        return self.db.execute("SELECT count(*) FROM shelf WHERE shelf MATCH ?", (match,)).fetchone()[0] == 1


@pytest.fixture(scope="module", params=[FTS_TOKENIZE, PLAIN_TOKENIZE], ids=["marks", "plain"])
def shelf(request: pytest.FixtureRequest) -> Iterator[Shelf]:
    made = Shelf(request.param)
    yield made
    made.db.close()


@pytest.fixture(scope="module")
def our_shelf() -> Iterator[Shelf]:
    made = Shelf(FTS_TOKENIZE)
    yield made
    made.db.close()


@pytest.mark.parametrize(("text", "expected"), [*rows(__file__, "words"), ("\ud800a\x00b\u202ec", ["a", "bc"])])
def test_words(text: str, expected: list[str]) -> None:
    assert words(text) == expected


@pytest.mark.parametrize(("text", "query"), rows(__file__, "found_by_full_text_search"))
def test_found_by_full_text_search(shelf: Shelf, text: str, query: str) -> None:
    assert shelf.finds(text, fts_match(words(query)))


def test_vowel_signs_and_signs_keep_words_apart(our_shelf: Shelf) -> None:
    assert not our_shelf.finds("हनद", fts_match(words("हिन्दी")))
    assert not our_shelf.finds("written in C", fts_match(["c++"]))
    assert not our_shelf.finds("かき", fts_match(words("がぎ")))


@given(st.text(max_size=60))
@example("__a__ 'b' c'd")
@example("\ue000a\ue000b\ufffe")
@example("e\u0301\u0e34\u0e01\u0e34")
@example("a\u1cf2 \u19b0")
@example("A#\u093f")
@example("_'c#")
@example("\u093fc++")
def test_every_word_is_found_by_its_own_match(our_shelf: Shelf, text: str) -> None:
    for word in words(text):
        assert our_shelf.finds(text, fts_match([word])), word


@given(st.lists(st.text(max_size=20) | st.sampled_from(["AND", "NOT", "NEAR(", '"', "*", "a:b", "^a", "\x00", "-"])))
def test_no_term_is_syntax(shelf: Shelf, terms: list[str]) -> None:
    shelf.finds("anything", fts_match(terms))
    shelf.finds("anything", fts_match(words(" ".join(terms))))


def test_operators_are_words(shelf: Shelf) -> None:
    assert shelf.finds("to be AND NOT to be", fts_match(["NOT"]))
    assert not shelf.finds("anything", fts_match([]))
    assert not shelf.finds("anything", fts_match(['"', "+", "\x00"]))
    assert shelf.finds("w9999", fts_match(f"w{number}" for number in range(10_000)))


def test_query_terms() -> None:
    assert query_terms("What does the user use for CI, and what for CD?") == ["user", "use", "ci", "cd"]
    assert query_terms("where do I") == ["where", "do", "i"]
    assert query_terms("…") == []


@pytest.mark.parametrize("text", rows(__file__, "questions"))
def test_questions(text: str) -> None:
    assert is_question(text)


@pytest.mark.parametrize("text", ["Deploy to staging", "", "?!", "somewhat", "2 + 2", "a whole? no."])
def test_no_questions(text: str) -> None:
    assert not is_question(text)


def test_word_lists_are_in_the_form_that_words_gives() -> None:
    for word in STOP_WORDS | IDENTITY_WORDS:
        assert words(word) == [word]


def test_overlap() -> None:
    assert overlap(["a", "b"], ["b", "c"]) == pytest.approx(1 / 3)
    assert overlap([], []) == 0.0


@given(st.text(st.sampled_from("ab7_.'+# -\"\n") | st.characters(max_codepoint=127), max_size=40))
@example("c++ a'c# _c# 3.14'c++' x.y_'s")
def test_a_text_in_ascii_is_cut_alike_with_and_without_the_marks_of_other_scripts(text: str) -> None:
    folded, all_scripts = fold(text), (_UNSPACED, _marks())
    found = [[piece.span(name) for name in ("run", "sign", "word")] for piece in _word_pattern("", "").finditer(folded)]
    every = [
        [piece.span(name) for name in ("run", "sign", "word")] for piece in _word_pattern(*all_scripts).finditer(folded)
    ]
    assert found == every


@pytest.mark.parametrize(
    "unit",
    ["渡轮在黎明时分离开港口。", "iVBORw0KGgo", " ", "boat ", "| a | c++ |\n", "(a){return a['b']||{}};", "> > - **[[é]]** [x](y.md)\n", "한국어 각 ", "Straße\t"],
)  # fmt: skip
def test_a_large_text_is_read_in_small_parts(unit: str) -> None:
    text = unit * (200_000 // len(unit))
    parts = list(_text_parts(text, _UNJOINED))
    assert "".join(parts) == text
    assert max(map(len, parts)) <= PART + len(unit)
    if unit[-1].isspace():
        assert words(text) == words(unit) * (200_000 // len(unit))
        assert fts_text(text).split() == fts_text(unit).split() * (200_000 // len(unit))


@given(st.text(st.sampled_from("a界가각ㅏᆨがガ゙\u0301ﾞกำ \n'ﬁßς") | st.characters(), max_size=12), st.integers(0, 12))
def test_a_large_text_is_folded_as_a_whole(text: str, before: int) -> None:
    large = "а" * (PART - before) + text + "б" * 50
    assert fold(large) == _fold(large)
    assert len(large) > PART
