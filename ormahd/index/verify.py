"""Compare the index with one that is built beside it from the vault's files, table by table, and its vectors with those in
memory and in Chroma.

A part that lost its data looks like a search that found nothing, so no part is trusted because another one agrees.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, TypeVar

import numpy as np

from ormahd.api import Difference
from ormahd.index import embeddings, write
from ormahd.index.reader import OF_VAULT
from ormahd.index.words import WORDS
from ormahd.model.change import FileState
from ormahd.note.values import NoteKind
from ormahd.process import priority, sql
from ormahd.vectors.matrix import MatrixSnapshot

T = TypeVar("T")

BATCH = 1000
"""Number of files that are built at once."""
PROGRESS_EVERY = 100
"""Number of items between two calls of the progress callback."""

Progress = Callable[[int, int, str], None]
"""Callback that reports progress: (number of items done, total or 0 if unknown, name of the work)."""

_OF_NODE = ", ".join(("number", "id", "digest", "same", *write.PROPERTIES))
_OF_EDGE = "number, type, text, weight, created, reason, body"
_OTHER_BYTES = "the file has other bytes than those that were indexed"
BY_FILE = (
    ("changed", _OTHER_BYTES, "SELECT number, kind, node_id, blob FROM {}.file"),
    ("changed", "the index holds another text", "SELECT number, content FROM {}.text"),
    ("changed", "the index holds other properties", f"SELECT {_OF_NODE} FROM {{}}.node"),
    ("changed", "the index holds other tags", "SELECT number, tag FROM {}.tag"),
    ("changed", "the index holds other names", "SELECT number, key, rank FROM {}.name"),
    ("changed", "the index holds other links", f"SELECT {_OF_EDGE} FROM {{}}.edge"),
    ("words", "full text search knows other words than the text has", f"SELECT {WORDS} FROM {{}}.words"),
)
"""(name of a difference, what it means, the rows of a table that follow from one file). Dates of nodes are left out,
because a note without dates has those of its file."""
BY_ALL = (
    ("changed", "another file with its id is the memory", "SELECT number, held FROM {}.node"),
    ("changed", "a link leads elsewhere than the index says", "SELECT number, type, text, target FROM {}.edge"),
)
"""The same, for what follows from several files. It is compared if all files agree."""
TERMS = "SELECT term, doc, cnt FROM {}.words_term"


def no_progress(_done: int, _total: int, _what: str) -> None:
    """Do nothing: the default callback for progress."""


def with_progress(things: Iterable[T], total: int, what: str, progress: Progress) -> Iterator[T]:
    """Yield `things`, report progress between them, and let waiting requests run first. `what`: the name of the
    work."""
    for number, thing in enumerate(priority.giving(things)):
        if number % PROGRESS_EVERY == 0:
            progress(number, total, what)
        yield thing


def check(connection: sqlite3.Connection) -> list[Difference]:
    """Return the faults that SQLite's `integrity_check` finds in the index. `connection`: one that `Database.beside`
    yields."""
    lines = connection.execute("PRAGMA indexed.integrity_check(20)").fetchall()
    return [Difference("damaged", None, None, str(line)) for (line,) in lines if line != "ok"]


def compare_tables(
    connection: sqlite3.Connection, vault: Iterable[tuple[str, bytes, FileState]], progress: Progress
) -> Iterator[Difference]:
    """Build the tables again from the files `vault` (path, bytes, state), and yield the differences of the index's
    tables. `connection`: one that `Database.beside` yields."""
    # Each file gets the number that it has in the index, so that rows can be compared by it. Rows of sources are copied.
    connection.execute("INSERT INTO file SELECT * FROM indexed.file")
    sources = [row[0] for row in connection.execute(f"SELECT number FROM file WHERE NOT {OF_VAULT}")]
    for table in ("text", "node", "tag", "name", "edge"):
        sql.among(connection, f"INSERT INTO {table} SELECT * FROM indexed.{table} WHERE number IN", sources)
    copied = f"INSERT INTO words ({WORDS}) SELECT {WORDS} FROM indexed.words WHERE rowid IN"
    sql.among(connection, copied, sources)

    # Build: files with conflict markers have no rows, because the index keeps their last version without.
    rest = {row[0] for row in connection.execute(f"SELECT path FROM file WHERE {OF_VAULT}")}
    conflicted: set[str] = set()
    steps = with_progress(vault, len(rest), "files", progress)
    while batch := [write.entry(*file) for file in islice(steps, BATCH)]:
        write.store(connection, batch, ())
        rest -= {entry.path for entry in batch}
        conflicted |= {entry.path for entry in batch if entry.note.kind is NoteKind.CONFLICTED}

    # Compare file by file. Of a file that differs, nothing else is compared.
    rows = "SELECT number, path, node_id FROM {}.file"
    old, new = (
        {number: (path, node_id) for number, path, node_id in connection.execute(rows.format(name))}
        for name in ("indexed", "main")
    )
    unequal: dict[int, tuple[str | None, str | None]] = {
        number: place for number, place in old.items() if place[0] in conflicted | rest
    }
    for path, node_id in unequal.values():
        if path in rest:
            yield Difference("left over", path, node_id, "the index knows a file that is not there")
    for number in new.keys() - old.keys():
        unequal[number] = new[number]
        yield Difference("missing", *new[number], "the file is not in the index")
    for what, detail, rows in BY_FILE:
        for number in _unequal_keys(connection, rows) - unequal.keys():
            unequal[number] = old.get(number, (None, None))
            removed = f"row {number} is of a file that is gone"
            yield Difference(what, *unequal[number], detail if number in old else removed)

    # Compare what follows from several files.
    if unequal:
        return
    progress(0, 0, "words")
    if terms := _unequal_keys(connection, TERMS):
        detail = f"full text search counts {len(terms)} words otherwise, such as {min(terms)!r}"
        yield Difference("words", None, None, detail)
    progress(0, 0, "links")
    for what, detail, rows in BY_ALL:
        for number in _unequal_keys(connection, rows):
            yield Difference(what, *old[number], detail)


def _unequal_keys(connection: sqlite3.Connection, rows: str) -> set[Any]:
    """Return the first column of the rows that are only in the index, or only in the tables built beside it. `rows`: a
    SELECT with `{}` for the database's name."""
    priority.give()
    ours, theirs = rows.format("main"), rows.format("indexed")
    both = (f"{ours} EXCEPT {theirs}", f"{theirs} EXCEPT {ours}")
    return {row[0] for question in both for row in connection.execute(question)}


def compare_vectors(
    connection: sqlite3.Connection, model: int, memory: MatrixSnapshot, progress: Progress
) -> Iterator[Difference]:
    """Yield the stored vectors that were made of another text than the index has, and those that differ from the
    vectors in RAM (`memory`). `connection`: a connection to the index; it and `memory` must show the same moment."""
    ids = [row[0] for row in connection.execute("SELECT id FROM node WHERE held = 1")]
    question = "SELECT id, sha FROM embedded JOIN document USING (document) WHERE embedded.model = ?"
    tied = dict(connection.execute(question, (model,)))
    for chunk in priority.giving(sql.chunks(ids)):
        for node_id, source in embeddings.texts_to_embed(connection, chunk).items():
            if tied.pop(node_id, source.sha) != source.sha:
                yield Difference("vectors", None, node_id, "its vectors were made of another text")
    for node_id in tied:
        yield Difference("vectors", None, node_id, "there are vectors of a node that is gone")
    stored = dict(embeddings.all_vectors(connection, model))
    both = stored.keys() | memory.places.keys()
    for node_id in with_progress(both, len(both), "vectors", progress):
        ours, theirs = memory.vectors(node_id), stored.get(node_id)
        if ours is None or theirs is None or not np.array_equal(ours, theirs.astype(np.float32)):
            yield Difference("vectors", None, node_id, "the vectors in memory are not those on the disk")
