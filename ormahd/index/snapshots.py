"""Temporary indexes of another state of the vault: an earlier one (`as_of`), or one that a change would produce.

Today's index is copied, and the files that differ are applied to the copy. Embeddings are found by content, so few texts
need a new one. A snapshot takes as much disk as the index itself, and is deleted at the end of its question.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime

from ormahd.errors import Unavailable
from ormahd.index.database import SCRATCH, Database, scratch
from ormahd.index.index import Index
from ormahd.index.rows import micros
from ormahd.index.verify import Progress
from ormahd.model.change import FileState
from ormahd.model.node import Strength
from ormahd.note.read import parse
from ormahd.note.values import NoteKind
from ormahd.process import sql
from ormahd.settings import VectorSettings

BATCH = 500
"""Number of files indexed in one transaction. Between two transactions the build can be stopped."""
SPARE = 100_000_000
"""Bytes that must stay free on the disk."""
EMBEDDED = 500
"""Maximum number of texts that are embedded for one question."""
EMBED_S = 5.0
"""Seconds that a question waits for embedding. Texts that are not embedded by then are found by full text search
only."""
CANDIDATES = 100
"""Maximum number of notes that are embedded before all others, because they share words with the question."""
EMBED_BATCH = 32
"""Number of texts that are embedded at once."""


class Snapshots:
    """Builds snapshots of the index, one at a time: further threads wait."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self.stopping = threading.Event()
        """When it is set, a running build ends."""
        shutil.rmtree(index.directory / SCRATCH, ignore_errors=True)  # left by an earlier process
        self._building = threading.Lock()

    @contextlib.contextmanager
    def at(
        self,
        when: datetime,
        files: Mapping[str, str],
        read: Callable[[str], bytes],
        strength: Mapping[str, Strength],
        progress: Progress,
        *,
        terms: Sequence[str] | None = None,
    ) -> Iterator[Index]:
        """Context manager: yield the index as of a commit made at `when`. It is deleted when the block ends.

        `files`: path -> blob id of each file of that commit. `read`: returns the bytes of a blob. `strength`: the
        strength of the nodes at that time. `terms`: words of the question that will be asked; texts without vectors are
        embedded for it (None: none is).

        Raises Unavailable if the disk is too full, or if the daemon is stopping.
        """
        with self._building, self._copy() as snapshot:
            progress(0, 0, "copying")
            snapshot.strength = strength
            with snapshot.database.read() as connection:
                # Read as one JSON value: while rows are fetched one by one, other threads interrupt at each of them.
                (known,) = connection.execute("SELECT json_group_object(path, blob) FROM file").fetchone()

            # Remove the files that this state lacks, and apply those that differ.
            before: dict[str, str] = json.loads(known)
            differing = sorted((path, oid) for path, oid in files.items() if before.get(path) != oid)
            snapshot.apply({}, before.keys() - files.keys(), head=None)
            for done, batch in zip(range(0, len(differing), BATCH), sql.chunks(differing, BATCH), strict=True):
                if self.stopping.is_set():
                    raise Unavailable("the daemon is stopping", hint="ask again when it runs")
                blobs = {path: read(oid) for path, oid in batch}
                notes = {path: parse(data, path) for path, data in blobs.items()}
                # Of a file with conflict markers, `apply` would keep today's version.
                conflicted = [path for path, note in notes.items() if note.kind is NoteKind.CONFLICTED]
                usable = {path: data for path, data in blobs.items() if path not in conflicted}
                upserts = {path: (data, _state_at(path, data, when)) for path, data in usable.items()}
                snapshot.apply(upserts, conflicted, head=None, notes=notes)
                progress(done + len(batch), len(differing), "reading")
            self._attach_model(snapshot)
            if terms is not None:
                self._embed_for(snapshot, terms, progress)
            yield snapshot

    @contextlib.contextmanager
    def trial(self, changed: Mapping[str, bytes], when: datetime) -> Iterator[Index]:
        """Context manager: yield the index as it would be with some files of the present vault changed (`changed`: path
        -> new bytes). It is deleted when the block ends.

        A text has vectors if the index stores its embedding, also a new text after `Index.embed_ahead`. Raises what
        `at` raises.
        """
        with self._building, self._copy() as snapshot:
            snapshot.strength = self._index.strength
            snapshot.apply({path: (data, _state_at(path, data, when)) for path, data in changed.items()}, (), head=None)
            self._attach_model(snapshot)
            yield snapshot

    @contextlib.contextmanager
    def _copy(self) -> Iterator[Index]:
        """Context manager: yield a copy of the index, in a new directory that is deleted at the end."""
        needed = 2 * self._index.database.bytes() + SPARE
        free = shutil.disk_usage(self._index.directory).free
        if free < needed:
            raise Unavailable(
                f"there is no room to look back: {free // 1_000_000:,} MB are free below {self._index.directory}, "
                f"it takes {needed // 1_000_000:,} MB for a while",
                hint="free some disk space; `git show` and `git grep` in the vault look back without an index",
            )
        with scratch(self._index.directory) as directory:
            self._index.database.copy(directory)
            database = Database(directory, durable=False)
            snapshot = Index(database, VectorSettings(), self._index.clock, background=False)
            try:
                yield snapshot
            finally:
                snapshot.close()
                snapshot.active = None  # frees the RAM of its vectors at once

    def _attach_model(self, snapshot: Index) -> None:
        """Give a snapshot the model of the index, if it has one."""
        if self._index.embedder is not None:
            snapshot.attach(self._index.embedder)

    def _embed_for(self, snapshot: Index, terms: Sequence[str], progress: Progress) -> None:
        """Embed texts of a snapshot that have no vectors: first those of notes that share words with the question
        `terms`, then the newest. Stops after `EMBEDDED` texts or `EMBED_S`. Today's index keeps the embeddings."""
        if snapshot.active is None or not snapshot.active.waiting:
            return
        end = time.monotonic() + EMBED_S
        waiting = snapshot.active.waiting
        near = [node_id for node_id, _ in snapshot.search_text(terms, CANDIDATES) if node_id in waiting]
        chosen = list(dict.fromkeys([*near, *waiting]))[:EMBEDDED]
        for at in range(0, len(chosen), EMBED_BATCH):
            if time.monotonic() >= end or self.stopping.is_set():
                break
            progress(at, len(chosen), "embedding")
            made = snapshot.embed_waiting(chosen[at : at + EMBED_BATCH], urgent=True)
            self._index.keep_vectors(snapshot.active.embedder.fingerprint, made)

    def close(self) -> None:
        """Have a running build end, and wait until its snapshot is deleted."""
        self.stopping.set()
        with self._building:
            pass


def _state_at(path: str, data: bytes, when: datetime) -> FileState:
    """Return the state of a file that is not on the disk. Its mtime is `when`, the time of the snapshot."""
    return FileState(path, len(data), micros(when) * 1000, 0, hashlib.sha256(data).hexdigest())
