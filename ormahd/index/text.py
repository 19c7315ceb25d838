"""Full text: which words stand in which file (FTS5, bm25)."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from typing import Any

from ormahd.core.note import stem_short_id
from ormahd.core.words import fts_match, fts_text, query_terms
from ormahd.index.links import stem
from ormahd.index.rows import Filter, chunks, marks

WEIGHTS = (10.0, 1.0, 3.0)
"""Of title, content and tags in bm25: by position, one for each column of `words` (REFERENCE F 1: in the original the
weights were shifted by one column). A title says what a memory is about; tags are few and chosen."""
_RANK = f"bm25(words, {', '.join(map(str, WEIGHTS))})"


def heading(title: str | None, path: str) -> str | None:
    """What a note is called: its title, else its file's name where a person chose it (ours end in the short id)."""
    name = stem(path)
    return title or (None if stem_short_id(name.casefold()) else name)


def columns(title: str | None, path: str, content: str, tags: Sequence[str], aliases: Sequence[str]) -> tuple[str, str, str]:  # fmt: skip
    """What the full text table holds of a node."""
    names = [name for name in (heading(title, path), *aliases) if name]
    return fts_text(" | ".join(names)), fts_text(content), fts_text(" | ".join(tags))


def plain_columns(path: str, content: str) -> tuple[str, str, str]:
    """Of a file that is no node: its path stands for the title."""
    return fts_text(path.removesuffix(".md")), fts_text(content), ""


def put(connection: sqlite3.Connection, rows: Sequence[tuple[int, str, str, str]]) -> None:
    connection.executemany("INSERT INTO words (rowid, title, content, tags) VALUES (?, ?, ?, ?)", rows)


def take(connection: sqlite3.Connection, rows: Sequence[tuple[int, str, str, str]]) -> None:
    """Take out rows; the texts must be those that were put in (the table does not keep them)."""
    connection.executemany("INSERT INTO words (words, rowid, title, content, tags) VALUES ('delete', ?, ?, ?, ?)", rows)


def search(
    connection: sqlite3.Connection, query: str | Sequence[str], limit: int, chosen: Filter
) -> list[tuple[str, float]]:
    """Nodes with any of the query's words: (id, bm25), best first; a higher score is better, all are positive.

    A string is cut into its terms; a sequence is taken as terms. Equal scores are ordered by id, so that an index
    that grew and one that was rebuilt answer alike.
    """
    match = fts_match(query_terms(query) if isinstance(query, str) else query)
    condition, values = chosen.sql()
    rows = connection.execute(
        f"SELECT n.id, {_RANK} AS score FROM words JOIN node n ON n.number = words.rowid "
        f"WHERE words MATCH ? AND {condition} ORDER BY score, n.id LIMIT ?",
        (match, *values, limit),
    )
    return [(row[0], -row[1]) for row in rows]


def search_plain(connection: sqlite3.Connection, query: str | Sequence[str], limit: int) -> list[tuple[str, float]]:
    """The same for files that are no nodes: (path, bm25)."""
    match = fts_match(query_terms(query) if isinstance(query, str) else query)
    rows = connection.execute(
        f"SELECT f.path, {_RANK} AS score FROM words JOIN file f ON f.number = words.rowid "
        "LEFT JOIN node n ON n.number = f.number AND n.held = 1 "
        "WHERE words MATCH ? AND n.number IS NULL ORDER BY score, f.path LIMIT ?",
        (match, limit),
    )
    return [(row[0], -row[1]) for row in rows]


def stored(connection: sqlite3.Connection, numbers: Sequence[int]) -> list[tuple[Any, ...]]:
    """(number, path, content, title, tags, aliases) of files; title is None and tags is None for plain ones."""
    found: list[tuple[Any, ...]] = []
    for some in chunks(numbers):
        found += connection.execute(
            "SELECT f.number, f.path, t.content, n.title, n.tags, n.aliases FROM file f JOIN text t USING (number) "
            f"LEFT JOIN node n USING (number) WHERE f.number IN ({marks(some)})", some
        )  # fmt: skip
    return found


def refresh(connection: sqlite3.Connection) -> None:
    """Fill the full text table anew from the texts, whatever is in it now."""
    connection.execute("INSERT INTO words (words) VALUES ('delete-all')")
    numbers = [row[0] for row in connection.execute("SELECT number FROM file ORDER BY number")]
    for some in chunks(numbers):
        put(connection, [fts_row(*row) for row in stored(connection, some)])
    connection.execute("INSERT INTO words (words) VALUES ('optimize')")


def fts_row(number: int, path: str, content: str, title: str | None, tags: str | None, aliases: str | None) -> tuple[int, str, str, str]:  # fmt: skip
    """What the full text table holds of a row of `stored`."""
    if tags is None or aliases is None:
        return (number, *plain_columns(path, content))
    return (number, *columns(title, path, content, json.loads(tags), json.loads(aliases)))
