"""Token vectors, small: a fixed basis (PCA), turned so that all directions weigh alike, in 4 bits a direction.

Late interaction compares each token of a question with each token of a note (ColBERT, arXiv:2004.12832). The token
vectors of one text crowd in a part of the model's space, so a part of the directions holds them. A basis that comes
from other texts than the vault's holds less of them than one of its own would (60 % of the energy in 128 directions,
not 82 %), so more directions with fewer bits each are the better use of the same 128 bytes a token. A fixed random rotation before quantising spreads each vector over all
directions, so that one step size fits them all.
"""

from __future__ import annotations

import importlib.resources
from typing import Any

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float32]
Half = NDArray[np.float16]
Int8 = NDArray[np.int8]

DIMENSIONS = 256
"""Of a projected token vector, in 4 bits each: 128 bytes a token. On planted facts any@10 .874, with 128 in 8 bits .868."""
LEVELS = 7
"""Steps on either side of 0: four bits, without the code -8."""
SOME = 512
"""Vectors that are compared in one go."""
REACH = 3.0
"""Standard deviations of a component that the outermost step stands for; beyond it lie 0.3 % of them."""


def step(dimensions: int) -> float:
    """What one step of a code is worth: components of a rotated unit vector have the deviation 1 / sqrt(dimensions)."""
    return float(REACH / (LEVELS * np.sqrt(dimensions)))


def rotation(dimensions: int) -> Float:
    """A fixed orthogonal matrix (float32[dimensions, dimensions]), the same on every machine."""
    random = np.random.default_rng(dimensions).standard_normal((dimensions, dimensions))
    turned, upper = np.linalg.qr(random)
    return np.asarray(turned * np.sign(np.diag(upper)), np.float32)


def calibration() -> list[str]:
    """The sentences from which a model's basis is computed: ours, fixed, so that every rebuild finds the same basis."""
    text = (importlib.resources.files("ormahd.embedding") / "calibration.txt").read_text("utf-8")
    return [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]


def basis(tokens: Float, dimensions: int) -> Float:
    """The `dimensions` directions (float32[width, dimensions]) that keep most of the dot products of `tokens`.

    `tokens`: unit vectors, float32[n, width]. Not centred, because dot products are what is compared. Computed in
    float64, and each direction points to where its largest component is positive, so that it does not depend on how
    the linear algebra library chose the sign.
    """
    wide = tokens.astype(np.float64)
    _, vectors = np.linalg.eigh(wide.T @ wide)
    chosen = vectors[:, ::-1][:, :dimensions]
    signs = np.sign(chosen[np.abs(chosen).argmax(axis=0), np.arange(chosen.shape[1])])
    return np.ascontiguousarray((chosen * signs @ rotation(chosen.shape[1])).astype(np.float32))


def unit(vectors: NDArray[Any]) -> Float:
    """Rows of length 1; a row of zeros stays one."""
    wide = vectors.astype(np.float32, copy=False)
    lengths = np.sqrt(np.einsum("ij,ij->i", wide, wide))
    return np.asarray(wide / np.maximum(lengths, 1e-12)[:, None], np.float32)


def project(tokens: Float, onto: Float) -> Float:
    """Token vectors, of any length, in the small basis, of unit length: float32[n, dimensions]."""
    return unit(tokens @ onto)


def quantise(small: Float) -> Int8:
    """Codes int8[n, dimensions] from -7 to 7; times `step`, their dot product with a projected vector is the cosine."""
    scaled = small / step(small.shape[1])
    np.rint(scaled, out=scaled)
    return np.clip(scaled, -LEVELS, LEVELS, out=scaled).astype(np.int8)


def pack(codes: Int8) -> bytes:
    """Two codes a byte, as they are stored; the number of dimensions is even."""
    shifted = (codes + (LEVELS + 1)).astype(np.uint8)
    return (shifted[:, 0::2] | shifted[:, 1::2] << 4).tobytes()


def cosines(packed: NDArray[np.uint8], tokens: Float) -> Float:
    """Of stored token vectors (`pack`, uint8[n, dimensions / 2]) and a question's (unit, float32[m, dimensions]): float32[n, m].

    The codes are not put side by side again: each half of a byte goes with its half of the question's numbers. What is made of
    some hundred of them stays in the processor's cache.
    """
    question = tokens.T * np.float32(step(tokens.shape[1]))
    low, high = np.ascontiguousarray(question[0::2]), np.ascontiguousarray(question[1::2])
    found = np.empty((len(packed), len(tokens)), np.float32)
    for at in range(0, len(packed), SOME):
        some = packed[at : at + SOME]
        found[at : at + SOME] = (some & 15).astype(np.float32) @ low + (some >> 4).astype(np.float32) @ high
    found -= np.float32(LEVELS + 1) * question.sum(axis=0)
    return found
