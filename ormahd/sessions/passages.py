"""A cache in memory of the vectors of passages that recent searches of sessions compared.

Successive questions about one subject find the same turns, which then need not be embedded again.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ormahd.embedding.embedder import DocumentVectors

BYTES: Final = 2 << 20
"""Maximum size of the cache in bytes: the vectors of about 250 turns."""
BESIDE: Final = 400
"""Estimated bytes that an entry of the cache takes in addition to its vectors."""


class PassageVectors:
    """A cache, in RAM only, of the vectors of passages by model and text. When it is full, the least recently used
    entries are deleted. Thread-safe."""

    def __init__(self, max_bytes: int = BYTES) -> None:
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._vectors: OrderedDict[bytes, tuple[DocumentVectors, int]] = OrderedDict()
        self._size = 0

    def known(self, model: str, texts: Sequence[str]) -> dict[int, DocumentVectors]:
        """Return {index in `texts`: vectors} of the texts that are in the cache."""
        found: dict[int, DocumentVectors] = {}
        with self._lock:
            for at, text in enumerate(texts):
                key = _key(model, text)
                entry = self._vectors.get(key)
                if entry is not None:
                    self._vectors.move_to_end(key)
                    found[at] = entry[0]
        return found

    def keep(self, model: str, texts: Sequence[str], vectors: Sequence[DocumentVectors]) -> None:
        """Store the vectors of texts. `vectors`: one for each of `texts`, made by `model`. If there is no room, the
        least recently used entries are deleted."""
        with self._lock:
            for text, document in zip(texts, vectors, strict=True):
                arrays = ((piece.vector, piece.token_ids, piece.tokens) for piece in document.pieces)
                size = BESIDE + sum(array.nbytes for piece in arrays for array in piece)
                before = self._vectors.pop(_key(model, text), None)
                self._size += size - (before[1] if before else 0)
                self._vectors[_key(model, text)] = document, size
            while self._size > self._max_bytes and self._vectors:
                self._size -= self._vectors.popitem(last=False)[1][1]

    @property
    def size(self) -> int:
        """The size of the cache, in bytes."""
        return self._size

    def clear(self) -> None:
        """Delete all entries. Called when text is purged from the archive, so that nothing derived from that text
        remains."""
        with self._lock:
            self._vectors.clear()
            self._size = 0


def _key(model: str, text: str) -> bytes:
    """Return the key of a text in the cache."""
    return hashlib.blake2b(f"{model}\0{text}".encode("utf-8", "surrogatepass"), digest_size=16).digest()
