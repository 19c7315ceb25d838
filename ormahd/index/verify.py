"""Compare the index with one that is built beside it from the vault's files, table by table, and its vectors with those in
memory and in Chroma.

A part that lost its data looks like a search that found nothing, so no part is trusted because another one agrees.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TypeVar

import numpy as np

from ormahd.api import Difference
from ormahd.index import embedding_cache, write
from ormahd.index.reader import OF_VAULT
from ormahd.model.change import FileState
from ormahd.note.values import NoteKind
from ormahd.process import priority, sql
from ormahd.vectors.matrix import MatrixSnapshot

T = TypeVar("T")

BATCH = 1000
"""Number of files that are built at once."""
GIVE_WAY_EVERY = 1000
"""Number of words between two checks whether a request is waiting."""
SHOWN_EVERY = 100
"""Number of items between two calls of the progress callback."""

Progress = Callable[[int, int, str], None]
"""Callback that reports progress: (number of items done, total or 0 if unknown, name of the work)."""

_OF_NODE = ", ".join(("number", "id", "digest", "same", *write.PROPERTIES))
BY_FILE = (
    ("the file has other bytes than those that were indexed", "SELECT number, kind, node_id, blob FROM {}.file"),
    ("the index holds another text", "SELECT number, content FROM {}.text"),
    ("the index holds other properties", f"SELECT {_OF_NODE} FROM {{}}.node"),
    ("the index holds other tags", "SELECT number, tag FROM {}.tag"),
    ("the index holds other names", "SELECT number, key, rank FROM {}.name"),
    ("the index holds other links", "SELECT number, type, text, weight, created, reason, body FROM {}.edge"),
)
"""(what a difference means, the rows of a table that follow from one file). Dates of nodes are left out, because a note
without dates has those of its file."""
BY_ALL = (
    ("another file with its id is the memory", "SELECT number, held FROM {}.node"),
    ("a link leads elsewhere than the index says", "SELECT number, type, text, target FROM {}.edge"),
)
"""The same, for what follows from several files. It is compared if all files agree."""


def silent(_done: int, _total: int, _what: str) -> None:
    """Do nothing: the default callback for progress."""


def shown(things: Iterable[T], total: int, what: str, progress: Progress) -> Iterator[T]:
    """Yield `things`; meanwhile report progress (`what`: the name of the work) and let waiting requests go first."""
    for number, thing in enumerate(priority.giving(things)):
        if number % SHOWN_EVERY == 0:
            progress(number, total, what)
        yield thing


def check(connection: sqlite3.Connection) -> list[Difference]:
    """Return the faults that SQLite's `integrity_check` finds in the index. `connection`: of `Database.beside`."""
    lines = connection.execute("PRAGMA indexed.integrity_check(20)").fetchall()
    return [Difference("damaged", None, None, str(line)) for (line,) in lines if line != "ok"]


def tables(
    connection: sqlite3.Connection, vault: Iterable[tuple[str, bytes, FileState]], progress: Progress
) -> Iterator[Difference]:
    """Build the tables beside the index from the files `vault`, and yield the differences. `connection`: of
    `Database.beside`."""
    # Each file gets the number that it has in the index, so that rows can be compared by it. Rows of sources are copied.
    connection.execute("INSERT INTO file SELECT * FROM indexed.file")
    sources = [row[0] for row in connection.execute(f"SELECT number FROM file WHERE NOT {OF_VAULT}")]
    for table in ("text", "node", "tag", "name", "edge"):
        sql.among(connection, f"INSERT INTO {table} SELECT * FROM indexed.{table} WHERE number IN", sources)
    write.put(connection, [write.fts_row(*row) for row in write.stored(connection, sources)])

    # Build: files with conflict markers have no rows, because the index keeps their last version without.
    rest = {row[0] for row in connection.execute(f"SELECT path FROM file WHERE {OF_VAULT}")}
    conflicted: set[str] = set()
    steps = shown(vault, len(rest), "files", progress)
    while some := [write.entry(*file) for file in islice(steps, BATCH)]:
        write.store(connection, some, ())
        rest -= {one.path for one in some}
        conflicted |= {one.path for one in some if one.note.kind is NoteKind.CONFLICTED}

    # Compare file by file. Of a file that differs, nothing else is compared.
    rows = "SELECT number, path, node_id FROM {}.file"
    old, new = (
        {number: (str(path), node_id) for number, path, node_id in connection.execute(rows.format(name))}
        for name in ("indexed", "main")
    )
    unequal = {number: place for number, place in old.items() if place[0] in conflicted | rest}
    for path, node_id in unequal.values():
        if path in rest:
            yield Difference("left over", path, node_id, "the index knows a file that is not there")
    for number in new.keys() - old.keys():
        unequal[number] = new[number]
        yield Difference("missing", *new[number], "the file is not in the index")
    for detail, rows in BY_FILE:
        for number in _unequal(connection, rows) & old.keys() - unequal.keys():
            unequal[number] = old[number]
            yield Difference("changed", *old[number], detail)
    known, wanted = (_words(connection, name, progress) for name in ("indexed", "main"))
    for number in (known.keys() | wanted.keys()) - unequal.keys():
        if number not in old:
            detail = f"full text search knows words of a file that is gone (row {number})"
            yield Difference("words", None, None, detail)
        elif known.get(number) != wanted.get(number):
            yield Difference("words", *old[number], "full text search knows other words than the text has")

    progress(0, 0, "links")
    for detail, rows in BY_ALL if not unequal else ():
        for number in _unequal(connection, rows) & old.keys():
            yield Difference("changed", *old[number], detail)


def _unequal(connection: sqlite3.Connection, rows: str) -> set[int]:
    """Return the numbers of the files for which the index has other rows than the tables beside it. `rows`: in SQL, with
    the number first."""
    one, other = rows.format("main"), rows.format("indexed")
    both = (f"{one} EXCEPT {other}", f"{other} EXCEPT {one}")
    return {row[0] for question in both for row in connection.execute(question)}


def _words(connection: sqlite3.Connection, name: str, progress: Progress) -> dict[int, int]:
    """Return number of a file -> hash of its words and their positions, of the full text table in the database `name`."""
    found: dict[int, int] = {}
    rows = connection.execute(f"SELECT doc, col, term, offset FROM {name}.words_instance")
    for at, (doc, column, term, offset) in enumerate(rows):
        if at % GIVE_WAY_EVERY == 0:
            priority.give()
            progress(0, 0, "words")
        found[doc] = found.get(doc, 0) ^ hash((column, term, offset))
    return found


def vectors(
    connection: sqlite3.Connection, model: int, memory: MatrixSnapshot, progress: Progress
) -> Iterator[Difference]:
    """Yield the differences between the stored vectors and the texts in the index, and between the stored vectors and those
    in RAM (`memory`). `connection`: of the index; it and `memory` must show the same moment."""
    ids = [row[0] for row in connection.execute("SELECT id FROM node WHERE held = 1")]
    tied = dict(
        connection.execute(
            "SELECT id, sha FROM embedded JOIN document USING (document) WHERE embedded.model = ?", (model,)
        )
    )
    for some in priority.giving(sql.chunks(ids)):
        for node_id, source in embedding_cache.sources(connection, some).items():
            if tied.pop(node_id, source.sha) != source.sha:
                yield Difference("vectors", None, node_id, "its vectors were made of another text")
    for node_id in tied:
        yield Difference("vectors", None, node_id, "there are vectors of a node that is gone")
    stored = dict(embedding_cache.everything(connection, model))
    both = stored.keys() | memory.places.keys()
    for node_id in shown(both, len(both), "vectors", progress):
        ours, theirs = memory.vectors(node_id), stored.get(node_id)
        if ours is None or theirs is None or not np.array_equal(ours, theirs.astype(np.float32)):
            yield Difference("vectors", None, node_id, "the vectors in memory are not those on the disk")
