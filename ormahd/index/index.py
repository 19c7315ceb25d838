"""The index as the other rooms see it: files go in, nodes, edges and search results come out."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ormahd.core.node import NodeType, Strength
from ormahd.errors import NotFound
from ormahd.index import cache, links, lookup, text, verify, write
from ormahd.index.cache import TokenVectors
from ormahd.index.database import Database
from ormahd.index.embed import DocumentVectors, Embedder
from ormahd.index.fill import Filler
from ormahd.index.late import Float
from ormahd.index.meaning import Meaning
from ormahd.index.rows import Difference, Edge, FileState, Filter, NodeRow, StateLike, Stats, Unresolved, micros
from ormahd.index.write import Entry, FirstPath
from ormahd.settings import EmbeddingSettings, VectorSettings

EVERYTHING = Filter()
BATCH = 1000
"""Files in one transaction of a rebuild: large enough to be quick, small enough that writers get a turn."""
AT_ONCE = 32
"""Texts that `apply` embeds before it returns; more of them wait for the background, so that writing goes on."""
AT_ONCE_CHARACTERS = 50_000
FEW = 0.05
"""Share of nodes that a filter lets through, up to which they are scored exactly (DESIGN section 9)."""
POOL = 100
LATE_PIECES = 4
"""Pieces of a long note whose tokens are compared with a question's."""

log = logging.getLogger(__name__)


class Index:
    """What is derived from the vault. Reading is safe from any thread at any time; `apply` is one at a time."""

    def __init__(
        self, database: Database, embedding: EmbeddingSettings, vectors: VectorSettings, clock: Callable[[], datetime]
    ) -> None:
        self._database = database
        self.embedding = embedding
        self._vectors = vectors
        self._clock = clock
        self._applying = threading.Lock()
        self._filler = Filler(database, self._applying, clock)
        self._strength: Mapping[str, Strength] = {}
        self._frequencies = text.Frequencies()
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
    def directory(self) -> Path:
        return self._database.directory

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
        made = self._embed_now(entries)
        now = micros(self._clock())
        with self._applying:
            with self._database.write() as connection:
                ids = write.store(connection, entries, removals, self.first_path)
                if made is not None:
                    cache.put(connection, made[0].number, made[1], now)
                deltas = {model: cache.follow(connection, model, ids, now) for model in cache.models(connection)}
                if head is not None:
                    connection.execute("INSERT OR REPLACE INTO meta VALUES ('head', ?)", (head,))
            self._frequencies.changed()
            for meaning in self._meanings():
                meaning.take(deltas[meaning.number])
        self._filler.wake()

    def _embed_now(self, entries: Sequence[Entry]) -> tuple[Meaning, dict[bytes, DocumentVectors]] | None:
        """Vectors of a few new texts, so that they are found by meaning as soon as they are written."""
        meaning = self._filler.active
        if meaning is None or len(entries) > AT_ONCE:
            return None
        texts = [cache.source(one.note.title, one.path, one.note.content) for one in entries if one.claims]
        with self._database.read() as connection:
            known = cache.cached(connection, meaning.number, {one.sha for one in texts})
        missing = {one.sha: one for one in texts if one.sha not in known}
        if not missing or sum(len(one.content) for one in missing.values()) > AT_ONCE_CHARACTERS:
            return None
        try:
            vectors = meaning.embedder.embed_documents(
                [one.content for one in missing.values()], [one.heading for one in missing.values()], urgent=True
            )
        except Exception:
            # The edge to a foreign library: what cannot be embedded now waits, and is found by its words.
            log.exception("embedding %d texts failed; they are tried again in the background", len(missing))
            return None
        return meaning, dict(zip(missing, vectors, strict=True))

    def embed_ahead(self, texts: Sequence[tuple[str | None, str]]) -> list[Float] | None:
        """Vectors (unit, float32[dimensions]) of texts (title, content) that are about to become notes; None: no model yet.

        They are kept in the cache, so that `apply` finds them: embedding is slow and belongs outside of every lock.
        """
        meaning = self._filler.active
        if meaning is None:
            return None
        sources = [cache.source(title, "", content) for title, content in texts]
        wanted = {one.sha: one for one in sources}
        with self._database.read() as connection:
            known = cache.cached(connection, meaning.number, wanted)
        missing = [one for sha, one in wanted.items() if sha not in known]
        made: dict[bytes, DocumentVectors] = {}
        if missing:
            vectors = meaning.embedder.embed_documents(
                [one.content for one in missing], [one.heading for one in missing], urgent=True
            )
            made = {one.sha: document for one, document in zip(missing, vectors, strict=True)}
            with self._applying, self._database.write() as connection:
                cache.put(connection, meaning.number, made, micros(self._clock()))
        with self._database.read() as connection:
            return [
                made[one.sha].vector if one.sha in made else cache.vector(connection, known[one.sha]) for one in sources
            ]

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
        with self._applying:
            with self._database.write() as connection:
                text.refresh(connection)
                for meaning in self._meanings():
                    meaning.recount(connection)
            for meaning in self._meanings():
                meaning.distrust()
        self._filler.wake()
        return done

    def attach(self, embedder: Embedder) -> None:
        """Bring in the model: load its vectors, and embed in the background what has none yet.

        A second model (another fingerprint) is filled beside the first one and replaces it when it is complete.
        """
        with self._applying:
            active = self._filler.active
            if active is not None and active.embedder.fingerprint == embedder.fingerprint:
                active.embedder = embedder
                return
            meaning = Meaning(embedder, self._database.directory, self._vectors)
            with self._database.write() as connection:
                meaning.load(connection)
            meaning.alarm = self._filler.wake
            if active is None:
                self._filler.active = meaning
                self._filler.start()
            else:
                self._filler.next = meaning
        self._filler.wake()

    def pending(self) -> int:
        """Nodes that wait for their vectors."""
        return self._filler.pending()

    def wait_filled(self, timeout: float, *, settled: bool = False) -> bool:
        """Wait until every node has its vectors; with `settled` also until Chroma knows them. False: time is over."""
        return self._filler.wait(timeout, settled=settled)

    @property
    def degraded(self) -> list[str]:
        """What search has to do without: "vectors" (no model, or many nodes without vectors), "chroma" (only slower)."""
        active = self._filler.active
        if active is None:
            return ["vectors"]
        waiting = len(active.waiting)
        out = ["vectors"] if waiting > max(AT_ONCE, FEW * (waiting + len(active.matrix))) else []
        return out + (["chroma"] if active.trouble else [])

    @property
    def embedder(self) -> Embedder | None:
        """The model whose vectors answer at the moment: questions must be embedded with this one."""
        return self._filler.active.embedder if self._filler.active else None

    def _meanings(self) -> list[Meaning]:
        return [one for one in (self._filler.active, self._filler.next) if one is not None]

    def verify(self, vault: Iterable[tuple[str, bytes, StateLike]] | None = None) -> list[Difference]:
        """Everything in which the index, its parts and the vault's files (path, bytes, state) differ; empty when all is well.

        Nodes that still wait for their vectors are no difference: `pending` counts them. Writers wait meanwhile.
        """
        with self._applying, self._database.read() as connection:
            found = list(verify.check(connection))
            if found:
                return found
            if vault is not None:
                found += verify.files(connection, vault)
            found += verify.words(connection)
            found += verify.edges(connection)
            if self._filler.active is not None:
                found += verify.vectors(connection, self._filler.active)
                found += verify.chroma(self._filler.active)
        return found

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

    def newest(self, chosen: Filter, limit: int) -> list[str]:
        """The youngest nodes that the filter lets through, youngest first; equally young ones by id."""
        with self._database.read() as connection:
            return lookup.newest(connection, chosen, limit)

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
            return text.search(connection, query, limit, chosen, self._frequencies)

    def search_plain(self, query: str | Sequence[str], limit: int) -> list[tuple[str, float]]:
        """The same among files that are no nodes: (path, bm25)."""
        with self._database.read() as connection:
            return text.search_plain(connection, query, limit, self._frequencies)

    def search_vectors(self, vector: Float, limit: int, chosen: Filter = EVERYTHING) -> list[tuple[str, float]]:
        """Nodes near `vector` (unit, of `embedder`): (id, exact cosine of the best piece), best first.

        With a filter: fetched wider and filtered after; where few pass, those are scored exactly.
        """
        meaning = self._filler.active
        if meaning is None:
            return []
        if chosen.empty:
            return meaning.search(vector, limit)
        pool = max(3 * limit, POOL)
        for _ in range(2):
            found = meaning.search(vector, pool)
            kept = set(self.keep([node_id for node_id, _ in found], chosen))
            if len(kept) >= limit or len(found) < pool:
                return [hit for hit in found if hit[0] in kept][:limit]
            if self.count(chosen) <= FEW * len(meaning.matrix):
                break
            pool *= 4
        scores = self.cosines(vector, self.ids(chosen))
        return sorted(scores.items(), key=lambda item: (-item[1], item[0]))[:limit]

    def cosines(self, vector: Float, ids: Sequence[str]) -> dict[str, float]:
        """Exact cosine of `vector` and the best piece of each node; nodes without vectors are left out."""
        meaning = self._filler.active
        return meaning.matrix.cosines(vector, lookup.full(ids)) if meaning else {}

    def vectors(self, node_id: str) -> Float | None:
        """The vectors of a node's pieces, float32[pieces, dimensions]; None: it has none yet."""
        meaning = self._filler.active
        return meaning.matrix.vectors(node_id) if meaning else None

    def tokens(self, ids: Sequence[str], vector: Float | None = None, *, pieces: int = LATE_PIECES) -> TokenVectors | None:  # fmt: skip
        """Token vectors of nodes, one after the other, for MaxSim; of a long note those of the pieces nearest to `vector`."""
        meaning = self._filler.active
        if meaning is None:
            return None
        chosen = meaning.best_pieces(lookup.full(ids), vector, pieces)
        with self._database.read() as connection:
            return cache.tokens(connection, meaning.number, chosen, meaning.embedder.late_dimensions)

    def idf(self, token_ids: NDArray[np.uint32]) -> Float:
        """How rare each of the embedder's tokens is among the notes: ln((notes + 1) / (notes with it + 1))."""
        meaning = self._filler.active
        return meaning.idf(token_ids) if meaning else np.zeros(len(token_ids), np.float32)

    def stats(self) -> Stats:
        with self._database.read() as connection:
            return lookup.stats(connection, pending=self.pending(), size=self._database.bytes())

    def size(self) -> int:
        """Bytes that the index takes on the disk, Chroma included."""
        return sum(file.stat().st_size for file in self._database.directory.rglob("*") if file.is_file())

    def close(self) -> None:
        """Close everything; what is still to be written to Chroma is written at the next start."""
        self._filler.stop()
        self._database.close()
