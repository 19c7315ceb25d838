"""What an embedder is: texts to vectors. The ones there are: `model.py` (the real one), `hashing.py`; `choose.py` opens them.

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
    """One window of a text: its vector (unit, float32[dimensions]), its tokens' ids and small vectors (int8[n, late])."""

    vector: Float
    token_ids: NDArray[np.uint32]
    tokens: Int8


class DocumentVectors(Struct, frozen=True):
    pieces: tuple[Piece, ...]
    """At least one, also of an empty text."""

    @property
    def vector(self) -> Float:
        """One vector for the whole: of the first piece when there is only one, else their mean, normalised."""
        if len(self.pieces) == 1:
            return self.pieces[0].vector
        return np.asarray(
            token_vectors.unit(np.mean([piece.vector for piece in self.pieces], axis=0)[None])[0], np.float32
        )


class QueryVectors(Struct, frozen=True):
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
    def served(self) -> EmbeddingHealth: ...
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
    def give_back(self) -> None:
        """Return to the system what is no longer needed once bulk work is done."""
        ...


class About(Struct, frozen=True):
    """What a model says of itself, as sentence-transformers reads its files."""

    tokenizer: Any
    """Of `tokenizers`, without truncation and padding."""
    window: int
    """Tokens in one forward pass of a text, special ones included."""
    pad: int
    """The id of the token that fills up short texts."""
    query: str = ""
    document: str = ""
    """Texts that the model wants before a question or a document, where the settings name none."""
