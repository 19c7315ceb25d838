"""Token vectors, small: a fixed basis (PCA), int8.

Late interaction compares each token of a question with each token of a note (ColBERT, arXiv:2004.12832). The token
vectors of one text crowd in a part of the model's space, so a basis of 128 directions holds them: 128 dimensions in
int8 lost nothing on the shared benchmark, 64 one point (DESIGN section 9).
"""

from __future__ import annotations

import importlib.resources
from typing import Any

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float32]
Int8 = NDArray[np.int8]

SCALE = 127.0
"""int8 of a unit vector's component: value × 127."""


def calibration() -> list[str]:
    """The sentences from which a model's basis is computed: ours, fixed, so that every rebuild finds the same basis."""
    text = (importlib.resources.files("ormahd.index") / "calibration.txt").read_text("utf-8")
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
    return np.ascontiguousarray((chosen * signs).astype(np.float32))


def unit(vectors: NDArray[Any]) -> Float:
    """Rows of length 1; a row of zeros stays one."""
    wide = vectors.astype(np.float32, copy=False)
    lengths = np.sqrt(np.einsum("ij,ij->i", wide, wide))
    return np.asarray(wide / np.maximum(lengths, 1e-12)[:, None], np.float32)


def project(tokens: Float, onto: Float) -> Float:
    """Unit token vectors in the small basis, unit length again: float32[n, dimensions]."""
    return unit(tokens @ onto)


def quantise(small: Float) -> Int8:
    """int8[n, dimensions]; the dot product with a projected float vector, divided by 127, is their cosine."""
    return np.asarray(np.rint(small * SCALE), np.int8)
