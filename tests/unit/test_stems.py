"""Stems are those of the index: what shares one is found by it."""

import sqlite3
from concurrent.futures import ThreadPoolExecutor

from hypothesis import example, given
from hypothesis import strategies as st

from ormahd.text import words as it
from ormahd.text.words import FTS_TOKENIZE, fts_match, fts_text, words


def test_forms_of_a_word_share_a_stem() -> None:
    assert it.stems(["caching"]) == it.stems(["caches"]) == it.stems(["cached"])
    assert it.stems(["retries", "retry"]) == it.stems(["retry"])
    assert it.stems(["認証"]) == {"認証"}
    assert it.stems(["c++"]) != it.stems(["c"])
    assert it.stems([]) == frozenset()


@given(st.text(max_size=60))
@example("A#Æ")
@example("C#で書く")
def test_a_stem_in_common_is_a_match_of_the_index(text: str) -> None:
    found = words(text)
    stems = it.stems(found)
    db = sqlite3.connect(":memory:")
    db.execute(f'CREATE VIRTUAL TABLE t USING fts5(x, tokenize="{FTS_TOKENIZE}")')
    db.execute("INSERT INTO t VALUES (?)", (fts_text(text),))
    for word in found:
        matches = db.execute("SELECT count(*) FROM t WHERE t MATCH ?", (fts_match([word]),)).fetchone()[0]
        assert bool(matches) == bool(it.stems([word]))
        assert it.stems([word]) <= stems
    db.close()


def test_many_threads_and_more_words_than_are_remembered() -> None:
    stemmer = it._Stemmer()
    batches = [[f"running{number * 100 + n}" for n in range(100)] + ["caches"] for number in range(60)]
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(stemmer, batches))
    assert all(len(one) == 101 and "cach" in one for one in results)
    stemmer._known |= {str(n): () for n in range(it.MAX_CACHED)}
    assert stemmer(["caches"]) == {"cach"}
    assert len(stemmer._known) == 1
