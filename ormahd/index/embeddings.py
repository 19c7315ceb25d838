"""The embeddings of notes: stored in SQLite by content, and one model's vectors in memory (`VectorStore`).

Table `document` has a row for each embedded text (by sha256), and `embedded` says which document a node has now. Every
row names its model, so the vectors of a new model can be stored beside those of the old one. Chroma is a fast
approximate index over them (`chroma.py`). Nodes that Chroma does not hold yet are searched exactly, so a node can be
found as soon as it is embedded, with or without Chroma.
"""

from __future__ import annotations

import hashlib
import itertools
import sqlite3
import sys
import threading
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

from ormahd.embedding import token_vectors as late
from ormahd.embedding.embedder import DocumentVectors, Embedder
from ormahd.embedding.token_vectors import Float, Half
from ormahd.index.words import heading
from ormahd.process import sql
from ormahd.settings import VectorSettings
from ormahd.text.quoting import without_data
from ormahd.vectors.chroma import Chroma
from ormahd.vectors.matrix import Matrix

KEEP_FREE_US = 7 * 86_400 * 1_000_000
"""Time for which an embedding is kept after the last note with its text is gone, in microseconds. An undo within that
week needs no new embedding."""
PURGE_BATCH = 2000
"""Maximum number of embeddings dropped in one transaction, so that writers need not wait long."""
KEEP_FREE_SHARE = 0.1
"""Maximum share of documents that belong to no note. At least 1,000 of them are kept."""


NO_PROSE_CHARACTERS = 500
"""Number of characters that are embedded if a text has no heading and no prose."""


class EmbeddedText(Struct, frozen=True):
    """The text that is embedded for a node: an optional heading, and the content. `sha`: the sha256 of both, the key
    under which the embedding is stored."""

    heading: str | None
    content: str
    sha: bytes


def text_to_embed(title: str | None, path: str, content: str) -> EmbeddedText:
    """Return the text to embed for a note with this title, path and content. The heading is left out if the content
    begins with it."""
    name = heading(title, path)
    content = without_data(content) or ("" if name else content[:NO_PROSE_CHARACTERS])
    if name and content[: len(name)].casefold() == name.casefold():
        name = None  # the text already begins with its heading
    return EmbeddedText(name, content, hashlib.sha256(f"{name or ''}\0{content}".encode(errors="replace")).digest())


def embed(embedder: Embedder, texts: Sequence[EmbeddedText], *, urgent: bool) -> dict[bytes, DocumentVectors]:
    """Return {sha256: embedding} of the texts. `urgent`: whether a request waits for them."""
    if not texts:
        return {}
    contents, headings = [text.content for text in texts], [text.heading for text in texts]
    vectors = embedder.embed_documents(contents, headings, urgent=urgent)
    return {text.sha: document for text, document in zip(texts, vectors, strict=True)}


class Delta(Struct):
    """The changes that one transaction made to one model's embeddings. After the commit, `VectorStore.take` makes the
    same changes to the vectors in RAM."""

    vectors: dict[str, Half] = field(default_factory=dict)
    """Nodes whose vectors changed, with the new ones: float16[pieces, dimensions]."""
    removed: set[str] = field(default_factory=set)
    """Nodes that have no vectors now: removed, or changed and not embedded yet."""
    waiting: set[str] = field(default_factory=set)
    """The nodes of `gone` that still exist."""
    df: Counter[int] = field(default_factory=Counter)


def model_number(connection: sqlite3.Connection, fingerprint: str) -> int:
    """Return the number of the model with this fingerprint in table `model`, to which it is added if it is not
    there."""
    connection.execute("INSERT OR IGNORE INTO model (fingerprint) VALUES (?)", (fingerprint,))
    return int(connection.execute("SELECT model FROM model WHERE fingerprint = ?", (fingerprint,)).fetchone()[0])


def models(connection: sqlite3.Connection) -> list[int]:
    """Return the numbers of all models in table `model`."""
    return [row[0] for row in connection.execute("SELECT model FROM model")]


def texts_to_embed(connection: sqlite3.Connection, ids: Sequence[str]) -> dict[str, EmbeddedText]:
    """Return {node id: the text to embed for it}. Unknown ids are left out."""
    found: dict[str, EmbeddedText] = {}
    for chunk in sql.sets(ids):
        rest = f"FROM node n JOIN text t USING (number) JOIN file f USING (number) WHERE n.held = 1 AND n.id IN ({sql.marks(chunk)})"
        rows = sql.table(connection, ("n.id", "n.title", "f.path", "t.content"), rest, chunk)
        found |= {row[0]: text_to_embed(*row[1:]) for row in rows}
    return found


def cached(connection: sqlite3.Connection, model: int, shas: Collection[bytes]) -> dict[bytes, int]:
    """Return {sha256: the embedding's number in table `document`} for those of the texts that have a stored embedding.
    `shas`: the texts' sha256."""
    found: dict[bytes, int] = {}
    for chunk in sql.sets(list(shas)):
        rest = f"FROM document WHERE model = ? AND sha IN ({sql.marks(chunk)})"
        known = sql.lookup(connection, "hex(sha)", "document", rest, (model, *chunk))
        found |= {bytes.fromhex(sha): document for sha, document in known.items()}
    return found


def vector(connection: sqlite3.Connection, document: int) -> NDArray[np.float32]:
    """Return one unit vector for a whole embedded text: the normalised mean of its pieces' vectors. `document`: the
    embedding's number in table `document`."""
    mean = np.mean(_vectors(connection, [document])[document].astype(np.float32), axis=0)
    return np.asarray(mean / max(float(np.linalg.norm(mean)), 1e-12), np.float32)


def put(connection: sqlite3.Connection, model: int, made: Mapping[bytes, DocumentVectors], now: int) -> None:
    """Store new embeddings of a model; those that are stored already are skipped. `made`: sha256 of the text -> its
    embedding; `now`: microseconds since 1970.

    Each embedding counts as free (used by no node) until `assign` gives it to a node.
    """
    known = cached(connection, model, made)
    free = connection.execute("SELECT coalesce(max(document), 0) FROM document").fetchone()[0]
    vectors, tokens, documents = [], [], []
    for sha, document in made.items():
        if sha in known:
            continue
        free += 1
        documents.append((free, model, sha, len(document.pieces), now))
        for number, piece in enumerate(document.pieces):  # a key has the embedding's number, then that of the piece
            key = free << 16 | number
            vectors.append((key, piece.vector.astype(np.float16).tobytes()))
            tokens.append((key, piece.token_ids.astype(np.uint32).tobytes(), late.pack(piece.tokens)))
    sql.put(connection, "INSERT INTO document", documents)
    sql.put(connection, "INSERT INTO vector", vectors)
    sql.put(connection, "INSERT INTO token", tokens)


def assign(connection: sqlite3.Connection, model: int, ids: Collection[str], now: int) -> Delta:
    """Give each of the nodes `ids` the stored embedding of its current text, in table `embedded`. A node gets none if
    its text has no stored embedding, or if it no longer exists. Return what changed.

    An embedding that no node has any more is marked as free. The record that Chroma has all vectors is deleted. `now`:
    microseconds since 1970.
    """
    # Find the nodes whose embedding is not that of their text.
    wanted = texts_to_embed(connection, list(ids))
    had = _stored_embeddings(connection, model, list(ids))
    tied = {node_id: sha for node_id, (_, sha) in had.items()}
    current = {node_id: text.sha for node_id, text in wanted.items()}
    changed = [node_id for node_id in ids if tied.get(node_id) != current.get(node_id)]
    if not changed:
        return Delta()

    # Find the stored embeddings of their texts.
    present = [node_id for node_id in changed if node_id in current]
    known = cached(connection, model, {current[node_id] for node_id in present})
    ties = [(node_id, known[current[node_id]]) for node_id in present if current[node_id] in known]
    untied = [had[node_id][0] for node_id in changed if node_id in had]

    # Note what changes, for the vectors in RAM.
    delta = Delta(removed=set(changed) - {node_id for node_id, _ in ties})
    delta.waiting = delta.removed & wanted.keys()
    delta.df = frequencies(connection, [document for _, document in ties])
    delta.df.subtract(frequencies(connection, untied))

    # Store it: the nodes' embeddings, and which embeddings are free.
    sql.among(connection, "DELETE FROM embedded WHERE model = ? AND id IN", changed, first=(model,))
    sql.put(connection, "INSERT INTO embedded", [(model, *tie) for tie in ties])
    used = [document for _, document in ties]
    sql.among(connection, "UPDATE document SET free = NULL WHERE free IS NOT NULL AND document IN", used)
    unused = "NOT EXISTS (SELECT 1 FROM embedded e WHERE e.document = document.document)"
    sql.among(connection, f"UPDATE document SET free = ? WHERE {unused} AND document IN", untied, first=(now,))
    connection.execute("DELETE FROM meta WHERE key = 'chroma'")
    by_document = _vectors(connection, used)
    delta.vectors = {node_id: by_document[document] for node_id, document in ties}
    return delta


def _stored_embeddings(connection: sqlite3.Connection, model: int, ids: Sequence[str]) -> dict[str, tuple[int, bytes]]:
    """Return {node id: (number in table `document`, sha256 of the text)} for the embeddings that the nodes have in
    table `embedded`."""
    found: dict[str, tuple[int, bytes]] = {}
    for chunk in sql.sets(ids):
        rest = f"FROM embedded e JOIN document d USING (document) WHERE e.model = ? AND e.id IN ({sql.marks(chunk)})"
        rows = sql.table(connection, ("e.id", "d.document", "hex(d.sha)"), rest, (model, *chunk))
        found |= {node_id: (document, bytes.fromhex(sha)) for node_id, document, sha in rows}
    return found


def _pieces(
    connection: sqlite3.Connection, column: str, documents: Collection[int]
) -> Iterator[tuple[int, list[bytes]]]:
    """Yield (number of the embedding, blobs of its pieces in order) for the embeddings with the numbers `documents`.
    `column`: which blob: `vector`, or a column of table `token` (`ids` or `vectors`)."""
    table = "vector" if column == "vector" else "token"
    for chunk in sql.sets(sorted(set(documents))):
        rest = (
            f"FROM document d JOIN {table} ON key BETWEEN d.document << 16 AND (d.document << 16) + 65535 "
            f"WHERE d.document IN ({sql.marks(chunk)})"
        )
        blobs = sorted(sql.blobs(connection, "key", column, rest, chunk).items())
        for document, pieces in itertools.groupby(blobs, key=lambda item: item[0] >> 16):
            yield document, [blob for _, blob in pieces]


def frequencies(connection: sqlite3.Connection, documents: Sequence[int]) -> Counter[int]:
    """Return {token id: number of the embeddings `documents` that contain it}. An embedding that is listed twice counts
    twice."""
    found: Counter[int] = Counter()
    for chunk in sql.chunks(documents):
        pieces = _pieces(connection, "ids", chunk)
        ids = {document: np.unique(np.frombuffer(b"".join(blobs), np.uint32)) for document, blobs in pieces}
        tokens, counts = np.unique(np.concatenate([ids[document] for document in chunk]), return_counts=True)
        found.update(dict(zip(tokens.tolist(), counts.tolist(), strict=True)))
    return found


def _vectors(connection: sqlite3.Connection, documents: Collection[int]) -> dict[int, Half]:
    """Return {number of the embedding: its vectors, float16[pieces, dimensions]}. `documents`: numbers in table
    `document`."""
    return {document: _join(blobs) for document, blobs in _pieces(connection, "vector", documents)}


def _join(blobs: Sequence[bytes]) -> Half:
    """Return the vectors of pieces, stored as one blob each, as one array: float16[pieces, dimensions]."""
    return np.frombuffer(b"".join(blobs), np.float16).reshape(len(blobs), -1)


def check(connection: sqlite3.Connection, model: int, dimensions: int, late_dimensions: int) -> None:
    """Raise sqlite3.DatabaseError, as for a damaged database, if a stored embedding of the model lacks a piece, or if a
    vector or the tokens of a piece have the wrong size."""
    # A vector has two bytes a dimension; a token id has four bytes, and its vector half a byte a dimension.
    whole = "length(vector) = ? AND length(vectors) * 8 = length(ids) * ?"
    (bad,) = connection.execute(
        f"SELECT count(*) FROM (SELECT 1 FROM document d LEFT JOIN vector v ON v.key BETWEEN document << 16 AND "
        f"(document << 16) + 65535 LEFT JOIN token t USING (key) WHERE model = ? GROUP BY document "
        f"HAVING count(*) <> pieces OR NOT coalesce(min({whole}), 0))",
        (model, 2 * dimensions, late_dimensions),
    ).fetchone()
    if bad:
        raise sqlite3.DatabaseError(f"malformed: {bad} embeddings are not whole")


def all_vectors(connection: sqlite3.Connection, model: int) -> Iterator[tuple[str, Half]]:
    """Yield (node id, float16[pieces, dimensions]) for every node with vectors, to load the vectors into RAM."""
    select = (
        "SELECT e.id, v.vector FROM embedded e JOIN vector v ON v.key BETWEEN e.document << 16 "
        "AND (e.document << 16) + 65535 WHERE e.model = ? ORDER BY e.id, v.key"
    )
    for node_id, rows in itertools.groupby(connection.execute(select, (model,)), key=lambda row: row[0]):
        yield sys.intern(node_id), _join([blob for _, blob in rows])  # many structures hold each id: share one copy


def nodes_without_vectors(connection: sqlite3.Connection, model: int) -> list[str]:
    """Return the ids of the nodes that have no vectors yet, most recently updated first, because people search for
    recent notes first."""
    select = (
        "SELECT n.id FROM node n LEFT JOIN embedded e ON e.model = ? AND e.id = n.id "
        "WHERE n.held = 1 AND e.id IS NULL ORDER BY n.updated DESC, n.id"
    )
    return [row[0] for row in connection.execute(select, (model,))]


class TokenVectors(Struct, frozen=True):
    """Token vectors of several nodes in one array, to compare them with those of a query (MaxSim).

    Node `ids[i]` has rows `offsets[i]` to `offsets[i + 1]` of `packed` ([n, late / 2], see `late.cosines`).
    Nodes without tokens are left out.
    """

    ids: list[str]
    offsets: NDArray[np.int64]
    packed: NDArray[np.ubyte]


Pieces = tuple[int, ...]
"""Numbers of the pieces of one node whose token vectors are requested."""


def tokens(connection: sqlite3.Connection, model: int, pieces: Mapping[str, Pieces]) -> dict[str, bytes]:
    """Return {node id: token vectors packed by `late.pack`}. `pieces`: node id -> numbers of the pieces that are
    wanted. Nodes without token vectors are left out."""
    documents: dict[str, int] = {}
    for chunk in sql.sets(list(pieces)):
        rest = f"FROM embedded WHERE model = ? AND id IN ({sql.marks(chunk)})"
        documents |= sql.lookup(connection, "id", "document", rest, (model, *chunk))
    keys = {node_id: [document << 16 | piece for piece in pieces[node_id]] for node_id, document in documents.items()}
    found: dict[int, bytes] = {}
    for part in sql.sets([key for of_node in keys.values() for key in of_node]):
        found |= sql.blobs(connection, "key", "vectors", f"FROM token WHERE key IN ({sql.marks(part)})", part)
    joined = {node_id: b"".join(found.get(key, b"") for key in of_node) for node_id, of_node in keys.items()}
    return {node_id: packed for node_id, packed in joined.items() if packed}


def token_vectors(packed: Mapping[str, bytes], width: int) -> TokenVectors:
    """Return the result of `tokens` as one array for MaxSim, in the same order. `width`: number of dimensions of a
    token vector."""
    ends = np.cumsum([0, *(len(blob) // (width // 2) for blob in packed.values())])
    both = np.frombuffer(b"".join(packed.values()), np.ubyte).reshape(-1, width // 2)
    return TokenVectors(list(packed), ends, both)


def delete_unneeded(connection: sqlite3.Connection, model: int, now: int) -> int:
    """Delete up to `PURGE_BATCH` embeddings that are not needed. Return how many were deleted.

    Not needed are: embeddings of models other than `model`; those that have belonged to no node for more than a week;
    and of the others without a node the oldest, as far as they exceed `KEEP_FREE_SHARE`. `now`: microseconds since
    1970.
    """
    total = connection.execute("SELECT count(*) FROM document").fetchone()[0]
    keep = max(1000, int(KEEP_FREE_SHARE * total))
    old = connection.execute(
        "SELECT document FROM document WHERE model <> ? OR (free IS NOT NULL AND (free < ? OR document IN "
        "(SELECT document FROM document WHERE free IS NOT NULL ORDER BY free DESC LIMIT -1 OFFSET ?))) LIMIT ?",
        (model, now - KEEP_FREE_US, keep, PURGE_BATCH),
    ).fetchall()
    keys = [(row[0] << 16, row[0] << 16 | 0xFFFF) for row in old]
    for table in ("vector", "token"):
        connection.executemany(f"DELETE FROM {table} WHERE key BETWEEN ? AND ?", keys)
    connection.executemany("DELETE FROM document WHERE document = ?", old)
    return len(old)


def delete_free(connection: sqlite3.Connection) -> None:
    """Delete the embeddings of all texts that no note has, for every model. The caller must delete Chroma's files, in
    which the vectors remain."""
    free = "(SELECT document FROM document WHERE free IS NOT NULL)"
    for table in ("vector", "token"):
        connection.execute(f"DELETE FROM {table} WHERE key >> 16 IN {free}")
    connection.execute("DELETE FROM document WHERE free IS NOT NULL")


def delete_other_models(connection: sqlite3.Connection, model: int) -> None:
    """Delete what is left of all models other than `model`, after `delete_unneeded` has deleted their embeddings."""
    for table in ("embedded", "model"):
        connection.execute(f"DELETE FROM {table} WHERE model <> ?", (model,))


FEW_NOTES = 100
"""Number of notes with which a function word has half the rarity that is counted (`VectorStore.idf`)."""


class VectorStore:
    """Holds the vectors of one model in RAM, and searches them. Also knows the model's token frequencies, and which nodes
    are still to be embedded.

    Reading is safe from any thread; a writer must hold the index's apply lock.
    """

    def __init__(self, embedder: Embedder, directory: Path, settings: VectorSettings) -> None:
        self.embedder = embedder
        self.matrix = Matrix(embedder.dimensions, quick=settings.exact_pieces if settings.url is None else 0)
        self.chroma = Chroma(directory, settings, embedder.fingerprint, self.matrix)
        self.number = 0
        self.waiting: dict[str, None] = {}
        """Nodes without vectors, in the order in which they will be embedded."""
        self.recorded = False
        """Whether SQLite has the record that Chroma holds all vectors (see `record`)."""
        self._df = Counter[int]()  # token id -> number of nodes that have it
        self._lock = threading.Lock()

    # Loading and updating

    def load(self, connection: sqlite3.Connection) -> None:
        """Load this model's vectors, token counts and list of nodes without vectors from SQLite, in place of those in
        RAM. Raises sqlite3.DatabaseError if they are damaged."""
        self.number = model_number(connection, self.embedder.fingerprint)
        check(connection, self.number, self.embedder.dimensions, self.embedder.late_dimensions)
        old = set(self.matrix.ids())
        self.matrix.remove(old)
        self.matrix.put(all_vectors(connection, self.number))
        rows = connection.execute("SELECT document FROM embedded WHERE model = ?", (self.number,))
        self._df = frequencies(connection, [row[0] for row in rows])
        self.waiting = dict.fromkeys(nodes_without_vectors(connection, self.number))
        row = connection.execute("SELECT value FROM meta WHERE key = 'chroma'").fetchone()
        self.recorded = row == (str(self.number),)
        if old:
            self.chroma.changed(old.union(self.matrix.ids()))
        else:
            self.chroma.compared = self.recorded

    def take(self, delta: Delta) -> None:
        """Make the changes of a committed transaction to the vectors in RAM as well."""
        self.matrix.remove(delta.removed)
        self.matrix.put(delta.vectors.items())
        self._df.update(delta.df)
        changed = delta.removed | delta.vectors.keys()
        self.recorded = self.recorded and not changed
        self.chroma.changed(changed)
        with self._lock:
            for node_id in changed:
                self.waiting.pop(node_id, None)
            self.waiting |= dict.fromkeys(sorted(delta.waiting))

    def record(self, connection: sqlite3.Connection) -> None:
        """Record in SQLite that Chroma holds all vectors, if it does. The next process then need not open it. The next
        change to the vectors deletes the record (`assign`)."""
        if self.chroma.complete:
            connection.execute("INSERT OR REPLACE INTO meta VALUES ('chroma', ?)", (str(self.number),))
            self.recorded = True

    # Search

    @property
    def searched(self) -> str:
        """Where vectors are searched: "memory" (in RAM), "chroma" (Chroma in this process) or "server" (a Chroma
        server). It is "memory" whenever Chroma is not open."""
        return (None if self.matrix.quick else self.chroma.place) or "memory"

    def search(self, vector: Float, limit: int) -> list[tuple[str, float]]:
        """Return the nearest nodes: (id, cosine of the best piece), best first. If Chroma finds the candidates, their
        exact cosines are still computed from the vectors in RAM."""
        near = None if self.matrix.quick else self.chroma.nearest(vector, limit)
        if near is None:
            return self.matrix.nearest(vector, limit)
        scores = self.matrix.cosines(vector, near)
        return sorted(scores.items(), key=lambda item: (-item[1], item[0]))[:limit]

    def search_each(self, vectors: Float, limit: int) -> list[list[tuple[str, float]]]:
        """Return the nearest nodes for each of several vectors, float32[k, dimensions], as `search` does for one."""
        if self.matrix.quick:
            return self.matrix.nearest_each(vectors, limit)
        return [self.search(vector, limit) for vector in vectors]

    def idf(self, token_ids: NDArray[np.uint32], function_words: NDArray[np.bool_] | bool = False) -> Float:
        """Return how rare each of these token ids is among the notes: ln((notes + 1) / (notes with the token + 1)),
        at least 0.

        Few notes do not show which words are common: "why" may be in none of them. So the value of function words
        (`function_words`: whether a token is one) is multiplied by notes / (notes + `FEW_NOTES`).
        """
        notes = len(self.matrix) + 1
        counts = np.array([self._df[int(token)] for token in token_ids], np.float32)
        scale = np.where(function_words, notes / (notes + FEW_NOTES), 1.0)
        return np.asarray(np.maximum(np.log(notes / (counts + 1)), 0.0) * scale, np.float32)

    def best_pieces(self, ids: Sequence[str], vector: Float | None, limit: int) -> dict[str, Pieces]:
        """Return {node id: numbers of the pieces whose tokens are compared with those of a query}. These are all
        pieces, or only the `limit` pieces nearest to `vector` if the note has more. Nodes without vectors are left
        out."""
        chosen: dict[str, Pieces] = {}
        for node_id, count in zip(ids, self.matrix.counts(ids), strict=True):
            if count == 1:
                chosen[node_id] = (0,)
            elif count > limit and vector is not None:
                vectors = self.matrix.vectors(node_id)
                if vectors is not None:
                    chosen[node_id] = tuple(sorted(np.argsort(-(vectors @ vector), kind="stable")[:limit].tolist()))
            elif count:
                chosen[node_id] = tuple(range(min(count, limit)))
        return chosen
