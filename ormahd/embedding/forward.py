"""One forward pass of a model: windows of tokens go in, vectors of them and of their tokens come out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from ormahd.embedding import token_vectors
from ormahd.embedding.token_vectors import Float


class Runtime(Protocol):
    """What runs a model's forward passes. Called from many threads at once: passes read the weights only."""

    @property
    def name(self) -> str: ...
    @property
    def version(self) -> str: ...
    def forward(self, ids: NDArray[np.int64], mask: NDArray[np.bool_]) -> tuple[Float, Float]:
        """Of ids[texts, tokens], where `mask` says which of them are tokens: float32[texts, dimensions] as the model
        pools them, and float32[texts, tokens, width] of the last layer. Neither need be of unit length."""
        ...

    def give_back(self) -> None:
        """Drop what can be read again from the model's files."""
        ...


class Ids(Struct, frozen=True):
    """One window of a text as a model takes it."""

    ids: list[int]
    special: list[int]
    """1 where a token is none of the text's own."""


class Pass(Struct, frozen=True):
    """What a forward pass makes of some windows, of no particular length."""

    pooled: Float
    """float32[windows, dimensions]"""
    ids: NDArray[np.uint32]
    tokens: Float
    """float32[ids, width]: of their own tokens, one window after the other."""
    counts: list[int]
    """How many each window has of those."""


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
    """One forward pass: of each window its vector, its own tokens' ids, and their vectors; all vectors unit, float32."""
    one = forward_pass(runtime, windows, pad)
    ends = np.cumsum(one.counts)[:-1]
    return token_vectors.unit(one.pooled), np.split(one.ids, ends), np.split(token_vectors.unit(one.tokens), ends)


def ids_of(found: Any, most: int | None = None) -> Ids:
    """What the tokenizer found, at most `most` tokens of it."""
    if most is not None and len(found.ids) > most:  # cut before the closing special token
        return Ids([*found.ids[: most - 1], found.ids[-1]], [*found.special_tokens_mask[: most - 1], 1])
    return Ids(found.ids, found.special_tokens_mask)
