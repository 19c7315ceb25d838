"""Words as the full text index holds them: stemmed by SQLite's own porter tokenizer, so that both say the same."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable

from ormahd.process import sql
from ormahd.text.words import FTS_TOKENIZE, fts_text

KEPT = 50_000
"""Words whose stems are remembered; asking SQLite takes ten times as long as looking one up."""


class _Stemmer:
    """One database in memory, guarded by a lock: a query's words take a tenth of a millisecond."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, tuple[str, ...]] = {}
        self._db: sqlite3.Connection | None = None

    def __call__(self, words: Iterable[str]) -> frozenset[str]:
        asked = list(dict.fromkeys(words))
        with self._lock:
            if len(self._known) > KEPT:
                self._known.clear()
            if new := [word for word in asked if word not in self._known]:
                self._learn(new)
            return frozenset(stem for word in asked for stem in self._known[word])

    def _learn(self, words: list[str]) -> None:
        if self._db is None:
            self._db = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
            tokenizer = FTS_TOKENIZE.replace("'", "''")
            self._db.execute(f"CREATE VIRTUAL TABLE one USING fts5(text, content='', tokenize='{tokenizer}')")
            self._db.execute("CREATE VIRTUAL TABLE stem USING fts5vocab(one, instance)")
        # `c++` has a form of its own in the index; runs of unspaced scripts are whole words already
        rows = [(number, fts_text(word) if word.isascii() else word) for number, word in enumerate(words)]
        sql.put(self._db, "INSERT INTO one (rowid, text)", rows)
        found: list[list[str]] = [[] for _ in words]
        for number, stem in zip(*sql.columns(self._db, ("doc", "term"), "FROM stem", ()), strict=True):
            found[int(number)].append(stem)
        self._db.execute("INSERT INTO one (one) VALUES ('delete-all')")
        self._known |= zip(words, map(tuple, found), strict=True)


stems = _Stemmer()
"""`stems(words)`: what the index holds of these words (from `text.words.words`), as a set."""
