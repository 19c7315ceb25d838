"""The index as other packages use it: changes of files go in; nodes, edges and search results come out (`Reader`)."""

from __future__ import annotations

import itertools
import logging
import shutil
import threading
import time
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from msgspec import Struct

from ormahd.api import Difference
from ormahd.embedding.embedder import DocumentVectors, Embedder
from ormahd.embedding.token_vectors import Float
from ormahd.errors import NoRoom, Unavailable
from ormahd.index import embeddings, reader, verify, write
from ormahd.index.background import IDLE_S, Background
from ormahd.index.database import Database
from ormahd.index.embeddings import EmbeddedText, VectorStore
from ormahd.index.reader import Reader
from ormahd.index.rows import MEMORIES, micros
from ormahd.model.change import Clock, FileState
from ormahd.note.values import Note
from ormahd.process import priority, sql
from ormahd.settings import VectorSettings
from ormahd.vectors.chroma import ChromaTrouble

BATCH = 1000
"""Number of files in one transaction of a rebuild: large enough to be fast, small enough that other writers wait only
briefly."""
AT_ONCE_FILES = 200
"""Maximum number of files in a call of `apply` that embeds their texts before it returns. With more files, the background
thread embeds all of them."""
AT_ONCE = 32
"""Maximum number of texts that `apply` embeds before it returns. If there are more, the background thread embeds all of
them."""
AT_ONCE_CHARACTERS = 50_000
FILL_BATCH = 128
"""Number of nodes that the background thread embeds and commits together. Other writers wait only during the commit."""
PARALLEL_BATCHES = 2
"""Number of batches embedded at the same time, so that the next one is embedded while another is written."""
TIDY_S = 3600.0
"""Seconds between two searches for embeddings that no note needs."""
OPEN_S = 10.0
"""How long `verify` waits for Chroma to be opened, in seconds."""
MANY = 0.05
"""Share of nodes without vectors above which search is reported as degraded."""

log = logging.getLogger(__name__)


class _Batch(Struct, frozen=True):
    """Nodes whose texts are being embedded."""

    store: VectorStore
    ids: Sequence[str]
    made: Future[dict[bytes, DocumentVectors]]
    """sha256 of a text -> its embedding, for the texts that were not stored already."""


class Index(Reader):
    """The index of one vault. Applies changes of files: to SQLite in one transaction, and then to the vectors in RAM, while
    one lock is held. A background thread embeds texts that have no vectors, updates Chroma, and drops embeddings that no
    note needs.

    Reading is safe from any thread at any time.
    """

    def __init__(self, database: Database, vectors: VectorSettings, clock: Clock, *, background: bool = True) -> None:
        """`background`: False for a copy that is used for one question, and whose texts the caller has embedded
        (`embed_waiting`)."""
        super().__init__(database)
        self.clock = clock
        self.next: VectorStore | None = None
        """The vectors of a model that is filled beside the active one, and replaces it when it is complete."""
        self._vectors = vectors
        self._applying = threading.Lock()
        self._knowing = threading.Lock()
        self._files: dict[str, FileState] | None = None
        self._background = Background(self._work_step, database)
        self._in_background = background
        self._embedding = ThreadPoolExecutor(PARALLEL_BATCHES, "index-embed")
        self._batches: deque[_Batch] = deque()
        self._tidy_at = 0.0

    @classmethod
    def open(cls, directory: Path, vectors: VectorSettings | None = None, *, clock: Clock) -> Index:
        """Open or create the index in `directory`. This is fast, because the index has no embedding model until
        `attach` is called."""
        return cls(Database(directory), vectors or VectorSettings(), clock)

    @property
    def directory(self) -> Path:
        """The folder of the index's files."""
        return self.database.directory

    @property
    def dropped(self) -> str | None:
        """Why the contents of the index on the disk were deleted when this object opened it; None if they were not."""
        return self.database.dropped

    @property
    def _stores(self) -> list[VectorStore]:
        """The vectors of the active model, and of the next one if there is one."""
        return [store for store in (self.active, self.next) if store is not None]

    def close(self) -> None:
        """Stop the background thread, and close Chroma and the database. Vectors that are not in Chroma yet are
        written to it after the next start."""
        self._background.stop()
        self._embedding.shutdown(cancel_futures=True)
        for store in self._stores:
            store.chroma.close()
        super().close()

    # Files

    def apply(
        self,
        upserts: Mapping[str, tuple[bytes, FileState]],
        removals: Collection[str],
        *,
        head: str | None,
        notes: Mapping[str, Note | None] | None = None,
        embed: bool = True,
        seen: Mapping[str, FileState] | None = None,
    ) -> None:
        """Index new and changed files, and remove others, in one transaction.

        `upserts`: path -> (bytes, state on the disk). `removals`: paths. Paths are relative to the vault's root, with
        `/`. `head`: the commit that the index has reached with this call, stored as `position`; None leaves `position`
        unchanged. `notes`: path -> note, for files that the caller has parsed already. `embed`: whether to embed the
        texts before returning, if there are only a few; otherwise the background thread embeds them. `seen`: what
        `known_files` returned before the caller read the files. A file is skipped if the index got another version of it
        since then, from a commit of Ormah's own.
        """
        # Parse the files, and embed their texts if there are few: both take long, so no lock is held.
        files = upserts.items() if len(upserts) <= AT_ONCE else priority.giving(upserts.items())
        parsed = notes or {}
        entries = [write.entry(path, data, state, note=parsed.get(path)) for path, (data, state) in files]
        priority.give()
        if embed and len(entries) <= AT_ONCE_FILES:
            nodes = (entry for entry in entries if entry.claims)
            self._embed_few([embeddings.text_to_embed(node.note.title, node.path, node.note.content) for node in nodes])

        # Write them to the tables, and then to the vectors in RAM, while no other change is applied.
        with self._applying:
            if seen is not None:
                present = self.known_files()
                entries = [entry for entry in entries if present.get(entry.path) == seen.get(entry.path)]
                removals = [path for path in removals if present.get(path) == seen.get(path)]
            with self.database.write() as connection:
                changed = write.store(connection, entries, removals)
                now = micros(self.clock())
                deltas = {
                    model: embeddings.assign(connection, model, changed, now) for model in embeddings.models(connection)
                }
                if head is not None:
                    connection.execute("INSERT OR REPLACE INTO meta VALUES ('head', ?)", (head,))
            self.counted.changed()
            self._update_known_files([*upserts, *removals])
            for store in self._stores:
                store.take(deltas[store.number])
        self._background.wake()

    def rebuild(self, files: Iterable[tuple[str, bytes, FileState]], *, head: str | None = None) -> int:
        """Index all of `files` (path, bytes, state) again, and remove all other files from the index. Texts whose
        embedding is stored are not embedded again. `head`: see `apply`. Return the number of files."""
        removals = set(self.known_files())
        done = 0
        files = iter(files)
        while batch := {path: (data, state) for path, data, state in itertools.islice(files, BATCH)}:
            removals -= batch.keys()
            done += len(batch)
            self.apply(batch, (), head=None)
        self.apply({}, removals, head=head)
        with self._applying:
            with self.database.write() as connection:
                connection.execute("INSERT INTO words (words) VALUES ('rebuild')")
            self.counted.changed()
        self._wipe_chroma()
        return done

    def update_states(self, states: Sequence[FileState]) -> None:
        """Store the new size, mtime and inode of files whose bytes did not change. A file is skipped if its bytes
        (`digest`) differ from those that were indexed."""
        with self._applying:
            with self.database.write() as connection:
                connection.executemany(
                    "UPDATE file SET size = ?, mtime_ns = ?, inode = ? WHERE path = ? AND digest = ?",
                    [(state.size, state.mtime_ns, state.inode, state.path, state.digest) for state in states],
                )
            self._update_known_files([state.path for state in states])

    def known_files(self) -> dict[str, FileState]:
        """Return {path: state when it was indexed} for every file of the vault. It is cached in RAM, because each scan
        of the vault needs it."""
        with self._knowing:
            if self._files is None:
                with self.database.read() as connection:
                    self._files = reader.known_files(connection)
            return self._files.copy()

    def _update_known_files(self, paths: Sequence[str]) -> None:
        """Bring the cached states of the files `paths` up to what the database holds."""
        with self._knowing:
            if self._files is not None:
                with self.database.read() as connection:
                    found = reader.known_files(connection, paths)
                for path in paths:
                    self._files.pop(path, None)
                self._files |= found

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
            self._batches.clear()
            for store in self._stores:
                with self.database.write() as connection:
                    store.load(connection)
        self._background.wake()

    def scour(self) -> None:
        """Delete every trace of removed notes from the index's files: their embeddings, their words, freed pages of the
        SQLite file, and all files of Chroma, which is filled again.

        This takes about as long as writing the SQLite file; other threads can read in the meantime. Raises Unavailable
        if their reads block it for too long.
        """
        with self._applying:
            with self.database.write() as connection:
                embeddings.delete_free(connection)
                # Merge the segments of the full text table: no segment then holds words of deleted rows.
                connection.execute("INSERT INTO words (words) VALUES ('optimize')")
            self.database.scour()
        self._wipe_chroma()

    def _wipe_chroma(self) -> None:
        """Delete the files of Chroma; the background thread fills it again."""
        if self.active is not None:
            self.active.chroma.wipe()
        else:
            shutil.rmtree(self.directory / "chroma", ignore_errors=True)
        self._background.wake()

    # Embeddings

    def attach(self, embedder: Embedder) -> None:
        """Use this model: load its stored vectors, and embed in the background the nodes that have none.

        If another model (with another fingerprint) is in use, that one is used until every node has vectors of the new
        one.
        """
        with self._applying:
            if self.active is not None and self.active.embedder.fingerprint == embedder.fingerprint:
                self.active.embedder = embedder
                return
            store = VectorStore(embedder, self.directory, self._vectors)
            with self.database.write() as connection:
                store.load(connection)
            if self.active is not None:
                self.next = store
            else:
                self.active = store
                if self._in_background:
                    self._background.start()
        self._background.wake()

    def embed_ahead(self, texts: Sequence[tuple[str | None, str]], *, urgent: bool = True) -> list[Float] | None:
        """Return a vector (unit, float32[dimensions]) for each of `texts`, pairs of (title, content) that are about
        to become notes; None without a model.

        The embeddings are stored, so that `apply` finds them: embedding is slow and must not happen under a lock. For
        many texts, pass `urgent=False`: embedding then yields to waiting requests.
        """
        store = self.active
        if store is None:
            return None
        sources = [embeddings.text_to_embed(title, "", content) for title, content in texts]
        made = self._embed_and_store(store, self._without_embedding(store, sources), urgent=urgent)
        if not urgent:
            self._background.worked()
        with self.database.read() as connection:
            known = embeddings.cached(connection, store.number, {source.sha for source in sources})
            return [
                made[source.sha].vector if source.sha in made else embeddings.vector(connection, known[source.sha])
                for source in sources
            ]

    def neighbours(self, title: str | None, content: str, limit: int) -> list[tuple[str, float]]:
        """Return the memories nearest in meaning to a text that is about to become a note: (id, cosine), best first.

        Empty without a model. The text's embedding is stored, as by `embed_ahead`.
        """
        vectors = self.embed_ahead([(title, content)])
        return [] if vectors is None else self.search_vectors(vectors[0], limit, MEMORIES)

    def keep_vectors(self, fingerprint: str, made: Mapping[bytes, DocumentVectors]) -> None:
        """Store embeddings of texts, also if no note has these texts today. `made`: sha256 of the text -> its
        embedding. `fingerprint`: of the model that made them; nothing is stored if that model is no longer used."""
        with self._applying:
            store = {store.embedder.fingerprint: store for store in self._stores}.get(fingerprint)
            if made and store is not None:
                with self.database.write() as connection:
                    embeddings.put(connection, store.number, made, micros(self.clock()))

    def _without_embedding(self, store: VectorStore, texts: Iterable[EmbeddedText]) -> list[EmbeddedText]:
        """Return those of `texts` that have no stored embedding, each once."""
        wanted = {text.sha: text for text in texts}
        with self.database.read() as connection:
            known = embeddings.cached(connection, store.number, wanted)
        return [text for sha, text in wanted.items() if sha not in known]

    def _embed_few(self, texts: Sequence[EmbeddedText]) -> None:
        """Embed the new ones of `texts`, and store their embeddings, if there are only a few."""
        store = self.active
        if store is None:
            return
        missing = self._without_embedding(store, texts)
        if len(missing) > AT_ONCE or sum(len(text.content) for text in missing) > AT_ONCE_CHARACTERS:
            return
        try:
            self._embed_and_store(store, missing, urgent=True)
        except Exception:
            # The model's library may raise anything. The texts wait; full text search finds them.
            log.exception("embedding %d texts failed; they are tried again in the background", len(missing))

    def _embed_and_store(
        self, store: VectorStore, texts: Sequence[EmbeddedText], *, urgent: bool
    ) -> dict[bytes, DocumentVectors]:
        """Embed texts that are about to become notes, and store their embeddings. Return {sha256 of a text: its
        embedding}."""
        made = embeddings.embed(store.embedder, texts, urgent=urgent)
        try:
            self.keep_vectors(store.embedder.fingerprint, made)
        except NoRoom as full:  # a full disk of the index refuses no write to the vault
            log.warning("%d texts are embedded again later: %s", len(made), full.message)
        return made

    def embed_waiting(self, ids: Sequence[str], *, urgent: bool) -> dict[bytes, DocumentVectors]:
        """Embed the texts of the nodes `ids`, which have no vectors, and give the nodes these vectors. Return {sha256
        of a text: its embedding} for the texts that were not stored already."""
        assert self.active is not None
        made = self._embed_nodes(self.active, ids, urgent=urgent)
        self._store_vectors(self.active, ids, made)
        return made

    def _embed_nodes(self, store: VectorStore, ids: Sequence[str], *, urgent: bool) -> dict[bytes, DocumentVectors]:
        """Embed the texts of the nodes `ids`. Return {sha256 of a text: its embedding} for the texts that were not
        stored already."""
        with self.database.read() as connection:
            sources = embeddings.texts_to_embed(connection, ids)
        return embeddings.embed(store.embedder, self._without_embedding(store, sources.values()), urgent=urgent)

    def _store_vectors(self, store: VectorStore, ids: Sequence[str], made: Mapping[bytes, DocumentVectors]) -> None:
        """Store the embeddings `made` (sha256 of a text -> embedding), and give the nodes `ids` their vectors. An
        embedding is dropped if no node has its text any more."""
        now = micros(self.clock())
        with self._applying:
            with self.database.write() as connection:
                # A text that was deleted meanwhile must leave no embedding behind.
                wanted = {text.sha for text in embeddings.texts_to_embed(connection, ids).values()}
                embeddings.put(connection, store.number, {sha: made[sha] for sha in made if sha in wanted}, now)
                delta = embeddings.assign(connection, store.number, ids, now)
            store.take(delta)
            for node_id in ids:  # also those removed or changed meanwhile (`take` adds the latter again)
                if node_id not in delta.waiting:
                    store.waiting.pop(node_id, None)

    # The background thread

    def _work_step(self) -> float:
        """Do one step of the background thread's work. Return the seconds until the next step is due; see `Background`.

        In this order: embed nodes without vectors, change to the next model, drop embeddings that no note needs, write
        to Chroma.
        """
        priority.give()

        # Embed nodes without vectors.
        for store in self._stores:
            if store.waiting:
                self._embed_batch(store)
                return 0.0

        # Change to the next model.
        if self.next is not None:  # all nodes have vectors of the next model
            with self._applying:
                old, self.active, self.next = self.active, self.next, None
            self._tidy_at = 0.0
            if old is not None:
                old.chroma.close()
            return 0.0

        # Delete embeddings that no note needs, every `TIDY_S`.
        active = self.active
        if active is None:
            return IDLE_S
        if time.monotonic() >= self._tidy_at:
            if self.tidy():
                return 0.0
            self._tidy_at = time.monotonic() + TIDY_S

        # Write to Chroma.
        try:
            pause = active.chroma.step(settling=bool(self._background.hurried))
        except ChromaTrouble as trouble:
            active.chroma.fail(trouble)
            raise Unavailable(str(trouble)) from trouble
        if pause and active.chroma.complete and not active.recorded:
            with self._applying, self.database.write() as connection:
                active.record(connection)
        return pause

    def _embed_batch(self, store: VectorStore) -> None:
        """Embed a batch of the nodes that have no vectors in `store`, and give them their vectors. Further batches are
        embedded meanwhile."""
        while self._batches and self._batches[0].store is not store:
            self._batches.popleft()
        under_way = {node_id for batch in self._batches for node_id in batch.ids}
        first = list(store.waiting)[: (PARALLEL_BATCHES + 1) * FILL_BATCH]
        following = [node_id for node_id in first if node_id not in under_way]
        for ids in sql.chunks(following, FILL_BATCH)[: PARALLEL_BATCHES - len(self._batches)]:
            made = self._embedding.submit(self._embed_nodes, store, ids, urgent=False)
            self._batches.append(_Batch(store, ids, made))
        if self._batches:
            batch = self._batches.popleft()
            self._store_vectors(store, batch.ids, batch.made.result())

    def tidy(self) -> bool:
        """Delete some embeddings that no note needs. Return whether there may be more of them."""
        with self._applying, self.database.write() as connection:
            if self.next is not None or self.active is None:
                return False
            number = self.active.number
            others = embeddings.models(connection) != [number]
            dropped = embeddings.delete_unneeded(connection, number, micros(self.clock()))
            if others and not dropped:
                embeddings.delete_other_models(connection, number)
        if dropped or others:
            self.database.checkpoint()
        return bool(dropped)

    # State

    def pending(self) -> int:
        """Return the number of nodes that wait for their vectors."""
        return max((len(store.waiting) for store in self._stores), default=0)

    def wait_filled(self, timeout: float, *, settled: bool = False) -> bool:
        """Wait up to `timeout` seconds until every node has its vectors; with `settled`, also until Chroma has all
        vectors. Return False on timeout."""

        def filled() -> bool:
            """Return whether the wait is over."""
            active = self.active
            if active is None or self.next is not None or active.waiting:
                return False
            return active.chroma.complete or not settled

        return self._background.wait(filled, timeout, hurry=settled)

    @property
    def degraded(self) -> list[str]:
        """The parts that search cannot use at present: "vectors" (no model, or many nodes without vectors), "chroma"
        (search is then only slower)."""
        active = self.active
        if active is None:
            return ["vectors"]
        waiting = len(active.waiting)
        enough = max(AT_ONCE, MANY * (waiting + len(active.matrix))) if self._in_background else 0
        out = ["vectors"] if waiting > enough else []
        return out + (["chroma"] if active.chroma.trouble else [])

    @property
    def searched(self) -> str:
        """Where vectors are searched (`VectorStore.searched`); "nowhere" until a model is attached."""
        return self.active.searched if self.active else "nowhere"

    @property
    def trouble(self) -> str | None:
        """Why Chroma cannot be used; None if it can, or is not needed."""
        return self.active.chroma.trouble if self.active else None

    def verify(
        self, vault: Iterable[tuple[str, bytes, FileState]], *, progress: verify.Progress = verify.no_progress
    ) -> list[Difference]:
        """Compare the index with the vault, and return the differences; empty if there are none. Nothing is changed.

        Compared are the index's tables with those built again from the files `vault` (path, bytes, state), and the
        stored vectors with those in RAM and in Chroma. Nodes that wait for their vectors are no difference; `pending`
        counts them.

        Other threads can write the index meanwhile: its tables are compared as they were at one moment. A file written
        after that moment may be returned as different.
        """
        # The tables.
        with self.database.beside() as connection:
            with self._applying:
                connection.execute("SELECT 1 FROM indexed.meta").fetchone()  # the snapshot begins here
            progress(0, 0, "the database")
            if found := verify.check(connection):
                return found
            found = list(verify.compare_tables(connection, vault, progress))
        if (active := self.active) is None:
            return found

        # The vectors.
        with self.database.read() as connection:
            with self._applying:
                connection.execute("SELECT 1 FROM meta").fetchone()
                memory = active.matrix.frozen()
            found += verify.compare_vectors(connection, active.number, memory, progress)

        # Chroma, which the background thread opens if it is closed.
        progress(0, 0, "Chroma")
        active.chroma.trouble = None  # have the background thread open it again now
        self._background.wait(lambda: bool(active.chroma.place or active.chroma.trouble), OPEN_S, hurry=True)
        try:
            lost = active.chroma.verify(self._applying)
        except ChromaTrouble as trouble:
            return [*found, Difference("chroma", None, None, str(trouble))]
        return found + [Difference("chroma", None, node_id, "Chroma holds other pieces of it") for node_id in lost]
