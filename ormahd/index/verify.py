"""Compare the index with the vault, part by part, by path, id and content hash.

A part that lost its data looks like a search that found nothing, so every part is compared with its source: files with
rows, rows with words, links with their targets, texts with vectors, vectors with Chroma.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TypeVar

import numpy as np

from ormahd.api import Difference
from ormahd.index import embedding_cache
from ormahd.index import rows as links
from ormahd.index import write as full_text
from ormahd.index.reader import OF_VAULT
from ormahd.model.change import FileState
from ormahd.note.read import digest, parse
from ormahd.note.values import NoteKind
from ormahd.process import priority, sql
from ormahd.text.words import FTS_TOKENIZE
from ormahd.vectors.chroma import Chroma, ChromaTrouble, piece_ids
from ormahd.vectors.matrix import MatrixSnapshot

T = TypeVar("T")

NEAR = 1e-3
"""Tolerance for each component when Chroma's vectors are compared with those in memory."""
GIVE_WAY_EVERY = 1000
"""Number of words between two checks whether a request is waiting."""


Progress = Callable[[int, int, str], None]
"""Callback that reports progress: (number of items done, total or 0 if unknown, name of the work)."""
SHOWN_EVERY = 100
"""Number of items between two calls of the progress callback."""


def silent(_done: int, _total: int, _what: str) -> None:
    """Do nothing: the default callback for progress."""


def shown(things: Iterable[T], total: int, what: str, progress: Progress) -> Iterator[T]:
    """Yield `things`; meanwhile report progress (`what`: the name of the work) and let waiting requests go first."""
    for number, thing in enumerate(priority.giving(things)):
        if number % SHOWN_EVERY == 0:
            progress(number, total, what)
        yield thing


def files(
    connection: sqlite3.Connection, vault: Iterable[tuple[str, bytes, FileState]], progress: Progress = silent
) -> Iterator[Difference]:
    """Yield the differences between the vault's files and their rows in the database. `vault`: (path, the bytes that
    should be indexed, state on the disk)."""
    columns = ", ".join(f"n.{name}" for name in full_text.PROPERTIES)
    rows = connection.execute(
        f"SELECT f.path, f.node_id, n.digest, f.digest, t.content, {columns} FROM file f "
        f"JOIN text t USING (number) LEFT JOIN node n USING (number) WHERE {OF_VAULT}"
    )
    known = {row[0]: row[1:] for row in rows}
    for path, data, state in shown(vault, len(known), "files", progress):
        row = known.pop(path, None)
        note = parse(data, path)
        if note.kind is NoteKind.CONFLICTED:
            continue  # the index keeps its last version without conflict markers
        if row is None:
            yield Difference("missing", path, note.id, "the file is not in the index")
        elif (row[1] or row[2]) != (digest(data) if row[1] else state.digest):
            yield Difference("changed", path, row[0], "the file has other bytes than those that were indexed")
        elif row[3] != note.content:
            yield Difference("changed", path, row[0], "the index holds another text")
        elif row[1] and row[4:] != full_text.properties(full_text.as_indexed(note)):
            yield Difference("changed", path, row[0], "the index holds other properties")
    for path, row in known.items():
        yield Difference("left over", path, row[0], "the index knows a file that is not there")


def words(connection: sqlite3.Connection, progress: Progress = silent) -> Iterator[Difference]:
    """Yield the differences between the full text table and the stored texts, compared by each word and its
    position."""
    found: dict[int, int] = {}
    for number, (doc, column, term, offset) in enumerate(
        connection.execute("SELECT doc, col, term, offset FROM words_instance")
    ):
        if number % GIVE_WAY_EVERY == 0:
            priority.give()
            progress(0, 0, "words")
        found[doc] = found.get(doc, 0) ^ hash((column, term, offset))
    fresh = sqlite3.connect(":memory:")
    try:
        fresh.execute(f"""CREATE VIRTUAL TABLE words USING fts5
            (title, content, tags, forms, content = '', tokenize = "{FTS_TOKENIZE.replace('"', '""')}")""")
        fresh.execute("CREATE VIRTUAL TABLE words_instance USING fts5vocab (words, instance)")
        paths = connection.execute("SELECT number, path, node_id FROM file").fetchall()
        for at, some in enumerate(sql.chunks(paths, 200)):
            priority.give()
            progress(200 * at, len(paths), "words")
            stored = full_text.stored(connection, [row[0] for row in some])
            full_text.put(fresh, [full_text.fts_row(*row) for row in stored])
            wanted: dict[int, int] = {}
            for doc, column, term, offset in fresh.execute("SELECT doc, col, term, offset FROM words_instance"):
                wanted[doc] = wanted.get(doc, 0) ^ hash((column, term, offset))
            fresh.execute("INSERT INTO words (words) VALUES ('delete-all')")
            for number, path, node_id in some:
                if found.pop(number, 0) != wanted.get(number, 0):
                    yield Difference("words", path, node_id, "full text search knows other words than the text has")
    finally:
        fresh.close()
    for number in found:
        yield Difference("words", None, None, f"full text search knows words of a file that is gone (row {number})")


def edges(connection: sqlite3.Connection, progress: Progress = silent) -> Iterator[Difference]:
    """Yield the links whose stored target differs from what the link resolves to now."""
    rows = connection.execute(
        "SELECT f.path, n.id, e.text, e.short, e.file, e.whole, e.target FROM edge e JOIN node n USING (number) "
        "JOIN file f USING (number)"
    ).fetchall()
    for path, node_id, written, short, file, whole, target in shown(rows, len(rows), "links", progress):
        if links.lead(connection, links.Target(short, file, whole)) != target:
            yield Difference("changed", path, node_id, f"the link [[{written}]] leads elsewhere than the index says")


def vectors(
    connection: sqlite3.Connection, model: int, memory: MatrixSnapshot, progress: Progress = silent
) -> Iterator[Difference]:
    """Yield the differences between the stored texts and the stored vectors, and between the stored vectors and those
    in RAM (`memory`). `connection` and `memory` must show the same moment."""
    ids = [row[0] for row in connection.execute("SELECT id FROM node WHERE held = 1")]
    for some in priority.giving(sql.chunks(ids)):
        sources = embedding_cache.sources(connection, some)
        select = f"SELECT e.id, d.sha FROM embedded e JOIN document d USING (document) WHERE e.model = ? AND e.id IN ({sql.marks(some)})"
        tied = dict(connection.execute(select, (model, *some)))
        for node_id, source in sources.items():
            if node_id in tied and tied[node_id] != source.sha:
                yield Difference("vectors", None, node_id, "its vectors were made of another text")
    stored = dict(embedding_cache.everything(connection, model))
    for node_id in stored.keys() - set(ids):
        yield Difference("vectors", None, node_id, "there are vectors of a node that is gone")
    both = stored.keys() | memory.places.keys()
    for node_id in shown(both, len(both), "vectors", progress):
        ours = memory.vectors(node_id)
        theirs = stored.get(node_id)
        if ours is None or theirs is None or not np.array_equal(ours, theirs.astype(np.float32)):
            yield Difference("vectors", None, node_id, "the vectors in memory are not those on the disk")


def chroma(
    collection: Chroma, memory: MatrixSnapshot, pending: Collection[str], progress: Progress = silent
) -> Iterator[Difference]:
    """Yield the differences between Chroma's vectors and those in RAM (`memory`), but for the `pending` nodes, which are
    still to be written to Chroma. The caller holds Chroma's lock."""
    if collection.place is None:
        if collection.trouble:
            yield Difference("chroma", None, None, collection.trouble)
        return
    pending = set(pending)
    seen: dict[str, set[str]] = {}
    try:
        for piece, vector in shown(collection.contents(), len(memory.places), "Chroma", progress):
            node_id, number, _ = piece.split(":")
            seen.setdefault(node_id, set()).add(piece)
            ours = memory.vectors(node_id)
            if node_id in pending:
                continue
            if ours is None or piece not in piece_ids(node_id, ours):
                yield Difference("chroma", None, node_id, f"Chroma holds piece {number}, which is not there")
            elif np.abs(ours[int(number)] - vector).max() > NEAR:
                yield Difference("chroma", None, node_id, f"Chroma holds another vector for piece {number}")
    except ChromaTrouble as trouble:
        yield Difference("chroma", None, None, str(trouble))
        return
    for node_id, (_, count) in memory.places.items():
        if node_id not in pending and len(seen.get(node_id, ())) < count:
            yield Difference("chroma", None, node_id, f"Chroma lacks some of its {count} pieces")


def check(connection: sqlite3.Connection) -> Iterator[Difference]:
    """Yield the faults that SQLite's `integrity_check` finds."""
    for (line,) in connection.execute("PRAGMA integrity_check(20)"):
        if line != "ok":
            yield Difference("damaged", None, None, str(line))
