"""The index's queries: files, nodes, edges, searches, and ids from prefixes and paths.

Safe from any thread; each answer is read from one snapshot of the database.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import sqlite3
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from ormahd.embedding.embedder import Embedder, QueryVectors
from ormahd.embedding.token_vectors import Float
from ormahd.errors import Ambiguous, BadRequest, NotFound, NotReady
from ormahd.index import embeddings, links, words
from ormahd.index.database import Database
from ormahd.index.embeddings import TokenVectors, VectorStore
from ormahd.index.rows import (
    CANDIDATE_COLUMNS,
    FROM_SOURCE,
    NODE_COLUMNS,
    NODE_FROM,
    UNWRITTEN,
    CandidateRow,
    EdgeRow,
    Filter,
    NodeRow,
    SourceRow,
    Stats,
    Unresolved,
    candidate,
    micros,
    node_row,
)
from ormahd.index.write import fingerprint
from ormahd.model.change import FileState
from ormahd.model.node import EdgeType, NodeType, Strength, is_node_id
from ormahd.note.values import NoteKind
from ormahd.process import priority, sql
from ormahd.text.standing import NEWER_AT, Compared, comparable, compare
from ormahd.text.statement import Statement, read_statement
from ormahd.text.words import query_terms

MIN_PREFIX = 4
DRAWS = 100
"""Number of ids drawn before giving up on a free short id. Even among a million notes, nearly every draw is free."""
AMBIGUOUS_IDS = 20
"""Maximum number of ids that an `Ambiguous` error lists."""
_BY_TAG = f"SELECT tag, count(*) FROM tag JOIN node n USING (number) WHERE held = 1 AND NOT {FROM_SOURCE} GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT ?"
_PREFIX = re.compile(r"[0-9a-f-]{1,36}")
_DASHES = (8, 13, 18, 23)


def clean_prefix(text: str) -> str:
    """Return the beginning of an id in canonical form: in lower case, with dashes. Raises BadRequest for any other
    text, so that no SQL, glob or path gets through."""
    prefix = text.strip().casefold()
    if re.fullmatch(r"[0-9a-f]{9,32}", prefix):  # an id without dashes
        for at in _DASHES:
            prefix = prefix[:at] + "-" + prefix[at:] if len(prefix) > at else prefix
    if not _PREFIX.fullmatch(prefix) or any((char == "-") != (at in _DASHES) for at, char in enumerate(prefix)):
        raise BadRequest(
            f"{text[:60]!r} is no memory id",
            hint=f"give the id, or at least its first {MIN_PREFIX} characters (0-9, a-f)",
        )
    if len(prefix) < MIN_PREFIX:
        raise BadRequest(
            f"{text!r} is too short for a memory id", hint=f"give at least its first {MIN_PREFIX} characters"
        )
    return prefix


OF_VAULT = f"kind <> '{NoteKind.SOURCE}'"
"""Condition in SQL on a row of table `file`: it is a file of the vault."""


def known_files(connection: sqlite3.Connection, paths: Sequence[str] | None = None) -> dict[str, FileState]:
    """Return {path: state when it was indexed} for all files of the vault, or only for `paths`."""
    names = ("path", "size", "mtime_ns", "inode", "digest")
    if paths is None:
        rows = connection.execute(f"SELECT {', '.join(names)} FROM file WHERE {OF_VAULT}")
        return {row[0]: FileState(*row) for row in rows}
    found: dict[str, FileState] = {}
    for chunk in sql.sets(paths):
        rest = f"FROM file WHERE path IN ({sql.marks(chunk)}) AND {OF_VAULT}"
        found |= {row[0]: FileState(*row) for row in sql.table(connection, names, rest, chunk)}
    return found


def full(ids: Sequence[str]) -> list[str]:
    """Return the valid full ids in `ids`, each once, in order."""
    return [node_id for node_id in dict.fromkeys(ids) if is_node_id(node_id)]


EVERYTHING = Filter()
FEW = 0.05
"""If at most this share of all nodes passes a filter, all of these nodes are scored exactly (DESIGN section 9)."""
EXACT = 3
"""Number of nodes that can be scored exactly in the time that it takes to fetch and filter one node."""
SPARE = 20
"""Number of neighbours that are fetched in addition to the number that is estimated from the filter."""
WIDENINGS = 3
"""Number of searches, each for three times as many nodes as the one before, after which all nodes that pass the filter
are scored exactly."""
Stated = tuple[Statement, NodeType, str | None]
"""A memory's text as read by `statement.read_statement`, its type, and its space."""
CACHED_PAIRS = 20_000
"""Number of pairs of notes whose comparison is kept in memory (3 MB): reading and comparing two texts takes a
millisecond."""
LATE_PIECES = 4
"""Maximum number of pieces of a note whose tokens are compared with those of a query."""


def _statement(row: NodeRow) -> Statement:
    """Return the text of a node as read by `statement.read_statement`."""
    return read_statement(row.title, row.content, row.type)


def top(scores: NDArray[np.float64], limit: int) -> NDArray[np.int64]:
    """Return the positions in `scores` of the `limit` highest scores, and of all scores that equal the lowest of
    these."""
    if len(scores) <= limit:
        return np.arange(len(scores))
    return np.flatnonzero(scores >= np.partition(scores, len(scores) - limit)[len(scores) - limit])


class Reader:
    """Reads and searches the index: files, nodes, edges, words and vectors. Thread-safe."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.active: VectorStore | None = None
        """The vectors of the model that questions are embedded with; None until a model is attached."""
        self.strength: Mapping[str, Strength] = {}
        """Strength of nodes, by id. Nodes that are not in it have the default."""
        self.counted = words.Frequencies()
        self._compared: dict[tuple[str, str], Compared] = {}
        """(digest of the older note, digest of the newer) -> whether its words show that the newer replaced it."""
        self._beside = priority.ParallelThreads("search-text")
        self.lags = set[str]()
        """Why the index may lack memories of the vault, such as `start`; empty: it has all."""

    def close(self) -> None:
        """Stop the search threads, and close the database."""
        self._beside.close()
        self.database.close()

    # Files

    @property
    def position(self) -> str | None:
        """The commit up to which the vault has been indexed; None if there is none."""
        with self.database.ask() as connection:
            row = connection.execute("SELECT value FROM meta WHERE key = 'head'").fetchone()
            return None if row is None else str(row[0])

    def kinds(self) -> dict[str, str]:
        """Return {path: kind (`NoteKind`)} for every indexed file of the vault. If several files have the same id, only
        one of them is its node; the others have the kind "duplicate"."""
        with self.database.read() as connection:
            kind = "CASE WHEN n.held = 0 THEN 'duplicate' ELSE kind END"
            select = f"SELECT path, {kind} FROM file LEFT JOIN node n USING (number) WHERE {OF_VAULT}"
            return dict(connection.execute(select))

    def source_rows(self) -> list[SourceRow]:
        """Return the sections of all files in the person's folders."""
        with self.database.read() as connection:
            select = "SELECT path, size, mtime_ns, inode, f.digest, node_id, space, source FROM file f JOIN node USING (number)"
            return [SourceRow(*row) for row in connection.execute(f"{select} WHERE kind = '{NoteKind.SOURCE}'")]

    def texts(self, chosen: str = OF_VAULT) -> Iterator[tuple[str, bytes]]:
        """Yield (path, text) for each file that `chosen` selects, a condition in SQL on table `file`. The text is the
        path, the id, the title and the content, joined by newlines, as UTF-8.

        The caller must not use the index until all rows are read.
        """
        with self.database.read() as connection:
            rows = connection.execute(
                "SELECT f.path, coalesce(f.node_id, '') || char(10) || coalesce(n.title, '') || char(10) || t.content "
                f"FROM file f JOIN text t USING (number) LEFT JOIN node n USING (number) WHERE {chosen}"
            )
            for path, text in rows:
                yield path, f"{path}\n{text}".encode("utf-8", "surrogateescape")

    def unwritten(self) -> set[str]:
        """Return the ids of the memories whose files Ormah never writes to."""
        with self.database.ask() as connection:
            return {row[0] for row in connection.execute(f"SELECT node_id FROM file WHERE kind IN {UNWRITTEN}")}

    # Nodes and edges

    def resolve(self, prefix: str) -> str:
        """Return the full id for an id, for a unique prefix of at least 4 characters (in any case), or for the path of
        a note.

        Raises:
            BadRequest: the text cannot be an id.
            NotFound: no memory has the id.
            Ambiguous: several ids begin with it; `data["ids"]` lists them.
            NotReady: the index lags behind the vault, which may have it.
        """
        try:
            return self.resolve_known(prefix)
        except NotFound as absent:
            raise self._absent_error(absent) from None

    def resolve_known(self, prefix: str) -> str:
        """Do what `resolve` does, but raise NotFound also while the index lags behind the vault."""
        # The path of a note.
        text = prefix.strip()
        if text[-3:].lower() == ".md":
            select = "SELECT n.id FROM file JOIN node n USING (number) WHERE path = ? AND held = 1"
            with self.database.ask() as connection:
                row = connection.execute(select, (text,)).fetchone()
            if row is None:
                hint = "paths are relative to the vault; look for it with `ormahctl recall`"
                raise NotFound(f"no memory lies at {text!r}", hint=hint)
            return str(row[0])

        # An id or a prefix. No id has a "g", so `beginning` + "g" sorts after all ids with that prefix.
        beginning = clean_prefix(prefix)
        select = "SELECT id FROM node WHERE held = 1 AND id >= ? AND id < ? ORDER BY id LIMIT ?"
        with self.database.ask() as connection:
            rows = connection.execute(select, (beginning, beginning + "g", AMBIGUOUS_IDS + 1)).fetchall()
        ids = [str(node_id) for (node_id,) in rows]
        if not ids:
            raise NotFound(f"no memory has the id {text!r}", hint="look for it with `ormahctl recall`")
        if len(ids) > 1:
            count = f"more than {AMBIGUOUS_IDS}" if len(ids) > AMBIGUOUS_IDS else len(ids)
            hint = "give more characters of the id"
            raise Ambiguous(f"{text!r} is the beginning of {count} ids", hint=hint, data={"ids": ids[:AMBIGUOUS_IDS]})
        return ids[0]

    @property
    def embedder(self) -> Embedder | None:
        """The model whose vectors are searched now; queries must be embedded with it. None until a model is
        attached."""
        return self.active.embedder if self.active else None

    def embed_query(self, text: str) -> QueryVectors | None:
        """Return the vectors of a question; None until a model is attached."""
        return None if self.embedder is None else self.embedder.embed_query(text)

    def find_short(self, short: str) -> str | None:
        """Return the id of the node with this short id; None if there is none."""
        try:
            return self.resolve_known(short)
        except NotFound:
            return None

    def new_id(self, taken: Collection[str] = ()) -> str:
        """Return a new random id whose short id no memory has. `taken`: further short ids that it must not have."""
        for _ in range(DRAWS):
            drawn = str(uuid.uuid4())
            short = drawn[:8]
            with self.database.ask() as connection:
                select = "SELECT 1 FROM node WHERE held = 1 AND id >= ? AND id < ?"
                known = connection.execute(select, (short, short + "g")).fetchone()
            if known is None and short not in taken:
                return drawn
        raise BadRequest("no free short id was found", hint="this vault holds too many notes for 8-character ids")

    def note(self, node_id: str) -> NodeRow:
        """Return the node with this full id. Raises NotFound, or NotReady (it may be in the vault)."""
        found = self.notes([node_id])
        if node_id not in found:
            hint = "look for it with `ormahctl recall`"
            raise self._absent_error(NotFound(f"no memory has the id {node_id!r}", hint=hint))
        return found[node_id]

    def _absent_error(self, absent: NotFound) -> NotFound | NotReady:
        """Return the error for a memory that the index lacks: `absent`, unless it may be in the vault."""
        if not self.lags:
            return absent
        return NotReady(f"the index is still being made from the vault: {absent.message}", hint="ask again in a moment")

    def notes(self, ids: Sequence[str]) -> dict[str, NodeRow]:
        """Return {full id: node}, in the order of `ids`. Unknown ids are left out."""
        wanted = full(ids)
        found = {row[0]: row for row in self._node_rows(NODE_COLUMNS, NODE_FROM, wanted)}
        return {node_id: node_row(found[node_id], self.strength) for node_id in wanted if node_id in found}

    def candidates(self, ids: Sequence[str]) -> dict[str, CandidateRow]:
        """Return {full id: the fields of a node that ranking needs}. Unknown ids are left out."""
        rows = self._node_rows(CANDIDATE_COLUMNS, "node n JOIN text t USING (number)", full(ids))
        return {row[0]: candidate(row, self.strength) for row in rows}

    def _node_rows(self, columns: str, tables: str, ids: Sequence[str]) -> list[list[Any]]:
        """Return the rows of the nodes `ids` that exist. `columns`, `tables`: the columns, and the tables of the FROM
        clause, in SQL."""
        priority.give()
        found: list[list[Any]] = []
        with self._connection_for(ids) as connection:
            for chunk in sql.sets(ids):
                rest = f"FROM {tables} WHERE n.held = 1 AND n.id IN ({sql.marks(chunk)})"
                found += sql.table(connection, (columns,), rest, chunk)
        return found

    def _connection_for(self, ids: Sequence[str], limit: int = sql.SOME) -> AbstractContextManager[sqlite3.Connection]:
        """Return a context manager that yields a connection for reading the nodes `ids`. With at most `limit` ids the
        connection has no transaction, because a single statement reads them all."""
        return self.database.ask() if len(ids) <= limit else self.database.read()

    def ids(self, chosen: Filter = EVERYTHING) -> list[str]:
        """Return the ids of all nodes that pass the filter."""
        condition, values = chosen.sql()
        with self.database.ask() as connection:
            return sql.columns(connection, ("n.id",), f"FROM node n WHERE {condition}", values)[0]

    @property
    def changes(self) -> int:
        """Number of times that notes were added, changed or removed, since the start."""
        return self.counted.changes

    def acts(self, space: str | None) -> list[tuple[str, str]]:
        """Return (id, `Acts` as JSON) of the nodes of a space that have `Acts`, sorted. Archival nodes are left out.
        `space`: None for nodes without a space."""
        select = "SELECT id, acts FROM node WHERE held = 1 AND acts IS NOT NULL AND tier <> 'archival' AND space IS ?"
        with self.database.ask() as connection:
            return sorted(connection.execute(select, (space,)))

    def ids_with_act(self, name: str) -> list[str]:
        """Return the ids of the nodes whose `Acts` have a value in the field `name`, such as `guard`."""
        select = "SELECT id FROM node INDEXED BY node_acts WHERE held = 1 AND acts IS NOT NULL AND acts LIKE ?"
        with self.database.ask() as connection:
            return [row[0] for row in connection.execute(select, (f'%"{name}":%',))]

    def newest(self, chosen: Filter, limit: int) -> list[str]:
        """Return the ids of the last created nodes that pass the filter, newest first. Nodes created at the same time
        are ordered by id."""
        condition, values = chosen.sql()
        select = f"SELECT n.id FROM node n WHERE {condition} ORDER BY n.created DESC, n.id LIMIT ?"
        with self.database.ask() as connection:
            return [row[0] for row in connection.execute(select, (*values, limit))]

    def count(self, chosen: Filter = EVERYTHING) -> int:
        """Return how many nodes pass the filter."""
        condition, values = chosen.sql()
        with self.database.ask() as connection:
            return int(connection.execute(f"SELECT count(*) FROM node n WHERE {condition}", values).fetchone()[0])

    def filter_ids(self, ids: Sequence[str], chosen: Filter) -> list[str]:
        """Return those of `ids` whose nodes pass the filter, in their order."""
        condition, values = chosen.sql()
        passing: set[str] = set()
        with self._connection_for(ids) as connection:
            for chunk in sql.sets(ids):
                # `CROSS JOIN` by number: otherwise SQLite uses an index of the filter and walks half of the nodes.
                these = f"SELECT number FROM node WHERE held = 1 AND id IN ({sql.marks(chunk)})"
                rest = f"FROM ({these}) CROSS JOIN node n USING (number) WHERE {condition}"
                passing.update(*sql.columns(connection, ("n.id",), rest, (*chunk, *values)))
        return [node_id for node_id in ids if node_id in passing]

    def find_equal(self, space: str | None, type: NodeType, title: str | None, content: str) -> str | None:  # noqa: A002
        """Return the id of the newest node with exactly these fields; None if there is none. `content` must be
        normalised as by `parse`."""
        with self.database.ask() as connection:
            row = connection.execute(
                "SELECT id FROM node n JOIN text t USING (number) WHERE held = 1 AND same = ? AND space IS ? AND type = ? "
                f"AND NOT {FROM_SOURCE} AND title IS ? AND content = ? ORDER BY created DESC, id LIMIT 1",
                (fingerprint(space, type, title, content), space, type, title or None, content),
            ).fetchone()
        return None if row is None else str(row[0])

    def extracted_from(self) -> dict[str, str]:
        """Return {node id: `<session>#<turn>`} for the memories that were extracted from sessions: the turn that each
        was extracted from."""
        with self.database.read() as connection:
            return dict(connection.execute("SELECT id, said_in FROM node WHERE held = 1 AND said_in IS NOT NULL"))

    def resolve_link(self, target: str) -> str | None:
        """Return the id of the node that a wikilink's text means; None if it matches no node, or several."""
        with self.database.read() as connection:
            return links.find_target(connection, links.parse_target(target))

    def ids_named(self, name: str) -> set[str]:
        """Return the ids of the nodes that have this name as file name, title or alias."""
        select = "SELECT n.id FROM name m JOIN node n USING (number) WHERE m.key = ? AND n.held = 1"
        with self.database.ask() as connection:
            return {row[0] for row in connection.execute(select, (links.fold(name),))}

    def edges(self, node_id: str) -> tuple[list[EdgeRow], list[EdgeRow]]:
        """Return the resolved edges of a node: (edges that leave it, edges that enter it)."""
        found = self.edges_of([node_id])
        return [edge for edge in found if edge.source == node_id], [edge for edge in found if edge.target == node_id]

    def edges_of(self, ids: Sequence[str] | None = None) -> list[EdgeRow]:
        """Return the resolved edges that touch any of `ids`; None: all edges."""
        if ids is not None and not ids:
            return []
        priority.give()
        with self.database.read() if ids is None else self._connection_for(ids, links.BOTH) as connection:
            return links.edges(connection, ids)

    def degrees(self) -> dict[str, int]:
        """Return {node id: number of resolved edges in either direction}, counted as `edges_of` returns them. Nodes
        without edges are left out."""
        select = (
            "WITH link AS (SELECT DISTINCT n.id AS source, e.target, e.type FROM edge e JOIN node n USING (number) "
            "WHERE n.held = 1 AND e.target IS NOT NULL AND e.target <> n.id) "
            "SELECT id, count(*) FROM (SELECT source AS id FROM link UNION ALL SELECT target FROM link) GROUP BY id"
        )
        with self.database.ask() as connection:
            return dict(connection.execute(select))

    def unresolved(self) -> list[Unresolved]:
        """Return the links and edges whose text matches no node, or several."""
        select = (
            "SELECT n.id, e.type, e.text, e.body FROM edge e JOIN node n USING (number) "
            "WHERE n.held = 1 AND e.target IS NULL ORDER BY 1, 2, 3"
        )
        with self.database.ask() as connection:
            return [Unresolved(row[0], EdgeType(row[1]), row[2], bool(row[3])) for row in connection.execute(select)]

    # Search

    def search_text(
        self, query: str | Sequence[str], limit: int, chosen: Filter = EVERYTHING
    ) -> list[tuple[str, float]]:
        """Return nodes with any word of `query` (a text, or terms): (id, bm25), best first; higher is better."""
        priority.give()
        terms = query_terms(query) if isinstance(query, str) else list(dict.fromkeys(query))
        with self.database.read() as connection:
            return words.search(connection, terms, limit, chosen, self.counted)

    def begin_text(self, terms: Sequence[str], limit: int, chosen: Filter) -> Callable[[], list[tuple[str, float]]]:
        """Start `search_text` in another thread. Return a function that waits for its result and returns it."""
        return self._beside.begin(functools.partial(self.search_text, terms, limit, chosen))

    def frequencies(self, terms: Sequence[str]) -> tuple[dict[str, int], int]:
        """Return ({term: number of files that contain it}, number of all files). A term of several words must occur as
        a phrase."""
        with self.database.read() as connection:
            files = words.largest_number(connection)
            return self.counted.rows(connection, terms, files), files

    def terms(self, first: str, limit: int) -> list[str]:
        """Return up to `limit` terms of the full text index that begin with `first`, in alphabetical order."""
        select = "SELECT term FROM words_term WHERE term >= ? AND term < ? LIMIT ?"
        with self.database.ask() as connection:
            return [row[0] for row in connection.execute(select, (first, first + "\U0010ffff", limit))]

    def search_vectors(self, vector: Float, limit: int, chosen: Filter = EVERYTHING) -> list[tuple[str, float]]:
        """Return the nodes nearest to `vector` (unit, from `embedder`): (id, exact cosine of the best piece), best
        first. Empty without a model.

        With a filter, more neighbours are fetched, and filtered afterwards. If few nodes pass the filter, all of those
        are scored exactly.
        """
        priority.give()
        store = self.active
        if store is None:
            return []
        if chosen.empty:
            return store.search(vector, limit)
        everything = len(store.matrix)
        passing = everything
        if chosen.narrow:
            passing = self.count(replace(chosen, alive_at=None))  # few nodes have expired
        pool = int(1.25 * limit * everything / passing) + SPARE if passing else limit
        if chosen.narrow and passing <= max(EXACT * pool, FEW * everything):
            return self._score_all(store, vector, limit, chosen)
        for _ in range(WIDENINGS):
            found = store.search(vector, pool)
            passing_ids = set(self.filter_ids([node_id for node_id, _ in found], chosen))
            if len(passing_ids) >= limit or len(found) < pool:
                return [hit for hit in found if hit[0] in passing_ids][:limit]
            pool *= 3
        return self._score_all(store, vector, limit, chosen)

    def search_each(self, vectors: Float, limit: int) -> list[list[tuple[str, float]]]:
        """Search with several vectors (unit, float32[k, dimensions]) at once. Return one list of (id, cosine) for each,
        best first. This costs little more than a single `search_vectors`."""
        store = self.active
        return [[] for _ in vectors] if store is None else store.search_each(vectors, limit)

    def _score_all(self, store: VectorStore, vector: Float, limit: int, chosen: Filter) -> list[tuple[str, float]]:
        """Return the best nodes that pass the filter, as (id, cosine). The cosine of `vector` is computed for every
        such node."""
        ids = self.ids(chosen)
        scores = store.matrix.similarities(vector[None], ids)[:, 0]
        known = np.flatnonzero(~np.isnan(scores))
        best = known[top(scores[known], limit)]
        near = sorted(zip((-scores[best]).tolist(), (ids[at] for at in best.tolist()), strict=True))
        return [(node_id, -less) for less, node_id in near][:limit]

    def cosines(self, vector: Float, ids: Sequence[str]) -> dict[str, float]:
        """Return {node id: exact cosine of `vector` and the node's best piece}. Nodes without vectors are left out."""
        store = self.active
        return store.matrix.cosines(vector, full(ids)) if store else {}

    def similarities(self, vectors: Float, ids: Sequence[str]) -> NDArray[np.float64]:
        """Return the exact cosines of unit vectors (float32[k, dimensions]) with the best piece of each node,
        float64[len(ids), k]. NaN for nodes without vectors. `ids`: full ids."""
        priority.give()
        store = self.active
        return store.matrix.similarities(vectors, ids) if store else np.full((len(ids), len(vectors)), np.nan)

    def vectors(self, node_id: str) -> Float | None:
        """Return the vectors of a node's pieces, float32[pieces, dimensions]; None if it has none yet."""
        store = self.active
        return store.matrix.vectors(node_id) if store else None

    def tokens(
        self, ids: Sequence[str], vector: Float | None = None, *, pieces: int = LATE_PIECES
    ) -> TokenVectors | None:
        """Return the token vectors of nodes in one array, for MaxSim; None without a model. If a note has more than
        `pieces` pieces, only the `pieces` nearest to `vector` are included."""
        priority.give()
        store = self.active
        if store is None:
            return None
        chosen = store.best_pieces(ids, vector, pieces)  # leaves out nodes without vectors
        with self.database.read() as connection:
            found = embeddings.tokens(connection, store.number, chosen)
        ordered = {node_id: found[node_id] for node_id in chosen if node_id in found}
        return embeddings.token_vectors(ordered, store.embedder.late_dimensions)

    def replaced_pairs(self, pairs: Sequence[tuple[str, str, float]]) -> dict[tuple[str, str], Compared]:
        """Return {(older id, newer id): comparison} for those of `pairs` in which the newer memory may have replaced
        the older one, with a chance of at least `NEWER_AT`. `pairs`: (older id, newer id, cosine)."""
        rows = self.notes(list({node_id for pair in pairs for node_id in pair[:2]}))
        statement = functools.cache(_statement)
        found: dict[tuple[str, str], Compared] = {}
        for older, newer, cosine in pairs:
            old, new = rows.get(older), rows.get(newer)
            if old is None or new is None or not comparable(old.type, old.space, new.type, new.space):
                continue
            if len(self._compared) > CACHED_PAIRS:
                self._compared = {}
            if (both := (old.digest, new.digest)) not in self._compared:
                self._compared[both] = compare(statement(old), statement(new), cosine)
            compared = self._compared[both]
            if compared.replaced >= NEWER_AT:
                found[older, newer] = compared
        return found

    def statements(self, ids: Iterable[str]) -> dict[str, Stated]:
        """Return {node id: (its text as a `Statement`, its type, its space)}. Unknown ids are left out."""
        rows = self.notes(list(dict.fromkeys(ids))).values()
        return {row.id: (_statement(row), row.type, row.space) for row in rows}

    def idf(self, token_ids: NDArray[np.uint32], function_words: NDArray[np.bool_] | bool = False) -> Float:
        """Return the rarity of each of these token ids of the model among the notes; see `VectorStore.idf`."""
        store = self.active
        return store.idf(token_ids, function_words) if store else np.zeros(len(token_ids), np.float32)

    def created_per_day(self, since: datetime) -> dict[str, int]:
        """Return {day of this machine's time zone: number of memories created on it}, from the time `since` on."""
        select = (
            "SELECT date(created / 1000000, 'unixepoch', 'localtime'), count(*) FROM node n "
            f"WHERE held = 1 AND created >= ? AND NOT {FROM_SOURCE} GROUP BY 1"
        )
        with self.database.read() as connection:
            return dict(connection.execute(select, (micros(since),)))

    def stats(self, tags: int = 0) -> Stats:
        """Return the counts of what the index holds. `tags`: how many of the most used tags are counted."""
        ours = f"held = 1 AND NOT {FROM_SOURCE}"
        by_tier, by_type, by_space = Counter[str](), Counter[str](), Counter[str]()
        with self.database.read() as connection:
            # Memories by tier, type and space.
            select = "SELECT tier, type, coalesce(space, 'global'), count(*) FROM node n"
            for tier, kind, space, number in connection.execute(f"{select} WHERE {ours} GROUP BY 1, 2, 3"):
                by_tier[tier] += number
                by_type[kind] += number
                by_space[space] += number

            # Edges, files and tags.
            select = "SELECT e.type, count(*) FROM edge e JOIN node n USING (number)"
            where = f"{ours} AND e.target <> n.id"
            by_edge = dict(connection.execute(f"{select} WHERE {where} GROUP BY 1 ORDER BY 2 DESC, 1"))
            (files,) = connection.execute(f"SELECT count(*) FROM file WHERE {OF_VAULT}").fetchone()
            by_tag = dict(connection.execute(_BY_TAG, (tags,))) if tags else {}
        return Stats(
            nodes=by_tier.total(),
            by_tier=dict(sorted(by_tier.items())),
            by_type=dict(sorted(by_type.items())),
            by_space=dict(sorted(by_space.items())),
            by_edge=by_edge,
            by_tag=by_tag,
            edges=sum(by_edge.values()),
            plain=files - by_tier.total(),
        )

    def by_space(self) -> dict[str, int]:
        """Return {space: number of its memories}; `global` stands for memories without a space."""
        select = f"SELECT coalesce(space, 'global'), count(*) FROM node n WHERE held = 1 AND NOT {FROM_SOURCE} GROUP BY 1 ORDER BY 1"
        with self.database.read() as connection:
            return dict(connection.execute(select))

    def size(self) -> int:
        """Return the size of the index on the disk in bytes, Chroma included."""
        total = 0
        for folder, _, names in os.walk(self.database.directory):
            for name in names:
                with contextlib.suppress(FileNotFoundError):  # Chroma's files and snapshots come and go
                    total += os.stat(os.path.join(folder, name)).st_size
        return total
