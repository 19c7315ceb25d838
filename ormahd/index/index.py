"""The index as other packages use it: files go in; nodes, edges and search results come out."""

from __future__ import annotations

import logging
import shutil
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from ormahd.api import Difference
from ormahd.embedding.embedder import DocumentVectors, Embedder
from ormahd.embedding.token_vectors import Float
from ormahd.errors import NoRoom
from ormahd.index import embedding_cache, reader, verify, write
from ormahd.index import write as full_text
from ormahd.index.database import Database
from ormahd.index.embedding_cache import EmbeddedText
from ormahd.index.indexer import Indexer
from ormahd.index.reader import Reader
from ormahd.index.rows import MEMORIES, micros
from ormahd.index.vector_store import VectorStore
from ormahd.index.write import ParsedFile
from ormahd.model.change import FileState
from ormahd.model.node import Strength
from ormahd.note.values import Note
from ormahd.process import priority
from ormahd.settings import EmbeddingSettings, VectorSettings

Superseded = Callable[[str, str | None], bool]
"""Called with (path, digest of a file's bytes; None: the file was removed). Returns whether the index has, or is about
to get, a newer version of that file."""


BATCH = 1000
"""Number of files in one transaction of a rebuild: large enough to be fast, small enough that other writers wait only
briefly."""
MOST_AT_ONCE = 200
"""Maximum number of files in a call of `apply` that embeds their texts before it returns. With more files, the background
thread embeds all of them."""
AT_ONCE = 32
"""Maximum number of texts that `apply` embeds before it returns. If there are more, the background thread embeds all of
them."""
AT_ONCE_CHARACTERS = 50_000
OPEN_S = 10.0
"""How long `verify` waits for Chroma to be opened, in seconds."""
MANY = 0.05
"""Share of nodes without vectors above which search is reported as degraded."""

log = logging.getLogger(__name__)


class Index(Reader):
    """The index of one vault: takes in files (`apply`), searches (`Reader`), checks itself (`verify`), and copes with
    damage and full disks. Reading is safe from any thread at any time; calls of `apply` run one at a time."""

    def __init__(
        self, database: Database, embedding: EmbeddingSettings, vectors: VectorSettings, clock: Callable[[], datetime]
    ) -> None:
        self._applying = threading.Lock()
        self._knowing = threading.Lock()
        self._files: dict[str, FileState] | None = None
        super().__init__(database, Indexer(database, self._applying, clock))
        self.embedding = embedding
        self._vectors = vectors
        self.clock = clock

    @classmethod
    def open(
        cls,
        directory: Path,
        embedding: EmbeddingSettings | None = None,
        vectors: VectorSettings | None = None,
        *,
        clock: Callable[[], datetime],
    ) -> Index:
        """Open or create the index in `directory`. This is fast, because the index has no embedding model until
        `attach` is called."""
        return cls(Database(directory), embedding or EmbeddingSettings(), vectors or VectorSettings(), clock)

    @property
    def directory(self) -> Path:
        return self.database.directory

    @property
    def dropped(self) -> str | None:
        """Why the contents of the index on the disk were dropped when this object opened it; None if they were
        not."""
        return self.database.dropped

    # Damage

    def begin_anew(self, why: str) -> None:
        """Set the damaged database file aside (rename it). The index is then empty until the next scan of the vault
        fills it. `why`: the reason, for `dropped`.

        The calling thread must not be reading or writing the index.
        """
        with self._applying:
            self.database.begin_anew(why)
            with self._knowing:
                self._files = None
            self.counted.changed()
            self.indexer.begin_anew(self.database)
            self.indexer.wake()

    # Writing

    def apply(
        self, upserts: Mapping[str, tuple[bytes, FileState]], removals: Collection[str], *, head: str | None,
        notes: Mapping[str, Note | None] | None = None, embed: bool = True,
        superseded: Superseded = lambda _path, _digest: False,
    ) -> None:  # fmt: skip
        """Index new and changed files (`upserts`: path -> bytes and state on the disk) and remove others (`removals`:
        paths), in one transaction.

        Paths are relative to the vault's root, with `/`. `head`: the commit that the index has reached with this
        call, stored as `position`; None leaves `position` unchanged. `notes`: path -> note, for files that the caller
        has parsed already. `embed`: whether to embed the texts before returning if there are only a few; otherwise
        the background thread embeds them. `superseded`: called for each file with the apply lock held; files for
        which it returns True are skipped.
        """
        files = upserts.items() if len(upserts) <= AT_ONCE else priority.giving(upserts.items())
        read = notes or {}
        entries = [write.entry(path, data, state, note=read.get(path)) for path, (data, state) in files]
        priority.give()
        made = self._embed_now(entries) if embed else None
        now = micros(self.clock())
        with self._applying:
            entries = [one for one in entries if not superseded(one.path, one.state.digest)]
            removals = [path for path in removals if not superseded(path, None)]
            with self.database.write() as connection:
                changed = write.store(connection, entries, removals)
                if made is not None:
                    embedding_cache.put(connection, made[0].number, made[1], now)
                deltas = {
                    model: embedding_cache.follow(connection, model, changed, now)
                    for model in embedding_cache.models(connection)
                }
                if head is not None:
                    connection.execute("INSERT OR REPLACE INTO meta VALUES ('head', ?)", (head,))
            self.counted.changed()
            self._follow_files([*upserts, *removals])
            for store in self._stores():
                store.take(deltas[store.number])
        self.indexer.wake()

    def touched(self, states: Sequence[FileState]) -> None:
        """Store the new size, mtime and inode of files that were touched. A file whose bytes (`digest`) are not those
        that were indexed is skipped."""
        with self._applying:
            with self.database.write() as connection:
                connection.executemany(
                    "UPDATE file SET size = ?, mtime_ns = ?, inode = ? WHERE path = ? AND digest = ?",
                    [(one.size, one.mtime_ns, one.inode, one.path, one.digest) for one in states],
                )
            self._follow_files([one.path for one in states])

    def known(self) -> dict[str, FileState]:
        """Return path -> state when it was indexed, for every indexed file. Cached in RAM, because each scan of the
        vault asks for it."""
        with self._knowing:
            if self._files is None:
                self._files = super().known()
            return self._files.copy()

    def _follow_files(self, paths: Sequence[str]) -> None:
        with self._knowing:
            if self._files is not None:
                with self.database.read() as connection:
                    found = reader.known_files(connection, paths)
                for path in paths:
                    self._files.pop(path, None)
                self._files |= found

    def _embed_now(self, entries: Sequence[ParsedFile]) -> tuple[VectorStore, dict[bytes, DocumentVectors]] | None:
        """Embed the new texts of `entries` if there are only a few, so that vector search finds them at once.

        Return (vector store, sha256 of the text -> embedding); None if there are no embeddings to store.
        """
        store = self.indexer.active
        if store is None or len(entries) > MOST_AT_ONCE:
            return None
        texts = [embedding_cache.source(one.note.title, one.path, one.note.content) for one in entries if one.claims]
        missing = self._missing(store, texts)[0]
        if not missing or len(missing) > AT_ONCE or sum(len(one.content) for one in missing) > AT_ONCE_CHARACTERS:
            return None
        try:
            return store, embedding_cache.embed(store.embedder, missing, urgent=True)
        except Exception:
            # The model's library may raise anything. Texts that are not embedded now wait; full text search finds them.
            log.exception("embedding %d texts failed; they are tried again in the background", len(missing))
            return None

    def _missing(self, store: VectorStore, texts: Sequence[EmbeddedText]) -> tuple[list[EmbeddedText], dict[bytes, int]]:  # fmt: skip
        """Return (those of `texts` without a stored embedding, each once; sha256 -> number of the embedding of the
        others)."""
        wanted = {one.sha: one for one in texts}
        with self.database.read() as connection:
            known = embedding_cache.cached(connection, store.number, wanted)
        return [one for sha, one in wanted.items() if sha not in known], known

    def embed_ahead(self, texts: Sequence[tuple[str | None, str]], *, urgent: bool = True) -> list[Float] | None:
        """Return a vector (unit, float32[dimensions]) for each of `texts`, pairs of (title, content) that are about
        to become notes; None without a model.

        The embeddings are stored, so that `apply` finds them: embedding is slow and must not happen under a lock. For
        many texts, pass `urgent=False`: embedding then yields to waiting requests.
        """
        store = self.indexer.active
        if store is None:
            return None
        sources = [embedding_cache.source(title, "", content) for title, content in texts]
        missing, known = self._missing(store, sources)
        made = embedding_cache.embed(store.embedder, missing, urgent=urgent)
        if made:
            try:
                self.keep_vectors(store.embedder.fingerprint, made)
            except NoRoom as full:  # a full disk of the index refuses no write to the vault
                log.warning("%d texts are embedded again later: %s", len(made), full.message)
            if not urgent:
                self.indexer.worked()
        with self.database.read() as connection:
            return [
                made[one.sha].vector if one.sha in made else embedding_cache.vector(connection, known[one.sha])
                for one in sources
            ]

    def neighbours(self, title: str | None, content: str, limit: int) -> list[tuple[str, float]]:
        """Return the memories nearest in meaning to a text that is about to become a note: (id, cosine), best first.

        Empty without a model. The text's embedding is stored, as by `embed_ahead`.
        """
        vectors = self.embed_ahead([(title, content)])
        return [] if vectors is None else self.search_vectors(vectors[0], limit, MEMORIES)

    def keep_vectors(self, fingerprint: str, made: Mapping[bytes, DocumentVectors]) -> None:
        """Store embeddings of texts that no note has today. `made`: sha256 of the text -> its embedding, made by the
        model with this fingerprint; nothing is stored if that model is no longer used."""
        with self._applying:
            store = next((one for one in self._stores() if one.embedder.fingerprint == fingerprint), None)
            if store is not None:
                with self.database.write() as connection:
                    embedding_cache.put(connection, store.number, made, micros(self.clock()))

    def rebuild(self, files: Iterable[tuple[str, bytes, FileState]], *, head: str | None = None) -> int:
        """Index all of `files` (path, bytes, state) again, and remove all other files from the index. Texts whose
        embedding is stored are not embedded again. `head`: see `apply`. Return the number of files."""
        left = set(self.known())
        batch: dict[str, tuple[bytes, FileState]] = {}
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
            with self.database.write() as connection:
                full_text.refresh(connection)
                for store in self._stores():
                    store.recount(connection)
            self.counted.changed()
        if self.indexer.active is not None:
            self.indexer.active.chroma.wipe()
        self.indexer.wake()
        return done

    def holding(self, holds: Callable[[bytes], object], chosen: str = reader.OF_VAULT) -> list[str]:
        """Return the paths of the files for which `holds` returns a true value. It is called once for each file, with
        the file's path, id, title and text, joined by newlines, as UTF-8. `chosen`: which files, in SQL."""
        with self.database.read() as connection:
            rows = connection.execute(
                "SELECT f.path, coalesce(f.node_id, '') || char(10) || coalesce(n.title, '') || char(10) || t.content "
                f"FROM file f JOIN text t USING (number) LEFT JOIN node n USING (number) WHERE {chosen}"
            )
            return [path for path, text in rows if holds(f"{path}\n{text}".encode("utf-8", "surrogateescape"))]

    def scour(self) -> None:
        """Remove every trace of deleted notes from the index's files: their embeddings, their words, freed pages of
        the SQLite file, and all files of Chroma, which is filled again.

        Takes about as long as writing the SQLite file; other threads can read meanwhile. Raises Unavailable if their
        reads block it for too long.
        """
        with self._applying:
            with self.database.write() as connection:
                embedding_cache.forget_free(connection)
                full_text.settle(connection)
            self.database.scour()
        if self.indexer.active is not None:
            self.indexer.active.chroma.wipe()
        else:
            shutil.rmtree(self.directory / "chroma", ignore_errors=True)
        self.indexer.wake()

    def attach(self, embedder: Embedder) -> None:
        """Use this model: load its stored vectors, and embed in the background the nodes that have none.

        If another model (with another fingerprint) is in use, it stays in use until every node has vectors of the new
        one.
        """
        with self._applying:
            active = self.indexer.active
            if active is not None and active.embedder.fingerprint == embedder.fingerprint:
                active.embedder = embedder
                return
            store = VectorStore(embedder, self.database.directory, self._vectors)
            with self.database.write() as connection:
                store.load(connection)
            if active is None:
                self.indexer.active = store
                self.indexer.start()
            else:
                self.indexer.next = store
        self.indexer.wake()

    def pending(self) -> int:
        """Return the number of nodes that wait for their vectors."""
        return self.indexer.pending()

    def wait_filled(self, timeout: float, *, settled: bool = False) -> bool:
        """Wait up to `timeout` seconds until every node has its vectors; with `settled`, also until Chroma has all
        vectors. Return False on timeout."""
        return self.indexer.wait(timeout, settled=settled)

    @property
    def degraded(self) -> list[str]:
        """The parts that search has to do without at present: "vectors" (no model, or many nodes without vectors),
        "chroma" (search is then only slower)."""
        active = self.indexer.active
        if active is None:
            return ["vectors"]
        waiting = len(active.waiting)
        out = ["vectors"] if waiting > max(AT_ONCE, MANY * (waiting + len(active.matrix))) else []
        return out + (["chroma"] if active.chroma.trouble else [])

    @property
    def searched(self) -> str:
        """Where vectors are searched (`VectorStore.searched`); "nowhere" until the model is loaded."""
        return self.indexer.active.searched if self.indexer.active else "nowhere"

    @property
    def trouble(self) -> str | None:
        """Why Chroma cannot be used; None if it can, or is not needed."""
        return self.indexer.active.chroma.trouble if self.indexer.active else None

    def _stores(self) -> list[VectorStore]:
        return [one for one in (self.indexer.active, self.indexer.next) if one is not None]

    def verify(
        self, vault: Iterable[tuple[str, bytes, FileState]] | None = None, *, progress: verify.Progress = verify.silent
    ) -> list[Difference]:
        """Return all differences between the index's tables, the vectors in RAM, Chroma, and the files `vault` (path,
        bytes, state; None: files are not compared); empty if there are none.

        Nodes that wait for their vectors are no difference; `pending` counts them. Other threads can write the index
        meanwhile, because it is compared as it was at one moment. A file written after that moment may be returned as
        different until it is indexed.
        """
        with self.database.read() as connection:
            with self._applying:
                connection.execute("SELECT 1 FROM meta").fetchone()  # the snapshot begins here
                active = self.indexer.active
                memory = None if active is None else active.matrix.frozen()
            progress(0, 0, "the database")
            found = list(verify.check(connection))
            if found:
                return found
            differ = [] if vault is None else list(verify.files(connection, vault, progress))
            was = reader.known_files(connection, [one.path for one in differ if one.path is not None])
            found += verify.words(connection, progress)
            found += verify.edges(connection, progress)
            if active is not None and memory is not None:
                found += verify.vectors(connection, active.number, memory, progress)
        if differ:  # leave out files that were indexed meanwhile
            with self.database.read() as connection:
                now = reader.known_files(connection, [one.path for one in differ if one.path is not None])
            found += [one for one in differ if one.path is None or was.get(one.path) == now.get(one.path)]
        if active is not None:
            progress(0, 0, "Chroma")
            active.chroma.trouble = None  # have the indexer open it again now
            self.indexer.open(OPEN_S)
            with active.chroma.lock:
                with self._applying:
                    memory, pending = active.matrix.frozen(), active.chroma.pending
                found += verify.chroma(active.chroma, memory, pending, progress)
        return found

    def set_strength(self, strength: Mapping[str, Strength]) -> None:
        """Set the strength of all nodes. Nodes that are not in `strength` (node id -> strength) have the default."""
        self.strength = dict(strength)

    def close(self) -> None:
        """Stop the background thread, and close Chroma and the database. Vectors that are not in Chroma yet are
        written to it after the next start."""
        super().close()
