"""The index as the other rooms see it: files go in, nodes, edges and search results come out."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from ormahd.core.node import NodeType, Strength
from ormahd.errors import NotFound
from ormahd.index import links, lookup, text, write
from ormahd.index.database import Database
from ormahd.index.rows import Edge, FileState, Filter, NodeRow, StateLike, Stats, Unresolved
from ormahd.index.write import FirstPath
from ormahd.settings import EmbeddingSettings, VectorSettings

EVERYTHING = Filter()
BATCH = 1000
"""Files in one transaction of a rebuild: large enough to be quick, small enough that writers get a turn."""


class Index:
    """What is derived from the vault. Reading is safe from any thread at any time; `apply` is one at a time."""

    def __init__(
        self, database: Database, embedding: EmbeddingSettings, vectors: VectorSettings, clock: Callable[[], datetime]
    ) -> None:
        self._database = database
        self._embedding = embedding
        self._vectors = vectors
        self._clock = clock
        self._applying = threading.Lock()
        self._strength: Mapping[str, Strength] = {}
        self.first_path: FirstPath | None = None
        """Asked which of several files with one id had it first; set by whoever knows the history."""

    @classmethod
    def open(
        cls,
        directory: Path,
        embedding: EmbeddingSettings | None = None,
        vectors: VectorSettings | None = None,
        *,
        clock: Callable[[], datetime],
    ) -> Index:
        """Open or make the index in `directory`: SQLite only, within a fraction of a second. See `attach`."""
        return cls(Database(directory), embedding or EmbeddingSettings(), vectors or VectorSettings(), clock)

    @property
    def dropped(self) -> str | None:
        """Why the index on disk was not used when this one was opened, or None."""
        return self._database.dropped

    # Writing

    def apply(self, upserts: Mapping[str, tuple[bytes, StateLike]], removals: Collection[str], *, head: str | None) -> None:  # fmt: skip
        """Take in new, changed and removed files, in one transaction.

        Paths are relative to the vault's root, with `/`. `head`: the commit that the vault has reached with this
        batch, kept as `position`; None leaves it.
        """
        entries = [write.entry(path, data, state) for path, (data, state) in upserts.items()]
        with self._applying, self._database.write() as connection:
            write.store(connection, entries, removals, self.first_path)
            if head is not None:
                connection.execute("INSERT OR REPLACE INTO meta VALUES ('head', ?)", (head,))

    def rebuild(self, files: Iterable[tuple[str, bytes, StateLike]], *, head: str | None = None) -> int:
        """Make the index hold exactly `files`; embeddings stay cached. Returns how many there were."""
        left = set(self.known())
        batch: dict[str, tuple[bytes, StateLike]] = {}
        done = 0
        for path, data, state in files:
            left.discard(path)
            batch[path] = (data, state)
            done += 1
            if len(batch) >= BATCH:
                self.apply(batch, (), head=None)
                batch = {}
        self.apply(batch, left, head=head)
        return done

    def set_strength(self, strength: Mapping[str, Strength]) -> None:
        """What use has made of nodes, by id, as last folded; nodes that are not in it have the default."""
        self._strength = dict(strength)

    # What is known

    def known(self) -> dict[str, FileState]:
        """Every indexed file with the state it was indexed in."""
        with self._database.read() as connection:
            rows = connection.execute("SELECT path, size, mtime_ns, inode, digest FROM file")
            return {row[0]: FileState(*row) for row in rows}

    @property
    def position(self) -> str | None:
        """The commit up to which the vault has been taken in."""
        with self._database.read() as connection:
            row = connection.execute("SELECT value FROM meta WHERE key = 'head'").fetchone()
            return None if row is None else str(row[0])

    def kinds(self) -> dict[str, str]:
        """Kind (`NoteKind`) of every indexed file; a second file with an id that another one holds is a "duplicate"."""
        with self._database.read() as connection:
            return dict(connection.execute(
                "SELECT path, CASE WHEN n.held = 0 THEN 'duplicate' ELSE kind END FROM file LEFT JOIN node n USING (number)"
            ))  # fmt: skip

    # Nodes and edges

    def resolve(self, prefix: str) -> str:
        """The full id for an id or a unique beginning of at least 4 characters, in any case.

        Raises BadRequest (no id at all), NotFound, Ambiguous (`data["ids"]`).
        """
        with self._database.read() as connection:
            return lookup.resolve(connection, prefix)

    def note(self, node_id: str) -> NodeRow:
        """The node with this full id; NotFound otherwise."""
        found = self.notes([node_id])
        if node_id not in found:
            raise NotFound(f"no memory has the id {node_id!r}", hint="look for it with `ormahctl recall`")
        return found[node_id]

    def notes(self, ids: Sequence[str], *, connections: bool = True) -> dict[str, NodeRow]:
        """Nodes by full id, in the order of `ids`, unknown ones left out. Without `connections` it is twice as fast."""
        with self._database.read() as connection:
            return lookup.notes(connection, lookup.full(ids), self._strength, connections=connections)

    def ids(self, chosen: Filter = EVERYTHING) -> list[str]:
        """Ids of all nodes that the filter lets through."""
        with self._database.read() as connection:
            return lookup.passing(connection, chosen)

    def count(self, chosen: Filter = EVERYTHING) -> int:
        with self._database.read() as connection:
            return lookup.count(connection, chosen)

    def keep(self, ids: Sequence[str], chosen: Filter) -> list[str]:
        """Those of `ids` that the filter lets through, in their order."""
        with self._database.read() as connection:
            kept = lookup.keep(connection, ids, chosen)
        return [node_id for node_id in ids if node_id in kept]

    def equal(self, space: str | None, type: NodeType, title: str | None, content: str) -> str | None:  # noqa: A002
        """The id of a node with exactly these, or None. `content` as the note codec gives it back."""
        with self._database.read() as connection:
            return lookup.equal(connection, space, type, title, content)

    def resolve_link(self, target: str) -> str | None:
        """The id of the one node that a wikilink's text leads to, or None."""
        with self._database.read() as connection:
            return links.lead(connection, links.target(target))

    def edges(self, node_id: str) -> tuple[list[Edge], list[Edge]]:
        """Resolved edges of a node: those that leave it, those that enter it."""
        found = self.edges_of([node_id])
        return [edge for edge in found if edge.source == node_id], [edge for edge in found if edge.target == node_id]

    def edges_of(self, ids: Sequence[str] | None = None) -> list[Edge]:
        """Resolved edges that touch any of `ids`; None: all of them."""
        with self._database.read() as connection:
            return links.edges(connection, ids)

    def unresolved(self) -> list[Unresolved]:
        """Links that lead to no node, or to more than one."""
        with self._database.read() as connection:
            return links.unresolved(connection)

    # Search

    def search_text(self, query: str | Sequence[str], limit: int, chosen: Filter = EVERYTHING) -> list[tuple[str, float]]:  # fmt: skip
        """Nodes with any word of `query` (a text, or terms): (id, bm25), best first, higher is better."""
        with self._database.read() as connection:
            return text.search(connection, query, limit, chosen)

    def search_plain(self, query: str | Sequence[str], limit: int) -> list[tuple[str, float]]:
        """The same among files that are no nodes: (path, bm25)."""
        with self._database.read() as connection:
            return text.search_plain(connection, query, limit)

    def stats(self) -> Stats:
        with self._database.read() as connection:
            return lookup.stats(connection, pending=0, size=self._database.bytes())

    def close(self) -> None:
        """Close everything; what is still to be written to Chroma is written at the next start."""
        self._database.close()
