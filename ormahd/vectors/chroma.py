"""Chroma, an approximate nearest-neighbour index of vectors. The only module that imports it.

Chroma holds nothing that SQLite does not: it may be dropped at any time, and is filled again from the embedding cache
without embedding anything. Two marks, kept on both sides, tell whether Chroma is in the state last written:
`generation` (random, set when the collection is made) and `position` (incremented by each write).

Single writes are slow, so they are batched in the background; until then the matrix in memory is searched exactly.
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
"""Number of candidates that the HNSW graph keeps during a search. More gives better recall and takes longer."""
SYNC_THRESHOLD = 1000
"""Number of writes after which Chroma saves its graph. Small values make it rewrite the graph often (MemPalace
#2106)."""
UNCLEAN_ENDS = 3
"""If the process ended so many times in a row without closing Chroma, Chroma may be the cause, and its files are
deleted."""
BLOAT = 3.0
"""The graph is rebuilt if its files take so many times what the current vectors need: Chroma never frees deleted
vectors."""
BYTES_PER_VECTOR = 2500
_ROOM = 20_000_000
_PAGE = 2000

log = logging.getLogger(__name__)


class ChromaTrouble(Exception):
    """Chroma failed. The caller drops the collection, or continues without it."""


@contextlib.contextmanager
def _guarded(what: str) -> Iterator[None]:
    """Turn whatever the native library raises into ChromaTrouble, including Rust panics, which are no `Exception`."""
    try:
        yield
    except BaseException as error:
        if isinstance(error, Exception) or type(error).__name__ == "PanicException":
            raise ChromaTrouble(f"Chroma failed to {what}: {type(error).__name__}: {error}") from error
        raise


class Chroma:
    """One collection of pieces, with ids `<node id>:<n>`, in cosine space. One thread writes, any may search."""

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
        """Open the collection. Return its generation and position, or None if there is no usable one. Raises
        ChromaTrouble."""
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
            if collection.count():  # load the graph now: damage shows here, and the first search is fast
                near = collection.get(limit=1, include=["embeddings"])["embeddings"]
                collection.query(query_embeddings=near, n_results=1, include=["distances"])
            self._collection = collection
        try:
            return str(marks["generation"]), int(marks["position"])
        except (KeyError, TypeError, ValueError):
            return None

    def make(self) -> str:
        """Replace the collection by an empty one at position 0. Return its generation."""
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
        """Delete the files of an embedded Chroma, which never frees deleted vectors. On a server, `make` deletes the
        collection."""
        with self._lock:
            self._shut()
            if self.embedded:
                _forget_failed(self._directory)
                self._remove()

    def drop_others(self) -> None:
        """Delete collections of other models of this index."""
        with _guarded("drop old collections"):
            prefix = self._name[: self._name.rindex("-") + 1]
            for collection in self._client.list_collections():
                if collection.name.startswith(prefix) and collection.name != self._name:
                    self._client.delete_collection(collection.name)

    def write(self, ids: Sequence[str], vectors: Float, gone: Sequence[str], generation: str, position: int) -> None:
        """Set vectors (float32[n, dimensions]) by id, delete the ids `gone`, and store the position reached."""
        with self._lock, _guarded("write"):
            if gone:
                self._collection.delete(ids=list(gone))
            if len(ids):
                self._collection.upsert(ids=list(ids), embeddings=vectors)
            self._collection.modify(metadata={"generation": generation, "position": position})

    def search(self, vector: Float, limit: int) -> list[str]:
        """Return the ids of the nearest pieces, best first; fewer than `limit` only if the collection holds fewer."""
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
        """Yield every id with its vector, for `verify`."""
        offset = 0
        while True:
            with self._lock, _guarded("read"):  # during a write there are ids without vectors
                page = self._collection.get(limit=_PAGE, offset=offset, include=["embeddings"])
            yield from zip(page["ids"], np.asarray(page["embeddings"], np.float32), strict=True)
            if len(page["ids"]) < _PAGE:
                return
            offset += _PAGE

    def bytes(self) -> int:
        """Return the bytes that the collection takes on this machine's disk."""
        return sum(file.stat().st_size for file in self._directory.rglob("*") if file.is_file())

    def bloated(self, pieces: int) -> bool:
        return self.embedded and self.bytes() > BLOAT * BYTES_PER_VECTOR * pieces + _ROOM

    def settled(self) -> None:
        """Forget unclean ends of the process: called when everything is written, which shows that Chroma works."""
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
        """Delete anything at Chroma's paths that is not a regular file or folder: Chroma would block on a FIFO for
        ever."""
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
        """Count this start. After several without a clean close the files are deleted, because a crash in Chroma would
        repeat."""
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
    """Remove Chroma's cached client for this path: it is cached even if it failed to start, and would be returned
    again."""
    from chromadb.api.shared_system_client import SharedSystemClient

    for kept in ("_identifier_to_system", "_identifier_to_refcount"):
        getattr(SharedSystemClient, kept, {}).pop(str(directory), None)


def _client(chromadb: Any, directory: Path, settings: VectorSettings) -> Any:
    # Otherwise Chroma reads any `.env` in the working directory.
    options = chromadb.config.Settings(_env_file=None, anonymized_telemetry=False, allow_reset=False)
    if settings.url is None:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        return chromadb.PersistentClient(path=str(directory), settings=options)
    host, port, secure = _address(settings.url)
    return chromadb.HttpClient(host=host, port=port, ssl=secure, settings=options)


def server_of(url: str | None) -> str | None:
    """Return host and port of a Chroma server, for display, without a name or password in its URL; None without a
    server."""
    if url is None:
        return None
    host, port, _ = _address(url)
    return f"[{host}]:{port}" if host and ":" in host else f"{host}:{port}"


def _address(url: str) -> tuple[str | None, int, bool]:
    """Return host, port, and whether the connection uses TLS."""
    parts = urlsplit(url)
    secure = parts.scheme == "https"
    return parts.hostname, parts.port or (443 if secure else 8000), secure
