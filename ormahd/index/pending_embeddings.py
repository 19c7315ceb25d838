"""Vectors of texts that are about to become notes, until they are: in memory, because most of them are for some milliseconds."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable

from ormahd.embedding.embedder import DocumentVectors

KEPT = 256
"""Texts; what is beyond them, of writes that never came about, goes first."""


class Ahead:
    """Safe from any thread. Texts are named by the sha256 of what is embedded, models by their fingerprint."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made: OrderedDict[tuple[str, bytes], DocumentVectors] = OrderedDict()

    def keep(self, fingerprint: str, made: dict[bytes, DocumentVectors]) -> None:
        with self._lock:
            for sha, vectors in made.items():
                self._made[fingerprint, sha] = vectors
            while len(self._made) > KEPT:
                self._made.popitem(last=False)

    def look(self, fingerprint: str, wanted: Iterable[bytes]) -> dict[bytes, DocumentVectors]:
        with self._lock:
            return {sha: self._made[fingerprint, sha] for sha in wanted if (fingerprint, sha) in self._made}

    def take(self, fingerprint: str, wanted: Iterable[bytes]) -> dict[bytes, DocumentVectors]:
        """The same, and they are kept no longer: their notes are being written to the index."""
        with self._lock:
            return {sha: self._made.pop((fingerprint, sha)) for sha in wanted if (fingerprint, sha) in self._made}
