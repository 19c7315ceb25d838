"""Temporary indexes of another state of the vault: an earlier one (`as_of`), or one that a change would produce.

Today's index is copied, and only the files that differ are indexed again. Embeddings are found by content, so few texts
need a new one. A snapshot takes as much disk as the index itself, and is deleted at the end of its question.
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
from typing import Protocol

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
PASS = 32
"""Number of texts in one forward pass. It runs in the calling thread, which leaves other cores to other requests."""

Progress = Callable[[int, int, str], None]
"""Callback that reports progress: (number of items done, total or 0 if unknown, name of the work)."""


class IndexSnapshot(Reader):
    """Reads and searches a copy of the index, made for one state of the vault, for example of an earlier commit. Its
    notes never change. Texts without embeddings are embedded when questions need them."""

    def __init__(self, index: Index, database: Database, strength: Mapping[str, Strength]) -> None:
        """`index`: today's index. `database`: the copy. `strength`: that of the state."""
        indexer = Indexer(database, threading.Lock(), index.clock)  # its thread is not started: `fill` embeds instead
        if index.embedder is not None:
            indexer.active = VectorStore(index.embedder, database.directory, VectorSettings())
            with database.write() as connection:
                indexer.active.load(connection)
        super().__init__(database, indexer)
        self.strength = strength
        self._index = index

    @property
    def degraded(self) -> list[str]:
        """["vectors"] if some notes can only be found by full text search, else []."""
        active = self.indexer.active
        return ["vectors"] if active is None or active.waiting else []

    def fill(self, terms: Sequence[str], progress: Progress, *, stopped: Callable[[], bool] = lambda: False) -> None:
        """Embed texts that have no vectors yet: first those of notes that share words with the query `terms`, then
        the newest. Stops after `EMBEDDED` texts or `EMBED_S`, or when `stopped` returns True."""
        store = self.indexer.active
        if store is None or not store.waiting:
            return
        end = time.monotonic() + EMBED_S
        near = [node_id for node_id, _ in self.search_text(terms, CANDIDATES) if node_id in store.waiting]
        chosen = list(dict.fromkeys([*near, *store.waiting]))[:EMBEDDED]
        for at in range(0, len(chosen), PASS):
            if time.monotonic() >= end or stopped():
                break
            progress(at, len(chosen), "embedding")
            self._embed(store, chosen[at : at + PASS])

    def _embed(self, store: VectorStore, ids: Sequence[str]) -> None:
        with self.database.read() as connection:
            sources = {one.sha: one for one in embedding_cache.sources(connection, ids).values()}
        made = embedding_cache.embed(store.embedder, sources.values(), urgent=True)
        now = micros(self._index.clock())
        with self.database.write() as connection:
            embedding_cache.put(connection, store.number, made, now)
            delta = embedding_cache.follow(connection, store.number, ids, now)
        store.take(delta)
        self._index.keep_vectors(store.embedder.fingerprint, made)


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


FOLDER = "as-of"
"""Name of the folder for snapshots, below the index's directory."""


class Snapshots:
    """Builds snapshots of the index, one at a time: further threads wait."""

    def __init__(self, index: Index, *, stopping: Callable[[], bool] = lambda: False) -> None:
        """`stopping` is called during a build; if it returns True, the build ends."""
        self._index = index
        self._stopping = stopping
        self._folder = index.directory / FOLDER
        shutil.rmtree(self._folder, ignore_errors=True)  # left by an earlier process
        self._one = threading.Lock()
        self._closed = False

    @contextlib.contextmanager
    def at(
        self, when: datetime, load: Callable[[], tuple[Files, Mapping[str, Strength]]], progress: Progress
    ) -> Iterator[IndexSnapshot]:
        """Context manager: yield the index as of a commit made at `when`; `load` returns the files and the strength
        of that state. It is deleted when the block ends.

        Raises Unavailable if the disk is too full, or if the daemon is stopping.
        """
        with self._one, self._copy() as database:
            progress(0, 0, "copying")
            files, strength = load()
            self._take_in(database, files, when, progress)
            with self._opened(database, strength) as snapshot:
                yield snapshot

    @contextlib.contextmanager
    def trial(self, changed: Mapping[str, bytes], when: datetime) -> Iterator[IndexSnapshot]:
        """Context manager: yield the index as it would be if some files of the present vault changed (`changed`: path
        -> new bytes). It is deleted when the block ends.

        Texts whose embeddings are stored in the index have vectors, also new texts after `Index.embed_ahead`. Raises
        what `at` raises.
        """
        entries = [write.entry(path, data, _state(path, data, when)) for path, data in changed.items()]
        with self._one, self._copy() as database:
            self._store(database, entries, ())
            with self._opened(database, self._index.strength) as snapshot:
                yield snapshot

    @contextlib.contextmanager
    def _copy(self) -> Iterator[Database]:
        """Context manager: yield a copy of the index, in a new directory that is deleted at the end."""
        needed = 2 * self._index.database.bytes() + SPARE
        free = shutil.disk_usage(self._index.directory).free
        if free < needed:
            raise Unavailable(
                f"there is no room to look back: {free // 1_000_000:,} MB are free below {self._index.directory}, "
                f"it takes {needed // 1_000_000:,} MB for a while",
                hint="free some disk space; `git show` and `git grep` in the vault look back without an index",
            )
        directory = self._folder / secrets.token_hex(8)
        self._folder.mkdir(mode=0o700, exist_ok=True)
        directory.mkdir(mode=0o700)
        try:
            self._index.database.copy(directory)
            with contextlib.closing(Database(directory, durable=False)) as database:
                yield database
        finally:
            shutil.rmtree(directory, ignore_errors=True)

    @contextlib.contextmanager
    def _opened(self, database: Database, strength: Mapping[str, Strength]) -> Iterator[IndexSnapshot]:
        snapshot = IndexSnapshot(self._index, database, strength)
        try:
            yield snapshot
        finally:
            snapshot.close()
            snapshot.indexer.active = None  # frees the RAM of its vectors at once

    def _take_in(self, database: Database, files: Files, when: datetime, progress: Progress) -> None:
        with database.read() as connection:
            # Read as one JSON value: while rows are fetched one by one, other threads interrupt at each of them.
            (known,) = connection.execute("SELECT json_group_object(path, blob) FROM file").fetchone()
        before: dict[str, str] = json.loads(known)
        gone = [path for path in before if path not in files.files]
        differing = sorted((path, oid) for path, oid in files.files.items() if before.get(path) != oid)
        entries: list[write.ParsedFile] = []
        for number, ((path, oid), data) in enumerate(zip(differing, files.read(differing), strict=True)):
            one = write.entry(path, data, _state(path, data, when), blob=oid)
            if one.note.kind is NoteKind.CONFLICTED:
                gone.append(path)
            else:
                entries.append(one)
            if len(entries) == BATCH:
                if self.stopped():
                    raise Unavailable("the daemon is stopping", hint="ask again when it runs")
                self._store(database, entries, ())
                entries = []
                progress(number + 1, len(differing), "reading")
        self._store(database, entries, gone)

    def _store(self, database: Database, entries: Sequence[write.ParsedFile], gone: Collection[str]) -> None:
        now = micros(self._index.clock())
        with database.write() as connection:
            ids = write.store(connection, entries, gone)
            for model in embedding_cache.models(connection):
                embedding_cache.follow(connection, model, ids, now)

    def stopped(self) -> bool:
        """Return whether a build must end because the daemon is stopping."""
        return self._closed or self._stopping()

    def close(self) -> None:
        """Have a running build end, and wait until its snapshot is deleted."""
        self._closed = True
        with self._one:
            pass


def _state(path: str, data: bytes, when: datetime) -> FileState:
    """Return the state of a file that is not on the disk; its mtime is `when`, the time of the snapshot."""
    return FileState(path, len(data), micros(when) * 1000, 0, hashlib.sha256(data).hexdigest())
