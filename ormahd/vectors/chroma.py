"""Chroma, an approximate nearest-neighbour index of the vectors in a `Matrix`. No other module imports it.

The id of a piece in Chroma is `<node id>:<number>:<CRC-32 of its vector>`, so the ids alone show what Chroma holds. When
it is opened, they are compared with those of the matrix, and what differs is written or deleted. So its files may be
deleted, damaged, or older than the index at any time, and it is filled again without embedding anything.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import math
import threading
import time
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from ormahd.embedding.token_vectors import Float
from ormahd.process import own_files, priority
from ormahd.settings import VectorSettings
from ormahd.vectors.matrix import Matrix

SEARCH_EF = 200
"""The number of candidates that a search of the HNSW graph keeps. More of them give better recall and take longer."""
SYNC_THRESHOLD = 1000
"""The number of writes after which Chroma saves its graph. With small values it rewrites the graph often (MemPalace
#2106)."""
BLOAT = 3.0
"""Chroma's files are deleted and filled again if they take so many times the space that the current vectors need, because
it never frees deleted vectors."""
BYTES_PER_VECTOR = 2500
_ROOM = 20_000_000
_PAGE = 20_000
EXACT = 5_000
"""If more nodes than this are missing in Chroma, searches do not use it: scoring the missing nodes exactly would take
longer than searching all vectors in memory."""
WIDENINGS = 2
"""How often Chroma is asked again, each time for three times as many pieces, if those found belong to too few nodes."""
FETCH = 100
"""Minimum number of pieces that Chroma is asked for. A search in its graph visits `SEARCH_EF` pieces anyway, and the
exact cosines decide afterwards."""
SETTLE_BATCH, GENTLE_BATCH = 1000, 100
"""Number of nodes in one write while a caller waits for Chroma, and in any other. Chroma holds the interpreter's lock
during a write, which stops all other threads."""
REST_S = 1.0
"""Seconds from the last change until Chroma is updated in a vault whose searches need it, because any write to it is
slow, however small."""
QUIET_S = 20.0
"""The same, and from a start, while searches use memory anyway. Opening Chroma, and writing to it, holds the GIL for
long, which would delay a client that only paused between two writes."""
PATIENCE = 4
"""Pause after a write to Chroma, as a multiple of the write's duration."""
STAY_S = 300.0
"""How long Chroma stays open after it was last needed, in seconds, while searches use memory anyway. An open Chroma keeps
a second copy of all vectors in RAM."""

log = logging.getLogger(__name__)


class ChromaTrouble(Exception):
    """Chroma failed. Searches use the vectors in memory until it can be opened again."""


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


def piece_ids(node_id: str, vectors: Float | None) -> list[str]:
    """Return the ids that a node's pieces have in Chroma; `vectors`: float32[pieces, dimensions]."""
    rows = () if vectors is None else vectors
    return [f"{node_id}:{number}:{zlib.crc32(row.tobytes()):08x}" for number, row in enumerate(rows)]


class Chroma:
    """Keeps a collection of Chroma equal to a `Matrix`, at low priority, and finds the nearest nodes in it.

    Only one thread may call `step`, which opens, updates and closes the collection. Any thread may call the other
    methods.
    """

    def __init__(self, directory: Path, settings: VectorSettings, fingerprint: str, matrix: Matrix) -> None:
        self._directory = directory / "chroma"
        self._url = settings.url
        self._matrix = matrix
        self._prefix = f"ormah-{hashlib.sha256(directory.name.encode()).hexdigest()[:8]}-"
        self._name = self._prefix + hashlib.sha256(fingerprint.encode()).hexdigest()[:16]
        self.lock = threading.Lock()
        """Held while the collection is opened, written or closed. A thread that needs it and the apply lock takes it
        first."""
        self.trouble: str | None = None
        """Why Chroma is not used, if it failed."""
        self.compared = False
        """Whether the collection, open or closed, was found to hold all vectors, but for the pending nodes."""
        self._client: Any = None
        self._collection: Any = None
        self._held: dict[str, list[str]] = {}  # node id -> ids of its pieces in the open collection
        self._pending: dict[str, None] = {}
        self._writing: list[str] = []
        self._changed_at = time.monotonic()
        self._rest_until = self._open_until = 0.0

    @property
    def place(self) -> str | None:
        """Where the collection is searched: "chroma" (in this process) or "server"; None while it is not open."""
        if self._collection is None:
            return None
        return "chroma" if self._url is None else "server"

    @property
    def complete(self) -> bool:
        """Whether the collection holds the vectors of all nodes, and no others, and is open if searches need it."""
        return self.compared and not self._pending and (self._collection is not None or self._matrix.quick)

    @property
    def pending(self) -> list[str]:
        """The nodes whose vectors in the collection may be out of date."""
        return [*self._pending, *self._writing]  # in this order: `_write` moves nodes from the first to the second

    def changed(self, ids: Collection[str]) -> None:
        """Record that the vectors of these nodes were set or removed in the matrix."""
        if ids:
            self._pending |= dict.fromkeys(ids)
            self._changed_at = time.monotonic()

    def nearest(self, vector: Float, limit: int) -> list[str] | None:
        """Return ids of nodes, in any order: the `limit` nearest that Chroma finds, and all pending nodes.

        None if the vectors in memory must be searched instead: Chroma is closed, fails, or lacks too many nodes.
        """
        fresh, collection = self.pending, self._collection
        if collection is None or len(fresh) > EXACT or limit >= len(self._matrix):
            return None
        wanted, vectors = max(limit + limit // 5, FETCH), np.asarray(vector, np.float32)[None]
        try:
            for _ in range(WIDENINGS + 1):
                with _guarded("search"):
                    found = collection.query(query_embeddings=vectors, n_results=wanted, include=["distances"])
                pieces = found["ids"][0]
                nodes = {piece.partition(":")[0] for piece in pieces}
                if len(nodes) >= limit or len(pieces) < wanted:
                    break
                wanted *= 3
        except ChromaTrouble as trouble:
            if collection is self._collection:  # else it was closed meanwhile
                self.fail(trouble)
            return None
        return [*nodes.union(fresh)] if len(nodes) >= limit else None

    def fail(self, trouble: ChromaTrouble) -> None:
        """Record `trouble`, and do not use Chroma until it is opened again."""
        if self._collection is not None:
            log.warning("%s; search goes on exactly", trouble)
        self._collection, self.compared, self.trouble = None, False, str(trouble)

    def step(self, *, settling: bool) -> float:
        """Open the collection, write some nodes to it, or close it. Return the seconds until the next step is due;
        infinity if only a change makes one due. `settling`: whether a caller waits for Chroma to hold all vectors.
        Raises ChromaTrouble."""
        now, quick = time.monotonic(), self._matrix.quick
        with self.lock:
            # Nothing is pending: check once that Chroma has as many vectors as it was given.
            is_open = self._collection is not None
            if is_open and not self._pending and not self.compared:
                with _guarded("count"):
                    count = self._collection.count()
                if count != sum(map(len, self._held.values())):
                    if self._url is None:
                        self._delete()
                    raise ChromaTrouble(f"Chroma holds {count} vectors, and not those that it was given")
                self.compared = True

            # All is written: close Chroma when it was not needed for `STAY_S`.
            if self.complete and (is_open or not settling):
                if settling:
                    self._open_until = now + STAY_S
                if not quick or not is_open:
                    return math.inf
                if self._open_until <= now:
                    self._close()
                return max(0.0, self._open_until - now)
            # While searches use memory, put the work off as long as there are changes or searches.
            busy = now - self._changed_at < (QUIET_S if quick else REST_S) or (quick and priority.searched_lately())
            if not settling and (busy or now < self._rest_until):
                return REST_S if busy else self._rest_until - now

            # Do one step of work, and rest afterwards for a multiple of its time.
            if not is_open:
                self._open()
            else:
                self._write(SETTLE_BATCH if settling else GENTLE_BATCH)
            ended = time.monotonic()
            self._open_until = ended + STAY_S
            self._rest_until = ended + PATIENCE * (ended - now) if is_open else 0.0
        return 0.0

    def _open(self) -> None:
        """Open the collection. If Chroma runs in this process and fails, or has grown too large, its files are deleted,
        and it is opened again. Raises ChromaTrouble."""
        try:
            self._connect()
            size = sum(file.stat().st_size for file in self._directory.rglob("*") if file.is_file())
            if size > BLOAT * BYTES_PER_VECTOR * self._matrix.pieces + _ROOM:
                raise ChromaTrouble(f"Chroma's files take {size:,} bytes")
        except ChromaTrouble as trouble:
            if self._url is not None:
                raise
            log.warning("%s; it is filled again", trouble)
            self._delete()
            self._connect()
        self.trouble = None

    def _connect(self) -> None:
        """Open the collection of this model, which is created if it does not exist, and delete those of other models.
        Nodes whose vectors in it differ from the matrix become pending. Raises ChromaTrouble."""
        self._close()
        self.compared = False
        with _guarded("open"):
            # Imported here, because the import takes a second.
            import chromadb

            # Otherwise Chroma reads any `.env` in the working directory.
            options = chromadb.config.Settings(_env_file=None, anonymized_telemetry=False, allow_reset=False)
            if self._url is None:
                self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._client = chromadb.PersistentClient(path=str(self._directory), settings=options)
            else:
                host, port, secure = _address(self._url)
                self._client = chromadb.HttpClient(host=host, port=port, ssl=secure, settings=options)

            # Keep one collection, the one of this model.
            for other in self._client.list_collections():  # the same vault's, of other embedding models
                if other.name.startswith(self._prefix) and other.name != self._name:
                    self._client.delete_collection(other.name)
            hnsw = {"space": "cosine", "ef_search": SEARCH_EF, "sync_threshold": SYNC_THRESHOLD}
            collection = self._client.get_or_create_collection(
                self._name, embedding_function=None, configuration={"hnsw": hnsw}
            )
            held = _held(collection)
            if held:  # load the graph now: damage shows here, and the first search is fast
                near = collection.get(limit=1, include=["embeddings"])["embeddings"]
                collection.query(query_embeddings=near, n_results=1, include=["distances"])
        self._held, self._writing = held, []
        self._pending |= dict.fromkeys(self._differing(held))
        self._collection = collection

    def _differing(self, held: Mapping[str, Sequence[str]]) -> list[str]:
        """Return the nodes whose pieces in `held` (node id -> ids of pieces) are not those of the matrix."""
        memory = self._matrix.frozen()
        return [
            node_id
            for node_id in priority.giving(held.keys() | memory.places.keys())
            if sorted(held.get(node_id, ())) != sorted(piece_ids(node_id, memory.vectors(node_id)))
        ]

    def verify(self, applying: threading.Lock) -> list[str]:
        """Return the nodes whose pieces in the collection are not those of the matrix. Nodes that are still to be
        written are left out. `applying`: the lock that is held while the matrix is changed. Raises ChromaTrouble."""
        with self.lock:
            if self._collection is None:
                if self.trouble is not None:
                    raise ChromaTrouble(self.trouble)
                return []
            held = _held(self._collection)
            differing = self._differing(held)
            with applying:
                pending = set(self.pending)
            return [node_id for node_id in differing if node_id not in pending]

    def _write(self, limit: int) -> None:
        """Write up to `limit` pending nodes: afterwards their pieces in the collection are those of the matrix."""
        self.compared = False
        self._writing = list(self._pending)[:limit]
        for node_id in self._writing:
            del self._pending[node_id]  # before its vectors are read: a later change makes it pending again
        new: dict[str, Float] = {}
        old: list[str] = []
        for node_id in self._writing:
            vectors, held = self._matrix.vectors(node_id), self._held.pop(node_id, [])
            wanted = piece_ids(node_id, vectors)
            old += [piece for piece in held if piece not in wanted]
            if vectors is not None:
                new |= {piece: row for piece, row in zip(wanted, vectors, strict=True) if piece not in held}
                self._held[node_id] = wanted
        with _guarded("write"):
            if old:
                self._collection.delete(ids=old)
            if new:
                self._collection.upsert(ids=list(new), embeddings=np.stack(list(new.values())))
        self._writing = []

    def wipe(self) -> None:
        """Close Chroma and, if it is embedded, delete its files. It is filled again."""
        with self.lock:
            self._close()
            self.compared = False
            if self._url is None:
                self._delete()

    def close(self) -> None:
        """Close the collection."""
        with self.lock:
            self._close()

    def _close(self) -> None:
        """Close the collection. The caller holds `lock`."""
        client, self._client, self._collection, self._held = self._client, None, None, {}
        if client is not None:
            with contextlib.suppress(ChromaTrouble), _guarded("close"):
                client.close()

    def _delete(self) -> None:
        """Close the collection and delete Chroma's files."""
        from chromadb.api.shared_system_client import SharedSystemClient

        self._close()
        # Chroma caches a client even if it failed to start, and would return the failed one again.
        for cached in ("_identifier_to_system", "_identifier_to_refcount"):
            getattr(SharedSystemClient, cached, {}).pop(str(self._directory), None)
        with contextlib.suppress(OSError):
            own_files.remove(self._directory)


def _held(collection: Any) -> dict[str, list[str]]:
    """Return {node id: ids of its pieces} for all nodes in a collection. Raises ChromaTrouble."""
    held: dict[str, list[str]] = {}
    with _guarded("read"):
        for offset in range(0, collection.count(), _PAGE):
            for piece in collection.get(limit=_PAGE, offset=offset, include=[])["ids"]:
                held.setdefault(piece.partition(":")[0], []).append(piece)
    return held


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
