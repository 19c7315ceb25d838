"""Is the index what the vault says? Compared by path, id and content hash, part by part, not by counting.

A search that lost one of its legs looks like a search that found nothing (REFERENCE H 3), so every leg is compared
with what it was made from: files with rows, rows with words, links with where they lead, texts with vectors, vectors
with Chroma.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from ormahd.core import sql
from ormahd.core.file_state import FileState
from ormahd.core.note import NoteKind, digest, parse
from ormahd.core.words import FTS_TOKENIZE
from ormahd.index import cache, links, text
from ormahd.index.meaning import Meaning
from ormahd.index.rows import Difference
from ormahd.index.vectors import ChromaTrouble

NEAR = 1e-3
"""Largest difference of a component between Chroma's vector and ours; it keeps them as float32, unchanged."""


def files(connection: sqlite3.Connection, vault: Iterable[tuple[str, bytes, FileState]]) -> Iterator[Difference]:
    """The vault's files (path, the bytes that ought to be indexed, state on the disk) against the rows."""
    rows = connection.execute(
        f"SELECT f.path, f.node_id, n.digest, f.digest, t.content, f.kind = '{NoteKind.INDEXED}' FROM file f JOIN text t USING (number) "
        "LEFT JOIN node n USING (number)"
    )
    known = {row[0]: row[1:] for row in rows}
    for path, data, state in vault:
        row = known.pop(path, None)
        note = parse(data, path)
        if note.kind is NoteKind.CONFLICTED:
            continue  # its last good version stays, whatever that was
        if row is None:
            yield Difference("missing", path, note.id, "the file is not in the index")
        elif (row[1] or row[2]) != (digest(data) if row[1] else state.digest):
            yield Difference("changed", path, row[0], "the file has other bytes than those that were indexed")
        elif (row[0] if row[4] else None) != state.lent:
            yield Difference("changed", path, row[0], "the file counts as another note than the one that was indexed")
        elif row[3] != note.content:
            yield Difference("changed", path, row[0], "the index holds another text")
    for path, row in known.items():
        yield Difference("left over", path, row[0], "the index knows a file that is not there")


def words(connection: sqlite3.Connection) -> Iterator[Difference]:
    """The full text table against the texts, word by word and place by place."""
    found: dict[int, int] = {}
    for doc, column, term, offset in connection.execute("SELECT doc, col, term, offset FROM words_instance"):
        found[doc] = found.get(doc, 0) ^ hash((column, term, offset))
    fresh = sqlite3.connect(":memory:")
    try:
        fresh.execute(f"""CREATE VIRTUAL TABLE words USING fts5
            (title, content, tags, content = '', tokenize = "{FTS_TOKENIZE.replace('"', '""')}")""")
        fresh.execute("CREATE VIRTUAL TABLE words_instance USING fts5vocab (words, instance)")
        paths = connection.execute("SELECT number, path, node_id FROM file").fetchall()
        for some in sql.chunks(paths, 2000):
            stored = text.stored(connection, [row[0] for row in some])
            text.put(fresh, [text.fts_row(*row) for row in stored])
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


def edges(connection: sqlite3.Connection) -> Iterator[Difference]:
    """Where links lead against where they led when they were resolved."""
    rows = connection.execute(
        "SELECT f.path, n.id, e.text, e.short, e.file, e.whole, e.target FROM edge e JOIN node n USING (number) "
        "JOIN file f USING (number)"
    ).fetchall()
    for path, node_id, written, short, file, whole, target in rows:
        if links.lead(connection, links.Target(short, file, whole)) != target:
            yield Difference("changed", path, node_id, f"the link [[{written}]] leads elsewhere than the index says")


def vectors(connection: sqlite3.Connection, meaning: Meaning) -> Iterator[Difference]:
    """Texts against the vectors that nodes are tied to, and those against the ones in memory."""
    ids = [row[0] for row in connection.execute("SELECT id FROM node WHERE held = 1")]
    for some in sql.chunks(ids):
        sources = cache.sources(connection, some)
        tied = _tied(connection, meaning.number, some)
        for node_id, source in sources.items():
            if node_id in tied and tied[node_id] != source.sha:
                yield Difference("vectors", None, node_id, "its vectors were made of another text")
    stored = dict(cache.everything(connection, meaning.number))
    for node_id in stored.keys() - set(ids):
        yield Difference("vectors", None, node_id, "there are vectors of a node that is gone")
    for node_id in stored.keys() | set(meaning.matrix.ids()):
        ours = meaning.matrix.vectors(node_id)
        theirs = stored.get(node_id)
        if ours is None or theirs is None or not np.array_equal(ours, theirs.astype(np.float32)):
            yield Difference("vectors", None, node_id, "the vectors in memory are not those on the disk")


def _tied(connection: sqlite3.Connection, model: int, ids: Sequence[str]) -> dict[str, bytes]:
    select = f"SELECT e.id, d.sha FROM embedded e JOIN document d USING (document) WHERE e.model = ? AND e.id IN ({sql.marks(ids)})"  # fmt: skip
    return dict(connection.execute(select, (model, *ids)))


def chroma(meaning: Meaning) -> Iterator[Difference]:
    """Chroma's vectors against ours, but for nodes that it has yet to learn."""
    store = meaning.chroma
    if store is None:
        if meaning.trouble:
            yield Difference("chroma", None, None, meaning.trouble)
        return
    excused = meaning.unsettled_ids()
    seen: set[str] = set()
    try:
        for piece, vector in store.contents():
            node_id, _, number = piece.rpartition(":")
            seen.add(piece)
            ours = None if node_id in excused else meaning.matrix.vectors(node_id)
            if node_id in excused:
                continue
            if ours is None or int(number) >= len(ours):
                yield Difference("chroma", None, node_id, f"Chroma holds piece {number}, which is not there")
            elif np.abs(ours[int(number)] - vector).max() > NEAR:
                yield Difference("chroma", None, node_id, f"Chroma holds another vector for piece {number}")
    except ChromaTrouble as trouble:
        yield Difference("chroma", None, None, str(trouble))
        return
    for node_id in meaning.matrix.ids():
        if node_id not in excused:
            for at in range(meaning.matrix.count(node_id)):
                if f"{node_id}:{at}" not in seen:
                    yield Difference("chroma", None, node_id, f"Chroma does not know piece {at}")


def check(connection: sqlite3.Connection) -> Iterator[Difference]:
    """SQLite's own opinion of its file."""
    for (line,) in connection.execute("PRAGMA integrity_check(20)"):
        if line != "ok":
            yield Difference("damaged", None, None, str(line))
