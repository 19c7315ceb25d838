"""The interface of an embedder, and `Hashing`, an embedder without a model. `model.py` has the one with a model.

An embedder returns for each text one vector (as the model pools it) and the vectors of its tokens.

`Hashing` turns each word into a direction by its hash, without meaning. It is for tests of other things (crashes,
scale, queues). Texts that share words are near each other, others are not; the same text always has the same vectors.
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
from ormahd.embedding.token_vectors import Codes, Float, split
from ormahd.text.words import words


class Piece(Struct, frozen=True):
    """A piece of a text: its vector, its token ids and their vectors."""

    vector: Float
    """Unit, float32[dimensions]."""
    token_ids: NDArray[np.uint32]
    """The ids of its n tokens."""
    tokens: Codes
    """The tokens' vectors, quantised: bytes, [n, late dimensions]."""


class DocumentVectors(Struct, frozen=True):
    """The vectors of a text, piece by piece."""

    pieces: tuple[Piece, ...]
    """Its pieces; at least one, even for an empty text."""

    @property
    def vector(self) -> Float:
        """One vector for the whole text: the normalised mean of its pieces' vectors."""
        if len(self.pieces) == 1:
            return self.pieces[0].vector
        return np.asarray(
            token_vectors.unit(np.mean([piece.vector for piece in self.pieces], axis=0)[None])[0], np.float32
        )


class QueryVectors(Struct, frozen=True):
    """The vectors of a query."""

    vector: Float
    """Unit, float32[dimensions]."""
    token_ids: NDArray[np.uint32]
    """The ids of its m tokens."""
    tokens: Float
    """The tokens' vectors, projected to fewer dimensions: unit, float32[m, late dimensions]."""
    wide: Float
    """The tokens' vectors before the projection: unit, float32[m, dimensions]."""
    read: float = 1.0
    """How well the model reads the text's language, from 0 to 1, see `reading.read_share`."""
    fitted: str | None = ""
    """End of the names of the files with the weights that were fitted to this model's vectors (the default model's files
    end with nothing); None if none were."""
    function_words: NDArray[np.bool_] | bool = False
    """Which of its tokens are function words, as bool[m]; False: none, as far as is known."""


class Embedder(Protocol):
    """What the index needs from an embedding model: vectors of texts and queries. Any thread may call any method."""

    @property
    def name(self) -> str:
        """The name of the model, as the settings have it."""

    @property
    def served(self) -> EmbeddingHealth:
        """What runs the model, for `ormahctl status`."""

    @property
    def fingerprint(self) -> str:
        """Identifies the vectors: embedders with the same fingerprint give the same vectors for a text."""
        ...

    @property
    def dimensions(self) -> int:
        """The number of dimensions of a vector."""

    @property
    def late_dimensions(self) -> int:
        """The number of dimensions of a token vector."""

    def embed_documents(
        self, texts: Sequence[str], headings: Sequence[str | None] | None = None, *, urgent: bool = False
    ) -> list[DocumentVectors]:
        """Return the vectors of texts. `headings`: one for each text (None: the text has none), embedded before each
        piece of the text. `urgent`: whether a request waits for the result."""
        ...

    def embed_query(self, text: str) -> QueryVectors:
        """Return the vectors of a query."""


class ModelProperties(Struct, frozen=True):
    """Properties of a model, as sentence-transformers reads them from its files."""

    tokenizer: Any
    """A tokenizer of the package `tokenizers`, without truncation and padding."""
    window: int
    """Maximum number of tokens in a forward pass of one text, special tokens included."""
    query: str = ""
    document: str = ""
    """`query` and `document`: the prefixes that the model's files name for queries and documents; empty for none."""


WINDOW = 256
MOST = 64
READ = WINDOW * MOST * 16
"""Maximum number of characters of a text that are read. A real model has such a limit too."""
DIMENSIONS = 384
VOCABULARY = 30_000
WORDS = 2_048
"""Number of words whose directions are cached (5 MB)."""
_NONZERO = 8
"""Number of components of a word's direction that are not zero. Two words rarely have one in common."""
_TOKEN = re.compile(r"[^\s\u0e00-\u109f\u1780-\u17ff\u2e80-\U0010ffff]{1,16}|\S")
"""Matches a token, similar to a model's tokenizer: a letter of a script without spaces is one, a long run is
several."""


class Hashing:
    """An embedder by feature hashing of words, with the interface of a real one."""

    name = "hashing"
    served = EmbeddingHealth("hashing", "")
    dimensions = DIMENSIONS

    def __init__(self, late_dimensions: int = 128, *, salt: str = "") -> None:
        self.late_dimensions = late_dimensions
        self.salt = salt
        """Hashed with each word. With another salt the embedder gives other vectors, like another model."""
        self.fingerprint = f"hashing-{late_dimensions}-3{salt}"

    def embed_documents(
        self,
        texts: Sequence[str],
        headings: Sequence[str | None] | None = None,
        *,
        urgent: bool = False,  # noqa: ARG002
    ) -> list[DocumentVectors]:
        """Return the vectors of texts, see `Embedder.embed_documents`."""
        made = []
        for number, text in enumerate(texts):
            # Find the text's tokens, cut it into pieces of at most `WINDOW` tokens, and embed each piece.
            heading = headings[number] if headings else None
            spans = [match.span() for match in islice(_TOKEN.finditer(text, 0, READ), WINDOW * (MOST + 1))]
            places = split(text, spans, WINDOW, MOST) or [(0, 0)]
            parts = [text[spans[first][0] : spans[last - 1][1]] if last else "" for first, last in places]
            made.append(DocumentVectors(tuple(self._piece(f"{heading or ''}\n{part}") for part in parts)))
        return made

    def embed_query(self, text: str) -> QueryVectors:
        """Return the vectors of a query."""
        vector, ids, tokens = self._text_vectors(text)
        wide = [direction for _, direction, _ in self._vectors_of_words(text)]
        return QueryVectors(vector, ids, tokens, np.stack(wide) if wide else np.empty((0, DIMENSIONS), np.float32))

    def _piece(self, text: str) -> Piece:
        """Return the vectors of a piece of a text."""
        vector, ids, tokens = self._text_vectors(text)
        return Piece(vector, ids, token_vectors.quantise(tokens))

    def _vectors_of_words(self, text: str) -> list[tuple[int, Float, Float]]:
        """Return the vectors of each word in a text, see `_word_vectors`."""
        return [_word_vectors(self.salt + word, self.late_dimensions) for word in words(text)]

    def _text_vectors(self, text: str) -> tuple[Float, NDArray[np.uint32], Float]:
        """Return (unit vector of a text, token ids of its words, vectors of its words). A text without words has a
        fixed vector and no tokens."""
        known = self._vectors_of_words(text)
        if not known:
            nothing = np.zeros(DIMENSIONS, np.float32)
            nothing[0] = 1.0
            return nothing, np.empty(0, np.uint32), np.empty((0, self.late_dimensions), np.float32)
        vector = token_vectors.unit(np.stack([wide for _, wide, _ in known]).sum(axis=0, keepdims=True))[0]
        ids = np.array([number for number, _, _ in known], np.uint32)
        return vector, ids, np.stack([small for _, _, small in known])


@lru_cache(maxsize=4)
def _rotation(dimensions: int) -> Float:
    """Return the rotation of token vectors, see `token_vectors.rotation`. Cached."""
    return token_vectors.rotation(dimensions)


@lru_cache(maxsize=WORDS)
def _word_vectors(word: str, late_dimensions: int) -> tuple[int, Float, Float]:
    """Return (token id, vector, token vector) of a word, all drawn at random with the word's hash as the seed. Both
    vectors have length 1: float32[DIMENSIONS], float32[late_dimensions]."""
    seed = hashlib.blake2b(word.encode(), digest_size=8).digest()
    random = np.random.default_rng(int.from_bytes(seed, "big"))
    return (
        int(random.integers(VOCABULARY)),
        _sparse_vector(random, DIMENSIONS),
        _sparse_vector(random, late_dimensions) @ _rotation(late_dimensions),
    )


def _sparse_vector(random: np.random.Generator, width: int) -> Float:
    """Return a random vector of length 1 with `_NONZERO` components that are not zero: float32[width]."""
    made = np.zeros(width, np.float32)
    made[random.choice(width, _NONZERO, replace=False)] = random.choice((-1.0, 1.0), _NONZERO) / np.sqrt(_NONZERO)
    return made
