"""Late interaction: how well each token of a question is answered by some token of a note (MaxSim, ColBERT).

Two readings of the same comparison, because neither is best on every text: tokens weighted by their inverse document
frequency (names and rare words decide; best on short dialogue), and all alike (best on long messages).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ormahd.index.late import SCALE

Float = NDArray[np.float32]
Int8 = NDArray[np.int8]

SCANNED = 400_000
"""Tokens compared in one go: 50 MB of int8, some 200 MB of floats."""


class Stored(Protocol):
    """Token vectors of notes, one after the other (`index.cache.TokenVectors`): note `ids[i]` has the rows
    `offsets[i]` to `offsets[i + 1]` of `vectors` (int8[n, d], unit times 127). Notes without tokens are left out."""

    @property
    def ids(self) -> Sequence[str]: ...
    @property
    def offsets(self) -> NDArray[np.int64]: ...
    @property
    def vectors(self) -> Int8: ...


@dataclass(frozen=True, slots=True)
class Late:
    """Per note: MaxSim weighted by rarity, MaxSim unweighted (both a mean cosine, up to 1), and its tokens."""

    rare: Float
    plain: Float
    lengths: NDArray[np.int64]
    """Tokens of the note; 0: its token vectors are not there."""


def token_weights(df: Sequence[int], documents: int) -> Float:
    """Inverse document frequency of tokens: log of (documents + 1) / (df + 1), and a little for those in all of them."""
    counts = np.minimum(np.asarray(df, np.float64), documents)
    return np.asarray(np.log((documents + 1) / (counts + 1)) + 1e-4, np.float32)


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
    question = np.ascontiguousarray(tokens.T / np.float32(SCALE))
    first = 0
    while first < len(at):
        begin = stored.offsets[first]
        last = max(first + 1, int(np.searchsorted(stored.offsets, begin + SCANNED, side="right")) - 1)
        together = stored.vectors[begin : stored.offsets[last]].astype(np.float32) @ question
        best = np.maximum.reduceat(together, stored.offsets[first:last] - begin, axis=0)
        rare[at[first:last]], plain[at[first:last]] = best @ shares, best.mean(axis=1)
        first = last
    return Late(rare, plain, lengths)
