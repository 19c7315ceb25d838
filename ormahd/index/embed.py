"""Texts to vectors: what an embedder is. The ones there are: `embed_model.py` (the real one), `hashing.py`.

One forward pass gives the vector of a text (as the model pools it) and the vectors of its tokens. Importing this
module costs nothing; `load` takes seconds, because torch does.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ormahd.index import late
from ormahd.index.late import Float, Int8
from ormahd.settings import EmbeddingSettings


@dataclass(frozen=True, slots=True)
class Piece:
    """One window of a text: its vector (unit, float32[dimensions]), its tokens' ids and small vectors (int8[n, late])."""

    vector: Float
    token_ids: NDArray[np.uint32]
    tokens: Int8


@dataclass(frozen=True, slots=True)
class DocumentVectors:
    pieces: tuple[Piece, ...]
    """At least one, also of an empty text."""

    @property
    def vector(self) -> Float:
        """One vector for the whole: of the first piece when there is only one, else their mean, normalised."""
        if len(self.pieces) == 1:
            return self.pieces[0].vector
        return np.asarray(late.unit(np.mean([piece.vector for piece in self.pieces], axis=0)[None])[0], np.float32)


@dataclass(frozen=True, slots=True)
class QueryVectors:
    """A question: its vector (unit, float32[dimensions]), its tokens' ids and small vectors (unit, float32[m, late])."""

    vector: Float
    token_ids: NDArray[np.uint32]
    tokens: Float
    wide: Float
    """The tokens' vectors before they were made small: unit, float32[m, dimensions]."""


class Embedder(Protocol):
    """What the index needs of a model. All methods may be called from many threads."""

    @property
    def name(self) -> str: ...
    @property
    def fingerprint(self) -> str:
        """Two embedders with the same fingerprint give the same vectors."""
        ...

    @property
    def dimensions(self) -> int: ...
    @property
    def late_dimensions(self) -> int: ...
    def embed_documents(
        self, texts: Sequence[str], headings: Sequence[str | None] | None = None, *, urgent: bool = False
    ) -> list[DocumentVectors]:
        """Vectors of texts; a heading stands before each piece of its text. `urgent`: somebody waits for it."""
        ...

    def embed_query(self, text: str) -> QueryVectors: ...


def load(settings: EmbeddingSettings, directory: Path) -> Embedder:
    """The embedder that the settings name; takes seconds. `directory`: where the token basis is kept (the index's).

    Raises Unavailable, with the mend, when the model's files are not on this machine.
    """
    if settings.model == "hashing":
        from ormahd.index.hashing import Hashing

        return Hashing(late_dimensions=settings.late_dimensions)
    from ormahd.index.embed_model import SentenceTransformers

    made = SentenceTransformers(settings, directory)
    give_back()
    return made


def give_back() -> None:
    """Return freed memory to the system: after thousands of forward passes glibc holds on to half a gigabyte."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc only
    if trim is not None:
        trim(0)
