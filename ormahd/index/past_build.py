"""Making the index of an earlier state: today's is copied, and every file that differs is taken in as it was.

Most notes are what they were, so copying (a few milliseconds a megabyte) and changing the rest is far quicker than
indexing everything, and embeddings are found by the content that they were made of.
"""

from __future__ import annotations

import contextlib
import hashlib
import secrets
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Protocol

from ormahd.core.file_state import FileState
from ormahd.core.note import NoteKind
from ormahd.errors import Unavailable
from ormahd.index import cache, write
from ormahd.index.database import Database
from ormahd.index.embed import Embedder
from ormahd.index.index import Index
from ormahd.index.meaning import Meaning
from ormahd.index.past import Progress
from ormahd.index.rows import micros
from ormahd.settings import VectorSettings

BATCH = 500
"""Files that are taken in together; between two batches it may be interrupted."""
SPARE = 100_000_000
"""Bytes that stay free on the disk."""
DIGESTS = 250_000
"""Blobs whose sha256 is remembered (60 MB at most), so that a second state reads only what it alone has."""


class Files(Protocol):
    """A state of the vault (`vault.states.State`)."""

    @property
    def files(self) -> Mapping[str, str]:
        """{path: blob id}."""
        ...

    def read(self, oids: Sequence[str]) -> Iterator[tuple[str, bytes]]:
        """(blob id, bytes), in order."""
        ...

    def indexed(self, path: str, data: bytes) -> bytes:
        """What the index gets of a file."""
        ...


@dataclass(slots=True)
class Build:
    """Makes one state after the other; what it learns of blobs is kept."""

    index: Index
    folder: Path
    clock: Callable[[], datetime]
    stopped: Callable[[], bool]
    _digests: dict[str, bytes] = field(default_factory=dict)

    def make(self, files: Files, when: datetime, progress: Progress) -> tuple[Database, Meaning | None]:
        """The index of `files`, as of `when`, in a directory of its own; without a meaning while there is no model.

        Raises Unavailable: the disk is too full, or the daemon stops. Then nothing of it is left.
        """
        self._check_room()
        progress(0, 0, "copying")
        directory = self.folder / secrets.token_hex(8)
        self.folder.mkdir(mode=0o700, exist_ok=True)
        directory.mkdir(mode=0o700)
        with contextlib.ExitStack() as undo:
            undo.callback(shutil.rmtree, directory, ignore_errors=True)
            self.index.copy(directory)
            database = Database(directory, durable=False)
            undo.callback(database.close)
            self._take_in(database, files, when, progress)
            embedder = self.index.embedder
            meaning = None if embedder is None else self._understand(database, embedder)
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
            known: dict[str, str] = dict(connection.execute("SELECT path, digest FROM file"))
        wanted = sorted(files.files.items())
        gone = [path for path in known if path not in files.files]
        total = len(wanted)
        entries: list[write.Entry] = []
        for done, (path, data, digest) in enumerate(self._differing(files, wanted, known)):
            one = write.entry(path, files.indexed(path, data), _state(path, data, digest, when))
            if one.note.kind is NoteKind.CONFLICTED:
                gone.append(path)
            else:
                entries.append(one)
            if len(entries) == BATCH:
                self._store(database, entries, ())
                entries = []
                progress(done + 1, total, "reading")
        self._store(database, entries, gone)

    def _differing(
        self, files: Files, wanted: Sequence[tuple[str, str]], known: Mapping[str, str]
    ) -> Iterator[tuple[str, bytes, str]]:
        """(path, bytes, sha256) of each file that is not in the copy as it was."""
        if len(self._digests) > DIGESTS:
            self._digests.clear()
        unsure = [
            (path, oid) for path, oid in wanted
            if oid not in self._digests or self._digests[oid].hex() != known.get(path)
        ]  # fmt: skip
        read = files.read([oid for _, oid in unsure])
        for number, ((path, _), (oid, data)) in enumerate(zip(unsure, read, strict=True)):
            if number % BATCH == 0:
                self._check_stopped()
            digest = hashlib.sha256(data)
            self._digests[oid] = digest.digest()
            if known.get(path) != digest.hexdigest():
                yield path, data, digest.hexdigest()

    def _store(self, database: Database, entries: Sequence[write.Entry], gone: Collection[str]) -> None:
        now = micros(self.clock())
        with database.write() as connection:
            ids = write.store(connection, entries, gone, None)
            for model in cache.models(connection):
                cache.follow(connection, model, ids, now)

    # The meaning

    @staticmethod
    def _understand(database: Database, embedder: Embedder) -> Meaning:
        """The vectors that are known; the other texts wait for a question (`Past.fill`)."""
        meaning = Meaning(embedder, database.directory, VectorSettings())
        with database.write() as connection:
            meaning.load(connection)
        return meaning


def _state(path: str, data: bytes, digest: str, when: datetime) -> FileState:
    """A file that is not on the disk: as old as the state."""
    return FileState(path, len(data), micros(when) * 1000, 0, digest)
