"""The interface of an embedder, and the one that hashes words.

The interface of an embedder, which turns texts into vectors. Implementations: `model.py`, `hashing.py`; see
`model.py`.

One forward pass gives the vector of a text (as the model pools it) and the vectors of its tokens.

An embedder without meaning: words hashed to directions. For tests of everything else (crashes, scale, queues).

Texts that share words are near each other, others are not; the same text always gets the same vectors.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import islice
from typing import Any, Protocol

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from ormahd.api import EmbeddingHealth
from ormahd.embedding import token_vectors
from ormahd.embedding.scale import Scale
from ormahd.embedding.token_vectors import Float, Int8, split
from ormahd.text.words import words


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
    read: float = 1.0
    """How well the model reads the text's language, from 0 to 1, see `reading.read_share`."""
    scale: Scale | None = None
    """The scale of the model's similarities; None for the default model and for those without meaning."""


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


class ModelProperties(Struct, frozen=True):
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


WINDOW = 256
MOST = 64
READ = WINDOW * MOST * 16
"""Characters of a text at most that are read, as a model reads no more either."""
DIMENSIONS = 384
VOCABULARY = 30_000
WORDS = 2_048
"""Whose directions are remembered (5 MB)."""
_NONZERO = 8
"""Components of a word's direction that are not zero: two words rarely share one."""
_TOKEN = re.compile(r"[^\s\u0e00-\u109f\u1780-\u17ff\u2e80-\U0010ffff]{1,16}|\S")
"""As a model's tokenizer counts: a letter of a script without spaces is one, and a long run of signs is several."""


class Hashing:
    """Feature hashing of words, in the shape of a real embedder."""

    name = "hashing"
    served = EmbeddingHealth("hashing", "", "fp32", None, None, None, 0, None, None)
    dimensions = DIMENSIONS

    def __init__(self, late_dimensions: int = 128, *, salt: str = "") -> None:
        self.late_dimensions = late_dimensions
        self.salt = salt
        """Another salt is another model: other vectors, another fingerprint."""
        self.fingerprint = f"hashing-{late_dimensions}-3{salt}"

    def embed_documents(
        self,
        texts: Sequence[str],
        headings: Sequence[str | None] | None = None,
        *,
        urgent: bool = False,  # noqa: ARG002
    ) -> list[DocumentVectors]:
        made = []
        for number, text in enumerate(texts):
            heading = headings[number] if headings else None
            spans = [match.span() for match in islice(_TOKEN.finditer(text, 0, READ), WINDOW * (MOST + 1))]
            places = split(text, spans, WINDOW, MOST) or [(0, 0)]
            parts = [text[spans[first][0] : spans[last - 1][1]] if last else "" for first, last in places]
            made.append(DocumentVectors(tuple(self._piece(f"{heading or ''}\n{part}") for part in parts)))
        return made

    def give_back(self) -> None:
        """There is nothing."""

    def embed_query(self, text: str) -> QueryVectors:
        vector, ids, tokens = self._vectors(text)
        wide = [direction for _, direction, _ in self._known(text)]
        return QueryVectors(vector, ids, tokens, np.stack(wide) if wide else np.empty((0, DIMENSIONS), np.float32))

    def _piece(self, text: str) -> Piece:
        vector, ids, tokens = self._vectors(text)
        return Piece(vector, ids, token_vectors.quantise(tokens))

    def _known(self, text: str) -> list[tuple[int, Float, Float]]:
        return [_direction(self.salt + word, self.late_dimensions) for word in words(text)]

    def _vectors(self, text: str) -> tuple[Float, NDArray[np.uint32], Float]:
        known = self._known(text)
        if not known:
            nothing = np.zeros(DIMENSIONS, np.float32)
            nothing[0] = 1.0
            return nothing, np.empty(0, np.uint32), np.empty((0, self.late_dimensions), np.float32)
        vector = token_vectors.unit(np.stack([wide for _, wide, _ in known]).sum(axis=0, keepdims=True))[0]
        ids = np.array([number for number, _, _ in known], np.uint32)
        return vector, ids, np.stack([small for _, _, small in known])


@lru_cache(maxsize=4)
def _turned(dimensions: int) -> Float:
    return token_vectors.rotation(dimensions)


@lru_cache(maxsize=WORDS)
def _direction(word: str, late_dimensions: int) -> tuple[int, Float, Float]:
    seed = hashlib.blake2b(word.encode(), digest_size=8).digest()
    random = np.random.default_rng(int.from_bytes(seed, "big"))
    return (
        int(random.integers(VOCABULARY)),
        _sparse(random, DIMENSIONS),
        _sparse(random, late_dimensions) @ _turned(late_dimensions),
    )


def _sparse(random: np.random.Generator, width: int) -> Float:
    made = np.zeros(width, np.float32)
    made[random.choice(width, _NONZERO, replace=False)] = random.choice((-1.0, 1.0), _NONZERO) / np.sqrt(_NONZERO)
    return made
