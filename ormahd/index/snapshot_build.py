"""Making the index of another state: today's is copied, and every file that differs is taken in as it was, or would be.

Most notes are what they were, so copying (a few milliseconds a megabyte) and changing the rest is far quicker than
indexing everything, and embeddings are found by the content that they were made of.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import secrets
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from ormahd.embedding.embedder import Embedder
from ormahd.errors import Unavailable
from ormahd.index import embedding_cache, write
from ormahd.index.database import Database
from ormahd.index.index import Index
from ormahd.index.rows import micros
from ormahd.index.snapshot import Progress
from ormahd.index.vector_store import Meaning
from ormahd.model.file_state import FileState
from ormahd.note.note import NoteKind
from ormahd.settings import VectorSettings

BATCH = 500
"""Files that are taken in together; between two batches it may be interrupted."""
SPARE = 100_000_000
"""Bytes that stay free on the disk."""


class Files(Protocol):
    """A state of the vault (`watch.snapshot_files.State`)."""

    @property
    def files(self) -> Mapping[str, str]:
        """{path: blob id}."""
        ...

    def read(self, files: Sequence[tuple[str, str]]) -> Iterator[bytes]:
        """The bytes of files, (path, blob id), in order."""
        ...

    def indexed(self, path: str, data: bytes) -> bytes:
        """What the index gets of a file."""
        ...

    def lent(self, path: str, data: bytes) -> tuple[str | None, str | None]:
        """Id of a file that is only found (None: it is not one of those), and the space of its folder."""
        ...


class Build(Struct):
    """Makes one state after the other."""

    index: Index
    folder: Path
    clock: Callable[[], datetime]
    stopped: Callable[[], bool]

    def make(self, files: Files, when: datetime, progress: Progress) -> tuple[Database, Meaning | None]:
        """The index of `files`, as of `when`, in a directory of its own; without a meaning while there is no model.

        Raises Unavailable: the disk is too full, or the daemon stops. Then nothing of it is left.
        """
        progress(0, 0, "copying")
        return self._copied(lambda database: self._take_in(database, files, when, progress))

    def trial(self, changed: Mapping[str, bytes], when: datetime) -> tuple[Database, Meaning | None]:
        """Today's index as it would be with these files (by path), likewise."""
        entries = [
            write.entry(path, data, _state(path, data, when), self.index.blob_id(path, data))
            for path, data in changed.items()
        ]
        return self._copied(lambda database: self._store(database, entries, ()))

    def _copied(self, change: Callable[[Database], None]) -> tuple[Database, Meaning | None]:
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
            meaning = None if embedder is None else self._understand(database, embedder)
            database.give_back()
            undo.pop_all()
        return database, meaning

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
            # One value: where rows are fetched one by one, other threads take a turn at each of them.
            (known,) = connection.execute("SELECT json_group_object(path, blob) FROM file").fetchone()
        before: dict[str, str] = json.loads(known)
        gone = [path for path in before if path not in files.files]
        differing = sorted((path, oid) for path, oid in files.files.items() if before.get(path) != oid)
        entries: list[write.Entry] = []
        for number, ((path, oid), data) in enumerate(zip(differing, files.read(differing), strict=True)):
            one = write.entry(path, files.indexed(path, data), _state(path, data, when, *files.lent(path, data)), oid)
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

    def _store(self, database: Database, entries: Sequence[write.Entry], gone: Collection[str]) -> None:
        now = micros(self.clock())
        with database.write() as connection:
            ids = write.store(connection, entries, gone, self.index.first_path).ids
            for model in embedding_cache.models(connection):
                embedding_cache.follow(connection, model, ids, now)

    # The meaning

    @staticmethod
    def _understand(database: Database, embedder: Embedder) -> Meaning:
        """The vectors that are known; the other texts wait for a question (`Past.fill`)."""
        meaning = Meaning(embedder, database.directory, VectorSettings())
        with database.write() as connection:
            meaning.load(connection)
        return meaning


def _state(path: str, data: bytes, when: datetime, lent: str | None = None, space: str | None = None) -> FileState:
    """A file that is not on the disk: as old as the state."""
    return FileState(path, len(data), micros(when) * 1000, 0, hashlib.sha256(data).hexdigest(), lent, space)
