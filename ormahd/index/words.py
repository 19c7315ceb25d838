"""Full text search: the words of each file in table `words` (SQLite's FTS5), scored with bm25."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Mapping, Sequence

from ormahd.index.links import stem
from ormahd.index.rows import Filter
from ormahd.note.values import Note, stem_short_id
from ormahd.process import sql
from ormahd.text.forms import forms
from ormahd.text.quoting import indexed_text
from ormahd.text.words import fts_match, fts_text
from ormahd.vectors.matrix import SPARE

WEIGHTS = (10.0, 1.0, 3.0, 1.0)
"""Weights of title, content, tags and forms in bm25, in the order of the columns of table `words`. Titles and tags are
short and chosen, so their words count more."""
SMALL = 5_000
"""In an index of at most this many files, every row with any of the query's words is scored."""
SCORED = 5_000
"""In a larger index, only rows with one of the query's rarest words are scored. These words are chosen so that together
they occur in about this many rows. The other words only add to the scores."""
COUNTED = 25_000
"""Maximum number of rows in which the words used for scoring may occur in total. The query's most common words beyond
that are ignored: they say little and cost most."""
EVERY_ROW = -1
"""The value of LIMIT that means no limit in SQLite."""
STALE = 0.02
"""If the number of files changes by more than this share, the remembered counts of words are dropped."""
COUNTED_ANEW = 20_000
"""In an index of at most so many files, words are counted again after every change, so that answers depend on the notes
alone."""
RANK = f"bm25(words, {', '.join(map(str, WEIGHTS))})"
"""The bm25 of a row in SQL. FTS5 makes it negative: lower is better."""


Columns = tuple[str, str, str, str]
WORDS = "rowid, title, content, tags, forms"
"""Columns of the full text table."""


def heading(title: str | None, path: str) -> str | None:
    """Return the title of a note. Without a title, return the file's name, or None if Ormah chose that name (it then
    ends in the short id)."""
    name = stem(path)
    return title or (None if stem_short_id(name.casefold()) else name)


def text_columns(note: Note) -> Columns:
    """Return the texts of a node for the columns of the full text table: (title, content, tags, forms). `forms`:
    parts of identifiers and initials (`ormahd.text.forms`)."""
    names = [name for name in (heading(note.title, note.path), *note.aliases) if name]
    prose, tags = indexed_text(note.content), " | ".join(note.tags)
    return fts_text(" | ".join(names)), fts_text(prose), fts_text(tags), forms([*names, *note.tags], prose)


class Frequencies:
    """Counts the rows of the full text table in which each word occurs. The counts are remembered, because counting a
    common word takes milliseconds."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[str, int] = {}
        self._files = 0
        self._changed = False
        self.changes = 0
        """Number of times that notes were added, changed or removed, since the start."""

    def changed(self) -> None:
        """Record that notes were added, changed or removed, which may have changed the counts."""
        self._changed = True
        self.changes += 1

    def rows(self, connection: sqlite3.Connection, terms: Sequence[str], files: int) -> dict[str, int]:
        """Return {term: number of rows of the full text table that contain it}. `files`: the number of files now;
        remembered counts are dropped if it has changed much."""
        with self._lock:
            # Forget the counts if they may be wrong (see `STALE`, `COUNTED_ANEW`), or take too much memory.
            grown = abs(files - self._files) > STALE * self._files
            if grown or (self._changed and files <= COUNTED_ANEW) or len(self._counts) > 50_000:
                self._counts, self._files, self._changed = {}, files, False
            known = self._counts
        for term in terms:
            if term not in known:
                select = "SELECT count(*) FROM words WHERE words MATCH ?"
                known[term] = connection.execute(select, (fts_match([term]),)).fetchone()[0]
        return {term: known[term] for term in terms}


def largest_number(connection: sqlite3.Connection) -> int:
    """Return the largest row number of a file. It is the number of files if no file was ever removed."""
    return int(connection.execute("SELECT coalesce(max(number), 0) FROM file").fetchone()[0])


def split(
    connection: sqlite3.Connection, terms: Sequence[str], files: int, counts: Frequencies
) -> tuple[list[str], list[str]]:
    """Return (words that select the rows to score, words that only add to the scores of those rows): a query's words,
    divided by how common they are. `files`: the number of files."""
    if files <= SMALL or len(terms) < 2:
        return list(terms), []
    rows = counts.rows(connection, terms, files)
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


def search(
    connection: sqlite3.Connection, terms: Sequence[str], limit: int, chosen: Filter, counts: Frequencies
) -> list[tuple[str, float]]:
    """Return the nodes with any of the terms of a query: (id, bm25), best first. Scores are positive, and higher is
    better.

    Equal scores are ordered by id, so that the result does not depend on how the index was built.
    """
    rare, common = split(connection, terms, largest_number(connection), counts)
    match, times = fts_match(rare), 1.0
    if common:  # bm25 sums over every phrase of the expression, so each word appears in it twice
        others = fts_match(common)
        match, times = f"({match}) AND ({match} OR {others} OR {others})", 2.0
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
    """Return (id, score) of the nodes that pass the filter, best first. Nodes with equal scores are ordered by id.
    `scores`: row number of a file -> score."""
    condition, values = chosen.sql()
    found: list[tuple[str, float]] = []
    for chunk in sql.sets(list(scores)):
        # `NOT INDEXED`: otherwise SQLite uses an index of the filter and walks half of the nodes.
        rest = f"FROM node n NOT INDEXED WHERE n.number IN ({sql.marks(chunk)}) AND {condition}"
        numbers, ids = sql.columns(connection, ("n.number", "n.id"), rest, (*chunk, *values))
        found += [(node_id, scores[int(number)]) for number, node_id in zip(numbers, ids, strict=True)]
    return sorted(found, key=lambda hit: (-hit[1], hit[0]))


def _best(connection: sqlite3.Connection, match: str, limit: int, chosen: Filter) -> list[tuple[str, float]]:
    """Return (id, score) of the best nodes, for a filter that nearly all nodes pass: rows are scored first, and
    filtered afterwards."""
    select = f"SELECT rowid AS key, {RANK} AS score FROM words WHERE words MATCH ? ORDER BY score LIMIT ?"
    for fetched in (limit + limit // SPARE + 1, EVERY_ROW):
        numbers, best = sql.scored(connection, select, (match, fetched))
        scores = dict(zip(map(int, numbers), (-best).tolist(), strict=True))
        whole = len(scores) != fetched
        if not whole:  # rows that were not fetched may tie with the last one
            last = min(scores.values())
            scores = {number: score for number, score in scores.items() if score != last}
        found = named(connection, scores, chosen)
        if whole or len(found) >= limit:
            break
    return found[:limit]
