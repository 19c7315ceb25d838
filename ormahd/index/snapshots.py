"""Temporary indexes of another state of the vault: an earlier one (`as_of`), or one that a change would produce.

Today's index is copied, and only the files that differ are indexed again. Embeddings are found by content, so few texts
need a new one. The last `as_of` snapshot is kept for further questions; it takes as much disk as the index itself.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import secrets
import shutil
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from ormahd.embedding.embedder import DocumentVectors, Embedder, QueryVectors
from ormahd.errors import Unavailable
from ormahd.index import embedding_cache, write
from ormahd.index.database import Database
from ormahd.index.index import Index
from ormahd.index.indexer import Indexer
from ormahd.index.reader import Reader
from ormahd.index.rows import micros
from ormahd.index.vector_store import VectorStore
from ormahd.model.change import FileState
from ormahd.model.node import Strength
from ormahd.note.values import NoteKind
from ormahd.settings import VectorSettings

EMBEDDED = 500
"""Maximum number of texts that are embedded for one question."""
EMBED_S = 5.0
"""Seconds that a question waits for embedding. Texts that are not embedded by then are found by full text search
only."""
CANDIDATES = 100
"""Maximum number of notes that are embedded before all others, because they share words with the question."""
QUICK = 16
"""Maximum number of notes that are embedded for a further question about the same state. They share words with that
question."""
PASS = 32
"""Number of texts in one forward pass. It runs in the calling thread, which leaves other cores to other requests."""

Progress = Callable[[int, int, str], None]
"""Callback that reports progress: (number of items done, total or 0 if unknown, name of the work)."""
Keep = Callable[[str, Mapping[bytes, DocumentVectors]], None]
"""Called with a model's fingerprint and its new embeddings (sha256 of the text -> embedding), to store them for
later."""


class IndexSnapshot(Reader):
    """Reads and searches a copy of the index, made for one state of the vault, for example of an earlier commit. Its
    notes never change. Texts without embeddings are embedded when questions need them."""

    def __init__(
        self,
        database: Database,
        store: VectorStore | None,
        strength: Mapping[str, Strength],
        *,
        keep: Keep,
        clock: Callable[[], datetime],
    ) -> None:
        indexer = Indexer(database, threading.Lock(), clock)  # its thread is not started: `fill` embeds instead
        indexer.active = store
        super().__init__(database, indexer)
        self.strength = strength
        self._keep = keep
        self._clock = clock
        self._filling = threading.Lock()
        self.key = ""
        self.users = 0
        self.dropped = False

    @property
    def embedder(self) -> Embedder | None:
        return self.indexer.active.embedder if self.indexer.active else None

    def embed_query(self, text: str) -> QueryVectors | None:
        """Return the vectors of a query; None without a model."""
        return None if self.embedder is None else self.embedder.embed_query(text)

    @property
    def degraded(self) -> list[str]:
        """["vectors"] if some notes can only be found by full text search, else []."""
        active = self.indexer.active
        return ["vectors"] if active is None or active.waiting else []

    def fill(
        self,
        terms: Sequence[str],
        progress: Progress,
        *,
        quick: bool,
        most: int = EMBEDDED,
        seconds: float = EMBED_S,
        stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        """Embed texts that have no vectors yet: first those of notes that share words with the query `terms`, then
        the newest. Stops after `most` texts or `seconds`, or when `stopped` returns True.

        With `quick`, which is for a further question about the same state, only the first few of the former are
        embedded.
        """
        store = self.indexer.active
        if store is None or not store.waiting:
            return
        with self._filling:
            end = time.monotonic() + seconds
            near = [node_id for node_id, _ in self.search_text(terms, CANDIDATES) if node_id in store.waiting]
            chosen = near[:QUICK] if quick else list(dict.fromkeys([*near, *store.waiting]))[:most]
            for at in range(0, len(chosen), PASS):
                if time.monotonic() >= end or stopped():
                    break
                progress(at, len(chosen), "embedding")
                self._embed(store, chosen[at : at + PASS])

    def _embed(self, store: VectorStore, ids: Sequence[str]) -> None:
        with self.database.read() as connection:
            sources = {one.sha: one for one in embedding_cache.sources(connection, ids).values()}
        made = embedding_cache.embed(store.embedder, sources.values(), urgent=True)
        now = micros(self._clock())
        with self.database.write() as connection:
            embedding_cache.put(connection, store.number, made, now)
            delta = embedding_cache.follow(connection, store.number, ids, now)
        store.take(delta)
        self._keep(store.embedder.fingerprint, made)

    def remove(self) -> None:
        """Close the snapshot, delete its files, and drop its vectors, so that their RAM is freed at once."""
        self.close()
        self.indexer.active = None
        shutil.rmtree(self.database.directory, ignore_errors=True)


BATCH = 500
"""Number of files indexed in one transaction. Between two transactions the build can be stopped."""
SPARE = 100_000_000
"""Bytes that must stay free on the disk."""


class Files(Protocol):
    """What `Build` needs from one state of the vault: its files. `watch.snapshot_files.State` is such a class."""

    @property
    def files(self) -> Mapping[str, str]:
        """Path -> id of the file's blob in git, for each file."""
        ...

    def read(self, files: Sequence[tuple[str, str]]) -> Iterator[bytes]:
        """Yield the bytes of files, given as (path, blob id), in order."""
        ...


class Build(Struct):
    """Builds the databases of snapshots: copies the index into a new directory below `folder`, and indexes the files
    that differ."""

    index: Index
    folder: Path
    clock: Callable[[], datetime]
    stopped: Callable[[], bool]

    def make(self, files: Files, when: datetime, progress: Progress) -> tuple[Database, VectorStore | None]:
        """Build the index of `files` as of `when`, in a new directory. Return its database and its vector store (None
        without a model).

        Raises Unavailable if the disk is too full, or if the daemon is stopping. The directory is then removed again.
        """
        progress(0, 0, "copying")
        return self._copied(lambda database: self._take_in(database, files, when, progress))

    def trial(self, changed: Mapping[str, bytes], when: datetime) -> tuple[Database, VectorStore | None]:
        """Build the index as it would be if some files of the present vault changed. `changed`: path -> new bytes.
        Returns and raises what `make` does."""
        entries = [
            write.entry(path, data, _state(path, data, when), write.git_blob(data)) for path, data in changed.items()
        ]
        return self._copied(lambda database: self._store(database, entries, ()))

    def _copied(self, change: Callable[[Database], None]) -> tuple[Database, VectorStore | None]:
        self._check_room()
        directory = self.folder / secrets.token_hex(8)
        self.folder.mkdir(mode=0o700, exist_ok=True)
        directory.mkdir(mode=0o700)
        with contextlib.ExitStack() as undo:
            undo.callback(shutil.rmtree, directory, ignore_errors=True)
            self.index.copy(directory)
            database = Database(directory, durable=False)
            undo.callback(database.close)
            change(database)
            embedder = self.index.embedder
            store = None if embedder is None else self._understand(database, embedder)
            database.give_back()
            undo.pop_all()
        return database, store

    def _check_room(self) -> None:
        needed = 2 * self.index.copied() + SPARE
        free = shutil.disk_usage(self.index.directory).free
        if free < needed:
            raise Unavailable(
                f"there is no room to look back: {free // 1_000_000:,} MB are free below {self.index.directory}, "
                f"it takes {needed // 1_000_000:,} MB for a while",
                hint="free some disk space; `git show` and `git grep` in the vault look back without an index",
            )

    def _check_stopped(self) -> None:
        if self.stopped():
            raise Unavailable("the daemon is stopping", hint="ask again when it runs")

    # The files

    def _take_in(self, database: Database, files: Files, when: datetime, progress: Progress) -> None:
        with database.read() as connection:
            # Read as one JSON value: while rows are fetched one by one, other threads interrupt at each of them.
            (known,) = connection.execute("SELECT json_group_object(path, blob) FROM file").fetchone()
        before: dict[str, str] = json.loads(known)
        gone = [path for path in before if path not in files.files]
        differing = sorted((path, oid) for path, oid in files.files.items() if before.get(path) != oid)
        entries: list[write.ParsedFile] = []
        for number, ((path, oid), data) in enumerate(zip(differing, files.read(differing), strict=True)):
            one = write.entry(path, data, _state(path, data, when), oid)
            if one.note.kind is NoteKind.CONFLICTED:
                gone.append(path)
            else:
                entries.append(one)
            if len(entries) == BATCH:
                self._check_stopped()
                self._store(database, entries, ())
                entries = []
                progress(number + 1, len(differing), "reading")
        self._store(database, entries, gone)

    def _store(self, database: Database, entries: Sequence[write.ParsedFile], gone: Collection[str]) -> None:
        now = micros(self.clock())
        with database.write() as connection:
            ids = write.store(connection, entries, gone, self.index.first_path)
            for model in embedding_cache.models(connection):
                embedding_cache.follow(connection, model, ids, now)

    # Embeddings

    @staticmethod
    def _understand(database: Database, embedder: Embedder) -> VectorStore:
        """Return a vector store with the vectors that are stored in `database`. Texts without vectors are embedded
        when a question needs them (`IndexSnapshot.fill`)."""
        store = VectorStore(embedder, database.directory, VectorSettings())
        with database.write() as connection:
            store.load(connection)
        return store


def _state(path: str, data: bytes, when: datetime) -> FileState:
    """Return the state of a file that is not on the disk; its mtime is `when`, the time of the snapshot."""
    return FileState(path, len(data), micros(when) * 1000, 0, hashlib.sha256(data).hexdigest())


FOLDER = "as-of"
"""Name of the folder for snapshots, below the index's directory."""
KEPT_S = 600.0
"""Seconds without a question after which the kept snapshot is dropped."""


class Snapshots:
    """Builds snapshots of the index, and keeps the last one for further questions. Thread-safe: one thread builds at
    a time, the others wait."""

    def __init__(
        self,
        index: Index,
        clock: Callable[[], datetime],
        *,
        stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        """`stopping` is called during a build; if it returns True, the build ends."""
        self._index = index
        self._clock = clock
        self._stopping = stopping
        folder = index.directory / FOLDER
        shutil.rmtree(folder, ignore_errors=True)  # left by an earlier process
        self._build = Build(index, folder, clock, self.stopped)
        self._building = threading.Lock()
        self._lock = threading.Lock()
        self._kept: IndexSnapshot | None = None
        self._timer: threading.Timer | None = None
        self._used = 0.0
        self._drops = 0
        self._closed = False

    @contextlib.contextmanager
    def at(
        self, commit: str, when: datetime, load: Callable[[], tuple[Files, Mapping[str, Strength]]], progress: Progress
    ) -> Iterator[tuple[IndexSnapshot, bool]]:
        """Context manager: yield (snapshot of the index as of a commit made at `when`, whether the snapshot existed
        already).

        If it did not, it is built, and `load` is called, which returns the files and the strength of that state.
        Raises Unavailable if the disk is too full, or if the daemon is stopping.
        """
        snapshot = self._use(commit)
        cached = snapshot is not None
        if snapshot is None:
            with self._building:
                snapshot = self._use(commit)  # another thread may have built it meanwhile
                if snapshot is None:
                    snapshot = self._make(commit, when, load, progress)
        try:
            yield snapshot, cached
        finally:
            self._leave(snapshot)

    @contextlib.contextmanager
    def trial(self, changed: Mapping[str, bytes], when: datetime) -> Iterator[IndexSnapshot]:
        """Context manager: yield the index as it would be if some files changed (`changed`: path -> new bytes). It is
        deleted when the block ends.

        Only one trial runs at a time. Texts whose embeddings are stored in the index have vectors, also new texts
        after `Index.embed_ahead` with `urgent=False`. Raises Unavailable if the disk is too full, or if the daemon is
        stopping.
        """
        with self._building:
            database, store = self._build.trial(changed, when)
            snapshot = IndexSnapshot(
                database, store, self._index.strength, keep=self._index.keep_vectors, clock=self._clock
            )
            try:
                yield snapshot
            finally:
                snapshot.remove()

    def _make(
        self, commit: str, when: datetime, load: Callable[[], tuple[Files, Mapping[str, Strength]]], progress: Progress
    ) -> IndexSnapshot:
        self._let_go()  # first: only one copy on the disk at a time
        drops = self._drops
        files, strength = load()
        database, store = self._build.make(files, when, progress)
        snapshot = IndexSnapshot(database, store, strength, keep=self._index.keep_vectors, clock=self._clock)
        snapshot.key = _key(commit, snapshot.embedder)
        snapshot.users = 1
        with self._lock:
            # `drop` was called meanwhile: the commit may be gone from the history
            snapshot.dropped = self._closed or drops != self._drops
            self._kept = None if snapshot.dropped else snapshot
        return snapshot

    def stopped(self) -> bool:
        """Return whether a build must end because the daemon is stopping."""
        return self._closed or self._stopping()

    def drop(self) -> None:
        """Drop the snapshot that is kept for further questions; a snapshot that is being built will not be kept
        either. The files of a snapshot are deleted as soon as no reader uses it."""
        with self._lock:
            self._drops += 1
        self._let_go()

    def _let_go(self) -> None:
        with self._lock:
            snapshot, self._kept = self._kept, None
            unused = snapshot is not None and snapshot.users == 0
            if snapshot is not None:
                snapshot.dropped = True
        if snapshot is not None and unused:
            snapshot.remove()

    def close(self) -> None:
        self._closed = True
        with self._building:  # a running build sees `_closed` and ends
            self.drop()
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()

    def _use(self, commit: str) -> IndexSnapshot | None:
        embedder = self._index.embedder
        with self._lock:
            snapshot = self._kept
            if snapshot is None or snapshot.key != _key(commit, embedder):
                return None
            snapshot.users += 1
            return snapshot

    def _leave(self, snapshot: IndexSnapshot) -> None:
        with self._lock:
            snapshot.users -= 1
            remove = snapshot.dropped and snapshot.users == 0
            if not snapshot.dropped:
                self._used = time.monotonic()
                self._wait()
        if remove:
            snapshot.remove()

    def _wait(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = threading.Timer(KEPT_S, self._expire)
        self._timer.daemon = True
        self._timer.start()

    def _expire(self) -> None:
        with self._lock:
            snapshot = self._kept
            rested = snapshot is not None and snapshot.users == 0 and time.monotonic() - self._used >= KEPT_S - 1.0
        if rested:
            self.drop()


def _key(commit: str, embedder: Embedder | None) -> str:
    """Return the key of a snapshot: its commit and its model's fingerprint. So a snapshot that was built without a
    model is not used again once there is a model."""
    return f"{commit} {embedder.fingerprint if embedder else '-'}"
