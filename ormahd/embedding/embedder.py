"""The interface of an embedder, which turns texts into vectors. Implementations: `model.py`, `hashing.py`; see
`choose.py`.

One forward pass gives the vector of a text (as the model pools it) and the vectors of its tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from ormahd.api import EmbeddingHealth
from ormahd.embedding import token_vectors
from ormahd.embedding.token_vectors import Float, Int8


class Piece(Struct, frozen=True):
    """One window of a text: its vector (unit, float32[dimensions]), its token ids, and token vectors (int8[n,
    late])."""

    vector: Float
    token_ids: NDArray[np.uint32]
    tokens: Int8


class DocumentVectors(Struct, frozen=True):
    pieces: tuple[Piece, ...]
    """At least one, even for an empty text."""

    @property
    def vector(self) -> Float:
        """One vector for the whole text: that of the only piece, or the normalised mean of all."""
        if len(self.pieces) == 1:
            return self.pieces[0].vector
        return np.asarray(
            token_vectors.unit(np.mean([piece.vector for piece in self.pieces], axis=0)[None])[0], np.float32
        )


class QueryVectors(Struct, frozen=True):
    """The vectors of a query: its vector (unit, float32[dimensions]), its token ids, and token vectors (unit,
    float32[m, late])."""

    vector: Float
    token_ids: NDArray[np.uint32]
    tokens: Float
    wide: Float
    """The token vectors before projection to fewer dimensions: unit, float32[m, dimensions]."""


class Embedder(Protocol):
    """The methods of a model that the index uses. Any thread may call any of them."""

    @property
    def name(self) -> str: ...
    @property
    def served(self) -> EmbeddingHealth: ...
    @property
    def fingerprint(self) -> str:
        """Identifies the vectors: two embedders with the same fingerprint give the same vectors."""
        ...

    @property
    def dimensions(self) -> int: ...
    @property
    def late_dimensions(self) -> int: ...
    def embed_documents(
        self, texts: Sequence[str], headings: Sequence[str | None] | None = None, *, urgent: bool = False
    ) -> list[DocumentVectors]:
        """Return the vectors of texts. A heading is embedded before each piece of its text. `urgent`: a request waits
        for them."""
        ...

    def embed_query(self, text: str) -> QueryVectors: ...
    def give_back(self) -> None:
        """Free memory that is not needed after bulk work."""
        ...


class About(Struct, frozen=True):
    """Properties of a model, as sentence-transformers reads them from its files."""

    tokenizer: Any
    """A tokenizer of the package `tokenizers`, without truncation and padding."""
    window: int
    """Tokens of a text in one forward pass, special tokens included."""
    pad: int
    """Id of the padding token."""
    query: str = ""
    document: str = ""
    """`query` and `document`: prefixes that the model expects before a query and a document, if the settings name
    none."""
