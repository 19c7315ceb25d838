"""Full text search with SQLite's FTS5: which words occur in which file, scored with bm25."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from ormahd.index.links import stem
from ormahd.index.rows import Filter
from ormahd.note.note import stem_short_id
from ormahd.process import sql
from ormahd.process.sql import Snapshot
from ormahd.text.prose import findable
from ormahd.text.words import fts_match, fts_text, query_terms
from ormahd.vectors.matrix import SPARE

WEIGHTS = (10.0, 1.0, 3.0)
"""Weights of title, content and tags in bm25, in the order of the columns of table `words`. Titles and tags are short
and chosen, so their words count more."""
SMALL = 5_000
"""In an index of at most so many files, every row that has any of the query's words is scored."""
SCORED = 5_000
"""In a larger index, only rows with one of the query's rarest words are scored. These words are chosen so that together
they occur in about this many rows. The other words only add to the scores."""
COUNTED = 25_000
"""Maximum number of rows in which the words used for scoring may occur in total. The query's most common words beyond
that are ignored: they say little and cost most."""
EVERY_ROW = -1
"""The value of LIMIT that means no limit in SQLite."""
STALE = 0.02
"""Remembered counts of words are dropped when the number of files has changed by more than this share."""
COUNTED_ANEW = 20_000
"""In an index of at most so many files, words are counted again after every change, so that answers depend on the notes
alone."""
RANK = f"bm25(words, {', '.join(map(str, WEIGHTS))})"
"""The bm25 of a row in SQL. FTS5 makes it negative: lower is better."""


def heading(title: str | None, path: str) -> str | None:
    """Return the title of a note, else the name of its file, or None if Ormah chose that name (it then ends in the
    short id)."""
    name = stem(path)
    return title or (None if stem_short_id(name.casefold()) else name)


def columns(title: str | None, path: str, content: str, tags: Sequence[str], aliases: Sequence[str]) -> tuple[str, str, str]:  # fmt: skip
    """Return what the full text table holds of a node: (title, content, tags)."""
    names = [name for name in (heading(title, path), *aliases) if name]
    return fts_text(" | ".join(names)), fts_text(findable(content)), fts_text(" | ".join(tags))


def plain_columns(path: str, content: str) -> tuple[str, str, str]:
    """Return what the full text table holds of a file that is no node; its path stands for the title."""
    return fts_text(path.removesuffix(".md")), fts_text(findable(content)), ""


def put(connection: sqlite3.Connection, rows: Sequence[tuple[int, str, str, str]]) -> None:
    sql.put(connection, "INSERT INTO words (rowid, title, content, tags)", rows)


def take(connection: sqlite3.Connection, rows: Sequence[tuple[int, str, str, str]]) -> None:
    """Delete rows. The texts must equal those that were inserted, because the table does not store them."""
    taken = [("delete", *row) for row in rows]
    sql.put(connection, "INSERT INTO words (words, rowid, title, content, tags)", taken)


class Frequencies:
    """The number of rows that have each word. Counts are remembered, because counting a common word takes
    milliseconds."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[str, int] = {}
        self._files = 0
        self._changed = False

    def changed(self) -> None:
        """Note that notes were added, changed or removed."""
        self._changed = True

    def rows(self, read: Snapshot, terms: Sequence[str], files: int) -> dict[str, int]:
        with self._lock:
            grown = abs(files - self._files) > STALE * self._files
            if grown or (self._changed and files <= COUNTED_ANEW) or len(self._counts) > 50_000:
                self._counts, self._files, self._changed = {}, files, False
            known = self._counts
        for term in terms:
            if term not in known:
                select = "SELECT count(*) FROM words WHERE words MATCH ?"
                known[term] = read().execute(select, (fts_match([term]),)).fetchone()[0]
        return {term: known[term] for term in terms}


def largest(connection: sqlite3.Connection) -> int:
    """Return the largest row number of a file: the number of files, if none was ever removed."""
    return int(connection.execute("SELECT coalesce(max(number), 0) FROM file").fetchone()[0])


def split(read: Snapshot, terms: Sequence[str], files: int, counts: Frequencies) -> tuple[list[str], list[str]]:  # fmt: skip
    """Return the words that select the rows to score, and the words that only add to the scores of those rows."""
    if files <= SMALL or len(terms) < 2:
        return list(terms), []
    rows = counts.rows(read, terms, files)
    rare: list[str] = []
    common: list[str] = []
    total = 0
    for term in sorted((term for term in terms if rows[term]), key=lambda term: (rows[term], term)):
        total += rows[term]
        if not rare or total <= SCORED:
            rare.append(term)
        elif total <= COUNTED:
            common.append(term)
    return rare, common


def terms_of(query: str | Sequence[str]) -> list[str]:
    return query_terms(query) if isinstance(query, str) else list(dict.fromkeys(query))


def _question(connection: sqlite3.Connection, query: str | Sequence[str], counts: Frequencies) -> tuple[str, float]:
    """Return the MATCH expression, and the factor by which bm25 is too high with it."""
    rare, common = split(lambda: connection, terms_of(query), largest(connection), counts)
    if not common:
        return fts_match(rare), 1.0
    # bm25 sums over every phrase of the expression, so each word appears in it twice.
    choose, others = fts_match(rare), fts_match(common)
    return f"({choose}) AND ({choose} OR {others} OR {others})", 2.0


def search(
    connection: sqlite3.Connection, query: str | Sequence[str], limit: int, chosen: Filter, counts: Frequencies
) -> list[tuple[str, float]]:
    """Return the nodes with any of the query's words: (id, bm25), best first. Scores are positive, and higher is
    better.

    A query given as text is split into terms. Equal scores are ordered by id, so that the answer does not depend on how
    the index was built.
    """
    match, times = _question(connection, query, counts)
    if chosen.narrow:
        condition, values = chosen.sql()
        ids, scores = sql.scored(
            connection,
            f"SELECT n.id AS key, {RANK} AS score FROM words JOIN node n ON n.number = words.rowid "
            f"WHERE words MATCH ? AND {condition} ORDER BY score, n.id LIMIT ?",
            (match, *values, limit),
        )
        found = list(zip(ids, (-scores).tolist(), strict=True))
    else:
        found = _best(connection, match, limit, chosen)
    return [(node_id, score / times) for node_id, score in found]


def named(connection: sqlite3.Connection, scores: Mapping[int, float], chosen: Filter) -> list[tuple[str, float]]:
    """Return the nodes among these files (score by row number) that pass the filter: (id, score), best first, ties by
    id."""
    condition, values = chosen.sql()
    found: list[tuple[str, float]] = []
    for some in sql.sets(list(scores)):
        # `NOT INDEXED`: otherwise SQLite uses an index of the filter and walks half of the nodes.
        rest = f"FROM node n NOT INDEXED WHERE n.number IN ({sql.marks(some)}) AND {condition}"
        numbers, ids = sql.columns(connection, ("n.number", "n.id"), rest, (*some, *values))
        found += [(node_id, scores[int(number)]) for number, node_id in zip(numbers, ids, strict=True)]
    return sorted(found, key=lambda one: (-one[1], one[0]))


def _best(connection: sqlite3.Connection, match: str, limit: int, chosen: Filter) -> list[tuple[str, float]]:
    """Return the best nodes, (id, score), for a filter that nearly all nodes pass: score rows first, then apply the
    filter."""
    select = f"SELECT rowid AS key, {RANK} AS score FROM words WHERE words MATCH ? ORDER BY score LIMIT ?"
    for most in (limit + limit // SPARE + 1, EVERY_ROW):
        numbers, best = sql.scored(connection, select, (match, most))
        scores = dict(zip(map(int, numbers), (-best).tolist(), strict=True))
        whole = len(scores) != most
        if not whole:  # rows that were not fetched may tie with the last one
            last = min(scores.values())
            scores = {number: score for number, score in scores.items() if score != last}
        found = named(connection, scores, chosen)
        if whole or len(found) >= limit:
            break
    return found[:limit]


def stored(connection: sqlite3.Connection, numbers: Sequence[int]) -> list[tuple[Any, ...]]:
    """Return (number, path, content, title, tags, aliases) of files. Title, tags and aliases are None for files that
    are no nodes."""
    found: list[tuple[Any, ...]] = []
    for some in sql.sets(numbers):
        rest = f"FROM file f JOIN text t USING (number) LEFT JOIN node n USING (number) WHERE f.number IN ({sql.marks(some)})"
        columns = ("f.number", "f.path", "t.content", "n.title", "n.tags", "n.aliases")
        found += map(tuple, sql.table(connection, columns, rest, some))
    return found


def refresh(connection: sqlite3.Connection) -> None:
    """Empty the full text table and fill it again from the stored texts."""
    connection.execute("INSERT INTO words (words) VALUES ('delete-all')")
    numbers = [row[0] for row in connection.execute("SELECT number FROM file ORDER BY number")]
    for some in sql.chunks(numbers):
        put(connection, [fts_row(*row) for row in stored(connection, some)])
    settle(connection)


def settle(connection: sqlite3.Connection) -> None:
    """Merge the segments of the full text table into one, so that no segment holds words of deleted rows."""
    connection.execute("INSERT INTO words (words) VALUES ('optimize')")


def fts_row(number: int, path: str, content: str, title: str | None, tags: str | None, aliases: str | None) -> tuple[int, str, str, str]:  # fmt: skip
    """Return the row of the full text table for a row of `stored`."""
    if tags is None or aliases is None:
        return (number, *plain_columns(path, content))
    return (number, *columns(title, path, content, json.loads(tags), json.loads(aliases)))
