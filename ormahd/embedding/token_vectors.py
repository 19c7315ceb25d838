"""Small token vectors: projected by a fixed PCA basis, rotated, and quantised to 4 bits per dimension.

Late interaction compares each token of a query with each token of a note (ColBERT, arXiv:2004.12832). A model's token
vectors fill only part of its space, so part of the dimensions is enough. The basis is computed from fixed texts, not
from the vault, and captures less than a basis of the vault would; many dimensions with few bits each make up for that.
A fixed random rotation before quantisation spreads each vector evenly, so that one step size fits all dimensions.
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
"""Number of dimensions of a projected token vector. With 4 bits each, a token takes 128 bytes."""
LEVELS = 7
"""Number of quantisation steps on either side of 0. Four bits would allow a code -8, which is not used."""
SOME = 512
"""Number of token vectors multiplied in one go."""
REACH = 3.0
"""The outermost step in standard deviations of a component. The 0.3 % of components beyond are clipped."""


def step(dimensions: int) -> float:
    """Return the size of one quantisation step: components of a rotated unit vector have the deviation 1 /
    sqrt(dimensions)."""
    return float(REACH / (LEVELS * np.sqrt(dimensions)))


def rotation(dimensions: int) -> Float:
    """Return a fixed random orthogonal matrix (float32[dimensions, dimensions]), the same on every machine."""
    random = np.random.default_rng(dimensions).standard_normal((dimensions, dimensions))
    turned, upper = np.linalg.qr(random)
    return np.asarray(turned * np.sign(np.diag(upper)), np.float32)


def calibration() -> list[str]:
    """Return the fixed sentences from which a model's basis is computed, so that it is the same each time."""
    text = (importlib.resources.files("ormahd.embedding") / "calibration.txt").read_text("utf-8")
    return [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]


def basis(tokens: Float, dimensions: int) -> Float:
    """Return the `dimensions` directions, rotated, that preserve most of the dot products of `tokens`: float32[width,
    dimensions].

    `tokens`: unit vectors, float32[n, width]. They are not centred, because dot products are compared. Computed in
    float64, and each direction's largest component is made positive, so that the result does not depend on the linear
    algebra library.
    """
    wide = tokens.astype(np.float64)
    _, vectors = np.linalg.eigh(wide.T @ wide)
    chosen = vectors[:, ::-1][:, :dimensions]
    signs = np.sign(chosen[np.abs(chosen).argmax(axis=0), np.arange(chosen.shape[1])])
    return np.ascontiguousarray((chosen * signs @ rotation(chosen.shape[1])).astype(np.float32))


def unit(vectors: NDArray[Any]) -> Float:
    """Return the rows scaled to length 1; a row of zeros stays zero."""
    wide = vectors.astype(np.float32, copy=False)
    lengths = np.sqrt(np.einsum("ij,ij->i", wide, wide))
    return np.asarray(wide / np.maximum(lengths, 1e-12)[:, None], np.float32)


def project(tokens: Float, onto: Float) -> Float:
    """Return token vectors, of any length, in the basis and of unit length: float32[n, dimensions]."""
    return unit(tokens @ onto)


def quantise(small: Float) -> Int8:
    """Return codes int8[n, dimensions] from -7 to 7. Their dot product with a projected vector, times `step`, is the
    cosine."""
    scaled = small / step(small.shape[1])
    np.rint(scaled, out=scaled)
    return np.clip(scaled, -LEVELS, LEVELS, out=scaled).astype(np.int8)


def pack(codes: Int8) -> bytes:
    """Pack two codes into a byte, for storage. The number of dimensions must be even."""
    shifted = (codes + (LEVELS + 1)).astype(np.uint8)
    return (shifted[:, 0::2] | shifted[:, 1::2] << 4).tobytes()


def cosines(packed: NDArray[np.uint8], tokens: Float) -> Float:
    """Return the cosines of stored token vectors (`pack`, uint8[n, dimensions / 2]) and a query's (unit, float32[m,
    dimensions]).

    The shape is float32[n, m]. The codes are not unpacked: each half of the bytes is multiplied with its half of the
    query's numbers, `SOME` rows at a time, so that the data stays in the processor's cache.
    """
    question = tokens.T * np.float32(step(tokens.shape[1]))
    low, high = np.ascontiguousarray(question[0::2]), np.ascontiguousarray(question[1::2])
    found = np.empty((len(packed), len(tokens)), np.float32)
    for at in range(0, len(packed), SOME):
        some = packed[at : at + SOME]
        found[at : at + SOME] = (some & 15).astype(np.float32) @ low + (some >> 4).astype(np.float32) @ high
    found -= np.float32(LEVELS + 1) * question.sum(axis=0)
    return found
