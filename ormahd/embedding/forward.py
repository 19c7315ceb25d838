"""One forward pass of a model: from windows of tokens to their vectors and token vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from ormahd.embedding import token_vectors
from ormahd.embedding.token_vectors import Float


class Runtime(Protocol):
    """Runs a model's forward passes. Several threads call it at once: a pass only reads the weights."""

    @property
    def name(self) -> str: ...
    @property
    def version(self) -> str: ...
    def forward(self, ids: NDArray[np.int64], mask: NDArray[np.bool_]) -> tuple[Float, Float]:
        """Run a pass over ids[texts, tokens]; `mask` is False for padding.

        Returns the pooled vectors, float32[texts, dimensions], and those of the last layer, float32[texts, tokens,
        width]. Neither need be of unit length.
        """
        ...

    def give_back(self) -> None:
        """Free what can be read again from the model's files."""
        ...


class Ids(Struct, frozen=True):
    """The tokens of one window of a text."""

    ids: list[int]
    special: list[int]
    """1 for a special token, 0 for a token of the text."""


class Pass(Struct, frozen=True):
    """The results of a forward pass over some windows. The vectors are not normalised."""

    pooled: Float
    """float32[windows, dimensions]"""
    ids: NDArray[np.uint32]
    tokens: Float
    """float32[ids, width]: vectors of the windows' own tokens, concatenated."""
    counts: list[int]
    """Number of own tokens of each window."""


def forward_pass(runtime: Runtime, windows: Sequence[Ids], pad: int) -> Pass:
    longest = max(len(window.ids) for window in windows)
    ids = np.full((len(windows), longest), pad, np.int64)
    mask = np.zeros((len(windows), longest), bool)
    ours = np.zeros((len(windows), longest), bool)
    for row, window in enumerate(windows):
        length = len(window.ids)
        ids[row, :length] = window.ids
        mask[row, :length] = True
        ours[row, :length] = np.array(window.special) == 0
    pooled, tokens = runtime.forward(ids, mask)
    return Pass(pooled, ids[ours].astype(np.uint32), tokens[ours], ours.sum(axis=1).tolist())


def run(runtime: Runtime, windows: Sequence[Ids], pad: int) -> tuple[Float, list[NDArray[np.uint32]], list[Float]]:
    """Run one pass. Return for each window its vector, its own tokens' ids, and their vectors; all vectors unit,
    float32."""
    one = forward_pass(runtime, windows, pad)
    ends = np.cumsum(one.counts)[:-1]
    return token_vectors.unit(one.pooled), np.split(one.ids, ends), np.split(token_vectors.unit(one.tokens), ends)


def ids_of(found: Any, most: int | None = None) -> Ids:
    """Return the token ids of a tokenizer's result, cut to at most `most` tokens."""
    if most is not None and len(found.ids) > most:  # keep the closing special token
        return Ids([*found.ids[: most - 1], found.ids[-1]], [*found.special_tokens_mask[: most - 1], 1])
    return Ids(found.ids, found.special_tokens_mask)
