"""Texts to vectors: what an embedder is. The ones there are: `embed_model.py` (the real one), `hashing.py`.

One forward pass gives the vector of a text (as the model pools it) and the vectors of its tokens. The real one runs on
ONNX Runtime (`embed_onnx.py`) where that was compared with sentence-transformers (`embed_check.py`), else on torch
(`embed_torch.py`). Importing this module costs nothing; `load` takes half a second, or seconds with torch.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from ormahd import heap
from ormahd.errors import Unavailable
from ormahd.index import late
from ormahd.index.late import Float, Int8
from ormahd.settings import EmbeddingSettings

log = logging.getLogger(__name__)


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
        return np.asarray(late.unit(np.mean([piece.vector for piece in self.pieces], axis=0)[None])[0], np.float32)


class QueryVectors(Struct, frozen=True):
    """A question: its vector (unit, float32[dimensions]), its tokens' ids and small vectors (unit, float32[m, late])."""

    vector: Float
    token_ids: NDArray[np.uint32]
    tokens: Float
    wide: Float
    """The tokens' vectors before they were made small: unit, float32[m, dimensions]."""


class Served(Struct, frozen=True):
    """What runs a model, and what was measured of it."""

    runtime: str
    """`onnx`, `torch` or `hashing`."""
    version: str
    """Of ONNX Runtime or torch."""
    precision: str = "fp32"
    """`int8`: the matrices, and what is multiplied with them, in eight bits."""
    why: str | None = None
    """Why it is nothing quicker, where the settings leave the choice: not ONNX Runtime, or there not in eight bits."""
    vectors: float | None = None
    tokens: float | None = None
    """The least cosine to what sentence-transformers gives, of the vectors and of the token vectors, over `texts`."""
    texts: int = 0
    milliseconds: float | None = None
    full_milliseconds: float | None = None
    """Of the processor's time for one short note, some 36 tokens, in eight bits and in full, when that was weighed."""


class Embedder(Protocol):
    """What the index needs of a model. All methods may be called from many threads."""

    @property
    def name(self) -> str: ...
    @property
    def served(self) -> Served: ...
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


def load(settings: EmbeddingSettings, directory: Path) -> Embedder:
    """The embedder that the settings name. `directory`: where what was computed of a model is kept.

    Takes half a second on ONNX Runtime, seconds on torch; the first time with a model that was never compared with
    sentence-transformers, as long as that comparison takes (about ten seconds, in a process of its own).

    Raises Unavailable, with the mend, when the model's files are not on this machine, or do not run on what
    `embedding.runtime` asks for.
    """
    if settings.model == "hashing":
        from ormahd.index.hashing import Hashing

        return Hashing(late_dimensions=settings.late_dimensions)
    made = _load(settings, directory)
    made.give_back()
    heap.give_back()
    return made


def _load(settings: EmbeddingSettings, directory: Path) -> Embedder:
    from ormahd.index import embed_files
    from ormahd.index.embed_model import Model

    where = embed_files.find_model(settings.model)
    folder = embed_files.folder_of(where)
    if folder is not None and embed_files.BUNDLED in folder.parts:
        embed_files.check_weights(folder)
    identity = embed_files.identity(where, folder)
    why = None
    if settings.runtime != "torch" and folder is not None:
        from ormahd.index import embed_open

        try:
            opened = embed_open.open_onnx(folder, identity, directory, settings.precision)
            return Model(settings, opened.about, opened.runtime, opened.identity, directory, opened.served)
        except Unavailable as unfit:
            if settings.runtime == "onnx":
                raise
            why = str(unfit.data.get("why") or unfit.message)
            log.log(logging.WARNING if unfit.data.get("fault") else logging.INFO, "%s; it runs on torch", unfit.message)
    from ormahd.index.embed_torch import Torch

    torch = Torch(where, settings)
    about = torch.about(settings.model)
    return Model(settings, about, torch, identity, directory, Served("torch", torch.version, torch.precision, why))
