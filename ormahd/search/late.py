"""Late interaction: how well each token of a question is answered by some token of a note (MaxSim, ColBERT).

Two readings of the same comparison, because neither is best on every text: tokens weighted by their inverse document
frequency (names and rare words decide; best on short dialogue), and all alike (best on long messages).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from ormahd.embedding.token_vectors import cosines

Float = NDArray[np.float32]

LEAST_WEIGHT = 1e-4
"""So that a question of words that every note has is still compared by them."""
POWER = 2.0
"""The mean over a question's tokens is a root mean square: what matches closely counts more than what hardly does, as
most words of a long prompt are beside the point. Measured against the plain mean: a point of any@10 on prompts that
are no questions and of mean reciprocal rank on long notes, half a point less on dialogue."""
SCANNED = 400_000
"""Tokens whose cosines are there at once: 50 MB, and 1.6 MB of cosines with each token of the question."""


class Stored(Protocol):
    """Token vectors of notes, one after the other (`index.embedding_cache.TokenVectors`): note `ids[i]` has the rows
    `offsets[i]` to `offsets[i + 1]` of `packed` (uint8[n, d / 2], of `embedding.token_vectors.pack`). Notes without tokens are left out."""

    @property
    def ids(self) -> Sequence[str]: ...
    @property
    def offsets(self) -> NDArray[np.int64]: ...
    @property
    def packed(self) -> NDArray[np.uint8]: ...


class Late(Struct, frozen=True):
    """Per note: MaxSim weighted by rarity, MaxSim unweighted (both a mean cosine, up to 1), and its tokens."""

    rare: Float
    plain: Float
    lengths: NDArray[np.int64]
    """Tokens of the note; 0: its token vectors are not there."""


def token_weights(idf: Float) -> Float:
    """What each token of a question counts: its inverse document frequency, and a little where it is in every note."""
    return np.asarray(idf + LEAST_WEIGHT, np.float32)


def max_sim(tokens: Float, weights: Float, ids: Sequence[str], stored: Stored) -> Late:
    """Compare a question's tokens (unit, float32[m, d]) with those of each note in `ids`."""
    rare, plain = np.zeros(len(ids), np.float32), np.zeros(len(ids), np.float32)
    lengths = np.zeros(len(ids), np.int64)
    row = {one: at for at, one in enumerate(ids)}
    at = np.array([row[one] for one in stored.ids], np.int64)
    lengths[at] = np.diff(stored.offsets)
    if not len(tokens) or not len(at):
        return Late(rare, plain, lengths)
    shares = weights / weights.sum()
    first = 0
    while first < len(at):
        begin = stored.offsets[first]
        last = max(first + 1, int(np.searchsorted(stored.offsets, begin + SCANNED, side="right")) - 1)
        together = cosines(stored.packed[begin : stored.offsets[last]], tokens)
        best = np.maximum.reduceat(together, stored.offsets[first:last] - begin, axis=0)
        best = np.clip(best, 0.0, 1.0) ** POWER
        rare[at[first:last]] = (best @ shares) ** (1.0 / POWER)
        plain[at[first:last]] = best.mean(axis=1) ** (1.0 / POWER)
        first = last
    return Late(rare, plain, lengths)
