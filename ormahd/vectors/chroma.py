"""Chroma, an approximate nearest-neighbour index of vectors. No other module imports it.

Everything in Chroma is also in SQLite: its files may be deleted at any time, and it is filled again from the embedding
cache without embedding anything. Two values, stored in Chroma and in SQLite, show whether Chroma is in the state last
written: `generation` (random, set when the collection is created) and `position` (incremented by each write).

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
"""The number of candidates that a search of the HNSW graph keeps. More of them give better recall and take longer."""
SYNC_THRESHOLD = 1000
"""The number of writes after which Chroma saves its graph. With small values it rewrites the graph often (MemPalace
#2106)."""
BLOAT = 3.0
"""The graph is rebuilt if its files take so many times the space that the current vectors need, because Chroma never
frees deleted vectors."""
BYTES_PER_VECTOR = 2500
_ROOM = 20_000_000
_PAGE = 2000

log = logging.getLogger(__name__)


class ChromaTrouble(Exception):
    """Chroma failed. The caller deletes Chroma's files and fills Chroma again, or continues without it."""


@contextlib.contextmanager
def _guarded(what: str) -> Iterator[None]:
    """Context manager: raise ChromaTrouble for any error of Chroma in the block, including Rust panics, which are no
    `Exception`.

    `what`: the verb for the message, as in "Chroma failed to {what}".
    """
    try:
        yield
    except BaseException as error:
        if isinstance(error, Exception) or type(error).__name__ == "PanicException":
            raise ChromaTrouble(f"Chroma failed to {what}: {type(error).__name__}: {error}") from error
        raise


class Chroma:
    """Stores the vectors of pieces in one collection of Chroma, under the ids `<node id>:<n>`, and finds the nearest
    by cosine.

    Only one thread may write; any thread may search.
    """

    def __init__(self, directory: Path, settings: VectorSettings, fingerprint: str) -> None:
        self._directory = directory / "chroma"
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
        """Open the collection. Return its (generation, position), as stored by `write`; None if there is no
        collection yet, or it lacks them.

        If an embedded Chroma fails, its files are deleted, and it is opened again. Raises ChromaTrouble.
        """
        self._shut()
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
        """Create an empty collection at position 0, in place of the present one. Return its generation, a new random
        id."""
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
        """Close Chroma and, if it is embedded, delete its files: it never frees the space of deleted vectors itself."""
        with self._lock:
            self._shut()
            if self.embedded:
                _forget_failed(self._directory)
                self._remove()

    def drop_others(self) -> None:
        """Delete the other collections of the same vault, which hold vectors of other embedding models."""
        with _guarded("drop old collections"):
            prefix = self._name[: self._name.rindex("-") + 1]
            for collection in self._client.list_collections():
                if collection.name.startswith(prefix) and collection.name != self._name:
                    self._client.delete_collection(collection.name)

    def write(self, ids: Sequence[str], vectors: Float, gone: Sequence[str], generation: str, position: int) -> None:
        """Delete the ids `gone`, set the vector of each of `ids` (`vectors`: float32[n, dimensions]), and store
        `generation` (see `make`) and `position`, the caller's number of this write."""
        with self._lock, _guarded("write"):
            if gone:
                self._collection.delete(ids=list(gone))
            if len(ids):
                self._collection.upsert(ids=list(ids), embeddings=vectors)
            self._collection.modify(metadata={"generation": generation, "position": position})

    def search(self, vector: Float, limit: int) -> list[str]:
        """Return the ids of the `limit` nearest pieces, nearest first; fewer only if the collection has fewer."""
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
        """Yield (id, vector) of every piece, for `verify`."""
        offset = 0
        while True:
            with self._lock, _guarded("read"):  # during a write there are ids without vectors
                page = self._collection.get(limit=_PAGE, offset=offset, include=["embeddings"])
            yield from zip(page["ids"], np.asarray(page["embeddings"], np.float32), strict=True)
            if len(page["ids"]) < _PAGE:
                return
            offset += _PAGE

    def bytes(self) -> int:
        """Return the size of the files of an embedded Chroma, in bytes."""
        return sum(file.stat().st_size for file in self._directory.rglob("*") if file.is_file())

    def bloated(self, pieces: int) -> bool:
        return self.embedded and self.bytes() > BLOAT * BYTES_PER_VECTOR * pieces + _ROOM

    def close(self) -> None:
        self._shut()

    def _shut(self) -> None:
        client, self._client, self._collection = self._client, None, None
        if client is not None:
            with contextlib.suppress(ChromaTrouble), _guarded("close"):
                client.close()

    def _remove(self) -> None:
        with contextlib.suppress(OSError):
            own_files.remove(self._directory)


def _forget_failed(directory: Path) -> None:
    """Remove the client for `directory` from Chroma's cache. Chroma caches a client even if it failed to start, and
    would return the failed one again."""
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
    """Return `host:port` of a Chroma server's URL, without user name and password, for display; None without a URL."""
    if url is None:
        return None
    host, port, _ = _address(url)
    return f"[{host}]:{port}" if host and ":" in host else f"{host}:{port}"


def _address(url: str) -> tuple[str | None, int, bool]:
    """Return (host, port, whether to use TLS) of a Chroma server's URL."""
    parts = urlsplit(url)
    secure = parts.scheme == "https"
    return parts.hostname, parts.port or (443 if secure else 8000), secure
