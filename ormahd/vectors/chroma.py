"""Chroma: which vectors are near, quickly. The only module that knows it.

Chroma holds nothing that SQLite does not: it may be dropped at any time and is then filled again from the embedding
cache, without embedding anything. Who wrote last is told by two marks that both sides keep: `generation` (drawn when
the collection is made) and `position` (counted up with each write).

Measured here at 10,000 vectors: 0.6 ms a vector to add, 30 ms for any single write, 1.5 ms a query, 2.3 KB each on
disk. So writes are gathered and made in the background, and until then the exact vectors answer (`search.py`).
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import threading
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from ormahd.embedding.token_vectors import Float
from ormahd.process import own_files
from ormahd.settings import VectorSettings

SEARCH_EF = 200
"""Candidates that the nearest-neighbour graph keeps while searching; more finds more and takes longer."""
SYNC_THRESHOLD = 1000
"""Writes after which Chroma saves its graph. Small values write the graph again and again (MemPalace #2106)."""
UNCLEAN_ENDS = 3
"""Ends of the process in a row without closing or settling, after which Chroma is suspected of causing them."""
BLOAT = 3.0
"""Times the bytes that the living vectors need, from which the graph is built anew (deleted ones are never freed)."""
BYTES_PER_VECTOR = 2500
_ROOM = 20_000_000
_PAGE = 2000

log = logging.getLogger(__name__)


class ChromaTrouble(Exception):
    """Chroma failed. Whoever meets it drops the collection, or does without."""


@contextlib.contextmanager
def _guarded(what: str) -> Iterator[None]:
    """Whatever the native library raises becomes ChromaTrouble; a Rust panic is no `Exception`, but ends nothing."""
    try:
        yield
    except BaseException as error:
        if isinstance(error, Exception) or type(error).__name__ == "PanicException":
            raise ChromaTrouble(f"Chroma failed to {what}: {type(error).__name__}: {error}") from error
        raise


class Chroma:
    """One collection: pieces of notes by `<node id>:<n>`, cosine space. One thread writes, any may search."""

    def __init__(self, directory: Path, settings: VectorSettings, fingerprint: str) -> None:
        self._directory = directory / "chroma"
        self._mark = directory / "chroma.unclean"
        self._settings = settings
        owner = hashlib.sha256(directory.name.encode()).hexdigest()[:8]
        self._name = f"ormah-{owner}-{hashlib.sha256(fingerprint.encode()).hexdigest()[:16]}"
        self._client: Any = None
        self._collection: Any = None
        self._lock = threading.Lock()

    @property
    def embedded(self) -> bool:
        return self._settings.url is None

    def open(self) -> tuple[str, int] | None:
        """Open the collection; its generation and position, or None when there is none (or none that works)."""
        self._shut()
        if self.embedded:
            with _guarded("open"):
                self._clear()
                self._count_start()
        try:
            return self._open()
        except ChromaTrouble as trouble:
            if not self.embedded:
                raise
            log.warning("%s; it is filled again", trouble)
            self._shut()
            _forget_failed(self._directory)
            self._remove()
            return self._open()

    def _open(self) -> tuple[str, int] | None:
        with _guarded("open"):
            import chromadb
            from chromadb.errors import NotFoundError

            self._client = _client(chromadb, self._directory, self._settings)
            try:
                collection = self._client.get_collection(self._name, embedding_function=None)
            except NotFoundError:
                return None
            marks = collection.metadata or {}
            if collection.configuration_json["hnsw"]["ef_search"] != SEARCH_EF:
                collection.modify(configuration={"hnsw": {"ef_search": SEARCH_EF}})
            if collection.count():  # loads the graph: damage shows here, and the first question need not wait
                near = collection.get(limit=1, include=["embeddings"])["embeddings"]
                collection.query(query_embeddings=near, n_results=1, include=["distances"])
            self._collection = collection
        try:
            return str(marks["generation"]), int(marks["position"])
        except (KeyError, TypeError, ValueError):
            return None

    def make(self) -> str:
        """Make the collection anew, empty, at position 0; returns its generation."""
        with _guarded("make a collection"):
            from chromadb.errors import NotFoundError

            with contextlib.suppress(NotFoundError):
                self._client.delete_collection(self._name)
            generation = uuid.uuid4().hex
            self._collection = self._client.create_collection(
                self._name,
                embedding_function=None,
                metadata={"generation": generation, "position": 0},
                configuration={
                    "hnsw": {
                        "space": "cosine",
                        "ef_search": SEARCH_EF,
                        "sync_threshold": SYNC_THRESHOLD,
                    }
                },
            )
        return generation

    def wipe(self) -> None:
        """Drop the files of an embedded Chroma: it never frees what it was told to delete. Of a server, the collection
        goes when the next one is made."""
        with self._lock:
            self._shut()
            if self.embedded:
                _forget_failed(self._directory)
                self._remove()

    def drop_others(self) -> None:
        """Remove collections of other models of this index."""
        with _guarded("drop old collections"):
            prefix = self._name[: self._name.rindex("-") + 1]
            for collection in self._client.list_collections():
                if collection.name.startswith(prefix) and collection.name != self._name:
                    self._client.delete_collection(collection.name)

    def write(self, ids: Sequence[str], vectors: Float, gone: Sequence[str], generation: str, position: int) -> None:
        """Set vectors (float32[n, dimensions]), delete ids, and note the position reached."""
        with self._lock, _guarded("write"):
            if gone:
                self._collection.delete(ids=list(gone))
            if len(ids):
                self._collection.upsert(ids=list(ids), embeddings=vectors)
            self._collection.modify(metadata={"generation": generation, "position": position})

    def search(self, vector: Float, limit: int) -> list[str]:
        """Ids of the nearest pieces, best first; fewer than `limit` only when the collection holds no more."""
        collection = self._collection
        with _guarded("search"):
            found = collection.query(
                query_embeddings=np.asarray(vector, np.float32)[None], n_results=limit, include=["distances"]
            )
        return list(found["ids"][0])

    def count(self) -> int:
        with _guarded("count"):
            return int(self._collection.count())

    def contents(self) -> Iterator[tuple[str, Float]]:
        """Every id with its vector, for `verify`."""
        offset = 0
        while True:
            with self._lock, _guarded("read"):  # a write half-way shows ids whose vectors are not there yet
                page = self._collection.get(limit=_PAGE, offset=offset, include=["embeddings"])
            yield from zip(page["ids"], np.asarray(page["embeddings"], np.float32), strict=True)
            if len(page["ids"]) < _PAGE:
                return
            offset += _PAGE

    def bytes(self) -> int:
        """Bytes on this machine's disk."""
        return sum(file.stat().st_size for file in self._directory.rglob("*") if file.is_file())

    def bloated(self, pieces: int) -> bool:
        return self.embedded and self.bytes() > BLOAT * BYTES_PER_VECTOR * pieces + _ROOM

    def settled(self) -> None:
        """Called when everything is written: whatever ended the process before, Chroma has proved itself."""
        if self.embedded:
            with contextlib.suppress(OSError):
                own_files.remove(self._mark)

    def close(self) -> None:
        self._shut()
        if self.embedded:
            with contextlib.suppress(OSError):
                own_files.remove(self._mark)

    def _shut(self) -> None:
        client, self._client, self._collection = self._client, None, None
        if client is not None:
            with contextlib.suppress(ChromaTrouble), _guarded("close"):
                client.close()

    def _clear(self) -> None:
        """Drop what is no folder of files: Chroma would wait for a FIFO for ever."""
        for path in (self._directory, self._mark):
            there = own_files.kind(path)
            wanted = "a folder" if path == self._directory else "a file"
            if there not in {None, wanted}:
                log.warning("%s stood in the place of %s; Chroma is filled again", there, path)
                own_files.remove(path)
        odd = next(own_files.irregular(self._directory), None)
        if odd is not None:
            log.warning("%s stood in the place of %s; Chroma is filled again", own_files.kind(odd), odd)
            self._remove()

    def _count_start(self) -> None:
        """A crash inside the native library would end every start anew; after a few the files are given up."""
        try:
            ends = int(own_files.read(self._mark))
        except (OSError, ValueError):
            ends = 0
        if ends >= UNCLEAN_ENDS:
            log.warning("the process ended %d times without closing Chroma: it is filled again", ends)
            self._remove()
            ends = 0
        self._mark.write_text(str(ends + 1))

    def _remove(self) -> None:
        with contextlib.suppress(OSError):
            own_files.remove(self._directory)


def _forget_failed(directory: Path) -> None:
    """Chroma keeps what it made for a path, also when that failed to start, and would give it out again."""
    from chromadb.api.shared_system_client import SharedSystemClient

    for kept in ("_identifier_to_system", "_identifier_to_refcount"):
        getattr(SharedSystemClient, kept, {}).pop(str(directory), None)


def _client(chromadb: Any, directory: Path, settings: VectorSettings) -> Any:
    # Without `_env_file` Chroma reads a `.env` in the working directory, whoever's that may be.
    options = chromadb.config.Settings(_env_file=None, anonymized_telemetry=False, allow_reset=False)
    if settings.url is None:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        return chromadb.PersistentClient(path=str(directory), settings=options)
    host, port, secure = _address(settings.url)
    return chromadb.HttpClient(host=host, port=port, ssl=secure, settings=options)


def server_of(url: str | None) -> str | None:
    """Host and port of a Chroma server, to be shown: a name and a password in its address are left out. None: no server."""
    if url is None:
        return None
    host, port, _ = _address(url)
    return f"[{host}]:{port}" if host and ":" in host else f"{host}:{port}"


def _address(url: str) -> tuple[str | None, int, bool]:
    """Host, port, and whether the connection is encrypted."""
    parts = urlsplit(url)
    secure = parts.scheme == "https"
    return parts.hostname, parts.port or (443 if secure else 8000), secure
