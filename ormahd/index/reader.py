"""What the index answers: files, nodes, edges and search results. Safe from any thread, each answer on one snapshot."""

from __future__ import annotations

import contextlib
import functools
import os
import sqlite3
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from ormahd.embedding.token_vectors import Float
from ormahd.errors import NotFound
from ormahd.index import embedding_cache, full_text, links, lookup
from ormahd.index.database import Database
from ormahd.index.embedding_cache import Pieces, TokenVectors
from ormahd.index.indexer import Indexer
from ormahd.index.query_cache import CANDIDATES, COMPARED, COUNTS, QueryCache, top
from ormahd.index.rows import UNWRITTEN, Candidate, EdgeRow, Filter, NodeRow, Stats, Unresolved
from ormahd.index.vector_store import VectorStore
from ormahd.model.files import FileState
from ormahd.model.node import NodeType, Strength
from ormahd.process import priority, sql
from ormahd.text.standing import Compared, Relation, comparable, compare
from ormahd.text.statement import read as read_statement

EVERYTHING = Filter()
FEW = 0.05
"""Share of nodes that a filter lets through, up to which they are scored exactly (DESIGN section 9)."""
EXACT = 2000
"""The same as a number of nodes: scoring them takes as long as asking Chroma for some hundred."""
SPARE = 20
"""Neighbours fetched beyond what the filter is expected to take away."""
WIDENINGS = 3
"""How often Chroma is asked, for three times as many each time, before all that pass are scored."""
LATE_PIECES = 4
"""Pieces of a long note whose tokens are compared with a question's."""


class Reader:
    """The reading half of the index."""

    def __init__(self, database: Database, indexer: Indexer) -> None:
        self.database = database
        self.indexer = indexer
        self.strength: Mapping[str, Strength] = {}
        """What use has made of nodes, by id; nodes that are not in it have the default."""
        self._frequencies = full_text.Frequencies()
        self._kept = QueryCache()
        self._beside = priority.Beside("search-text")
        self.fetch_id: Callable[[str], bool] = lambda _: False
        """Brings in the note with such an id, where the index lacks it; `Ormah` sets it by the vault."""
        self.fetch_words: Callable[[Sequence[str]], None] = lambda _: None
        """The same for notes with such words, where the index is known to lag."""

    def changed(self, ids: Collection[str], *, words: bool) -> None:
        """Called when it is committed that these nodes came, changed or went; `words`: also in their words."""
        if words:
            self._frequencies.changed()
        self._kept = self._kept.without(ids, words=words)

    def forget(self) -> None:
        """Read everything anew from now on."""
        self._frequencies = full_text.Frequencies()
        self._kept = QueryCache()

    def close(self) -> None:
        """Close everything; what is still to be written to Chroma is written at the next start."""
        self._beside.close()
        self.indexer.stop()
        self.database.close()

    # What is known

    def known(self) -> dict[str, FileState]:
        """Every indexed file with the state it was indexed in."""
        with self.database.read() as connection:
            return lookup.files(connection)

    @property
    def position(self) -> str | None:
        """The commit up to which the vault has been taken in."""
        with self.database.ask() as connection:
            row = connection.execute("SELECT value FROM meta WHERE key = 'head'").fetchone()
            return None if row is None else str(row[0])

    def kinds(self) -> dict[str, str]:
        """Kind (`NoteKind`) of every indexed file; a second file with an id that another one holds is a "duplicate"."""
        with self.database.read() as connection:
            return dict(connection.execute(
                "SELECT path, CASE WHEN n.held = 0 THEN 'duplicate' ELSE kind END FROM file LEFT JOIN node n USING (number)"
            ))  # fmt: skip

    def lent(self) -> set[str]:
        """Ids of the notes that are only found: nothing is written into them."""
        with self.database.ask() as connection:
            return {row[0] for row in connection.execute(f"SELECT node_id FROM file WHERE kind IN {UNWRITTEN}")}

    # Nodes and edges

    def resolve(self, prefix: str) -> str:
        """The full id for an id or a unique beginning of at least 4 characters, in any case, or for the path of a note.

        Raises BadRequest (no id at all), NotFound, Ambiguous (`data["ids"]`).
        """
        try:
            return self.resolve_known(prefix)
        except NotFound:
            if not self.fetch_id(prefix):
                raise
        return self.resolve_known(prefix)

    def resolve_known(self, prefix: str) -> str:
        """`resolve` among what is in the index, without a look into the vault."""
        with self.database.ask() as connection:
            return lookup.resolve(connection, prefix)

    def note(self, node_id: str) -> NodeRow:
        """The node with this full id; NotFound otherwise."""
        found = self.notes([node_id])
        if node_id not in found and self.fetch_id(node_id):
            found = self.notes([node_id])
        if node_id not in found:
            raise NotFound(f"no memory has the id {node_id!r}", hint="look for it with `ormahctl recall`")
        return found[node_id]

    def notes(self, ids: Sequence[str], *, connections: bool = True) -> dict[str, NodeRow]:
        """Nodes by full id, in the order of `ids`, unknown ones left out. Without `connections` it is twice as fast."""
        wanted = lookup.full(ids)
        if not wanted:
            return {}
        priority.give()
        with self.database.read() if connections else self._few(wanted) as connection:
            return lookup.notes(connection, wanted, self.strength, connections=connections)

    def _few(self, ids: Sequence[str], most: int = sql.SOME) -> AbstractContextManager[sqlite3.Connection]:
        """A connection for what is read of these nodes: in one statement, if they are no more than fit into one."""
        return self.database.ask() if len(ids) <= most else self.database.read()

    def candidates(self, ids: Sequence[str]) -> dict[str, Candidate]:
        """What ranking asks of nodes, by full id; unknown ones are left out."""
        priority.give()
        known = self._kept.candidates  # whoever changes the index puts another one in its place
        found = {node_id: one for node_id in ids if (one := known.get(node_id)) is not None}
        missing = [node_id for node_id in ids if node_id not in found]
        if missing:
            with self._few(missing) as connection:
                others = lookup.candidates(connection, lookup.full(missing), self.strength)
            if len(known) < CANDIDATES:
                known.update(others)
            found |= others
        return found

    def ids(self, chosen: Filter = EVERYTHING) -> list[str]:
        """Ids of all nodes that the filter lets through."""
        with self.database.ask() as connection:
            return lookup.passing(connection, chosen)

    def newest(self, chosen: Filter, limit: int) -> list[str]:
        """The youngest nodes that the filter lets through, youngest first; equally young ones by id."""
        with self.database.ask() as connection:
            return lookup.newest(connection, chosen, limit)

    def count(self, chosen: Filter = EVERYTHING) -> int:
        """How many nodes the filter lets through. Remembered until something changes, but where it depends on the time."""
        kept = self._kept
        found = kept.counts.get(chosen)
        if found is not None:
            return found
        with self.database.ask() as connection:
            found = lookup.count(connection, chosen)
        if chosen.alive_at is None and len(kept.counts) < COUNTS:
            kept.counts[chosen] = found
        return found

    def keep(self, ids: Sequence[str], chosen: Filter) -> list[str]:
        """Those of `ids` that the filter lets through, in their order."""
        with self._few(ids) as connection:
            kept = lookup.keep(connection, ids, chosen)
        return [node_id for node_id in ids if node_id in kept]

    def equal(self, space: str | None, type: NodeType, title: str | None, content: str) -> str | None:  # noqa: A002
        """The id of a node with exactly these, or None. `content` as the note codec gives it back."""
        with self.database.ask() as connection:
            return lookup.equal(connection, space, type, title, content)

    def resolve_link(self, target: str) -> str | None:
        """The id of the one node that a wikilink's text leads to, or None."""
        with self.database.read() as connection:
            return links.lead(connection, links.target(target))

    def called(self, name: str) -> set[str]:
        """The ids of all nodes that have this name: as their file's, their title or an alias."""
        with self.database.read() as connection:
            return links.called(connection, name)

    def edges(self, node_id: str) -> tuple[list[EdgeRow], list[EdgeRow]]:
        """Resolved edges of a node: those that leave it, those that enter it."""
        found = self.edges_of([node_id])
        return [edge for edge in found if edge.source == node_id], [edge for edge in found if edge.target == node_id]

    def edges_of(self, ids: Sequence[str] | None = None) -> list[EdgeRow]:
        """Resolved edges that touch any of `ids`; None: all of them."""
        if ids is not None and not ids:
            return []
        priority.give()
        with self.database.read() if ids is None else self._few(ids, links.BOTH) as connection:
            return links.edges(connection, ids)

    def degrees(self) -> dict[str, int]:
        """How many resolved edges a node has, in either direction; nodes without any are not in it."""
        with self.database.read() as connection:
            return links.degrees(connection)

    def unresolved(self) -> list[Unresolved]:
        """Links that lead to no node, or to more than one."""
        with self.database.read() as connection:
            return links.unresolved(connection)

    # Search

    def search_text(self, query: str | Sequence[str], limit: int, chosen: Filter = EVERYTHING) -> list[tuple[str, float]]:  # fmt: skip
        """Nodes with any word of `query` (a text, or terms): (id, bm25), best first, higher is better."""
        priority.give()
        terms = full_text.terms_of(query)
        self.fetch_words(terms)
        kept = self._kept
        share = 1.0
        if chosen.narrow and not kept.large:
            share = self.count(replace(chosen, alive_at=None)) / max(self.count(), 1)
        with self.database.read_if_needed() as read:
            found = kept.search(read, terms, limit, chosen, self._frequencies, share)
            return full_text.search(read(), terms, limit, chosen, self._frequencies) if found is None else found

    def begin_text(self, query: str | Sequence[str], limit: int, chosen: Filter = EVERYTHING) -> Callable[[], list[tuple[str, float]]]:  # fmt: skip
        """Begin `search_text`; calling what is returned waits for it. In a large index it takes as long as all else together, so
        there it goes on beside that."""
        ask = functools.partial(self.search_text, query, limit, chosen)
        return self._beside.begin(ask) if self._kept.large else ask

    def frequencies(self, terms: Sequence[str]) -> tuple[dict[str, int], int]:
        """In how many files each term stands (of several words: one behind the other), and how many files there are."""
        with self.database.read() as connection:
            files = full_text.largest(connection)
            return self._frequencies.rows(lambda: connection, terms, files), files

    def search_vectors(self, vector: Float, limit: int, chosen: Filter = EVERYTHING) -> list[tuple[str, float]]:
        """Nodes near `vector` (unit, of `embedder`): (id, exact cosine of the best piece), best first.

        With a filter: fetched wider and filtered after; where few pass, those are scored exactly.
        """
        priority.give()
        store = self.indexer.active
        if store is None:
            return []
        if chosen.empty:
            return store.search(vector, limit)
        everything = len(store.matrix)
        passing = everything
        if chosen.narrow:
            passing = self.count(replace(chosen, alive_at=None))  # few have expired
            if passing <= max(EXACT, FEW * everything):
                return self._exact(store, vector, limit, chosen)
        pool = int(1.25 * limit * everything / passing) + SPARE if passing else limit
        for _ in range(WIDENINGS):
            found = store.search(vector, pool)
            kept = set(self.keep([node_id for node_id, _ in found], chosen))
            if len(kept) >= limit or len(found) < pool:
                return [hit for hit in found if hit[0] in kept][:limit]
            pool *= 3
        return self._exact(store, vector, limit, chosen)

    def search_each(self, vectors: Float, limit: int) -> list[list[tuple[str, float]]]:
        """`search_vectors` of several vectors (unit, float32[k, dimensions]) at once, which costs little more than one."""
        store = self.indexer.active
        return [[] for _ in vectors] if store is None else store.search_each(vectors, limit)

    def _exact(self, store: VectorStore, vector: Float, limit: int, chosen: Filter) -> list[tuple[str, float]]:
        """All that the filter lets through, scored."""
        lasting = replace(chosen, alive_at=None)
        ids = self._kept.passing(lasting, lambda: self.ids(lasting))
        scores = store.matrix.similarities(vector[None], ids)[:, 0]
        there = np.flatnonzero(~np.isnan(scores))
        wanted = limit + SPARE
        while True:
            best = there[top(scores[there], wanted)]
            near = sorted(zip((-scores[best]).tolist(), (ids[at] for at in best.tolist()), strict=True))
            alive = set(self.keep([node_id for _, node_id in near], chosen))
            if len(alive) >= limit or len(best) == len(there):
                return [(node_id, -less) for less, node_id in near if node_id in alive][:limit]
            wanted *= 3  # many of them have expired

    def cosines(self, vector: Float, ids: Sequence[str]) -> dict[str, float]:
        """Exact cosine of `vector` and the best piece of each node; nodes without vectors are left out."""
        store = self.indexer.active
        return store.matrix.cosines(vector, lookup.full(ids)) if store else {}

    def similarities(self, vectors: Float, ids: Sequence[str]) -> NDArray[np.float64]:
        """Exact cosines of several unit vectors (float32[k, dimensions]) and the best piece of each node, by full id:
        float64[len(ids), k], NaN for nodes without vectors."""
        priority.give()
        store = self.indexer.active
        return store.matrix.similarities(vectors, ids) if store else np.full((len(ids), len(vectors)), np.nan)

    def vectors(self, node_id: str) -> Float | None:
        """The vectors of a node's pieces, float32[pieces, dimensions]; None: it has none yet."""
        store = self.indexer.active
        return store.matrix.vectors(node_id) if store else None

    def tokens(self, ids: Sequence[str], vector: Float | None = None, *, pieces: int = LATE_PIECES) -> TokenVectors | None:  # fmt: skip
        """Token vectors of nodes, one after the other, for MaxSim; of a long note those of the pieces nearest to `vector`."""
        priority.give()
        store = self.indexer.active
        if store is None:
            return None
        kept = self._kept
        chosen = store.best_pieces(ids, vector, pieces)  # which knows those that it has vectors of

        def read(missing: Mapping[str, Pieces]) -> dict[str, bytes]:
            with self.database.read() as connection:
                return embedding_cache.tokens(connection, store.number, missing)

        return embedding_cache.token_vectors(kept.tokens(store.number, chosen, read), store.embedder.late_dimensions)

    def replacing(self, pairs: Sequence[tuple[str, str, float]]) -> dict[tuple[str, str], Compared]:
        """Of pairs (older, newer, cosine) those of which the newer replaced the older, by what their words say."""
        kept = self._kept
        known = kept.statements
        known_pairs = kept.compared.copy()  # others may fill it meanwhile, and empty it
        said = {pair[:2]: known_pairs[pair[:2]] for pair in pairs if pair[:2] in known_pairs}
        new_pairs = [pair for pair in pairs if pair[:2] not in said]
        ids = list(dict.fromkeys(node_id for pair in new_pairs for node_id in pair[:2]))
        there = {node_id: one for node_id in ids if (one := known.get(node_id)) is not None}
        rows = self.notes([node_id for node_id in ids if node_id not in there], connections=False)
        new = {row.id: (read_statement(row.title, row.content, row.type), row.type, row.space) for row in rows.values()}
        kept.learn(new)
        there |= new
        for older, newer, cosine in new_pairs:
            one, other = there.get(older), there.get(newer)
            compared = None
            if one is not None and other is not None and comparable(*one[1:], *other[1:]):
                compared = compare(one[0], other[0], cosine)
            said[older, newer] = compared if compared is not None and compared.verdict is Relation.REPLACED else None
        if len(kept.compared) + len(new_pairs) > COMPARED:
            kept.compared.clear()
        kept.compared.update({pair[:2]: said[pair[:2]] for pair in new_pairs})
        return {two: one for two, one in said.items() if one is not None}

    def idf(self, token_ids: NDArray[np.uint32]) -> Float:
        """How rare each of the embedder's tokens is among the notes: ln((notes + 1) / (notes with it + 1))."""
        store = self.indexer.active
        return store.idf(token_ids) if store else np.zeros(len(token_ids), np.float32)

    def stats(self) -> Stats:
        with self.database.read() as connection:
            return lookup.stats(connection, pending=self.indexer.pending(), size=self.database.bytes())

    def size(self) -> int:
        """Bytes that the index takes on the disk, Chroma included."""
        total = 0
        for folder, _, names in os.walk(self.database.directory):
            for name in names:
                with contextlib.suppress(FileNotFoundError):  # Chroma's files, and states of the past, come and go
                    total += os.stat(os.path.join(folder, name)).st_size
        return total
