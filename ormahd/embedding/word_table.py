"""A model's table of words, mapped from its file: half of a small model, of which a vault uses a part."""

from __future__ import annotations

import mmap
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ormahd.embedding.onnx_graph import Weight
from ormahd.embedding.token_vectors import Float


class Table:
    """Rows of float32, read from any thread. What was read stays in memory until it is given back."""

    def __init__(self, file: Path, weight: Weight) -> None:
        with file.open("rb") as opened:
            self._mapped = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
        flat = np.frombuffer(self._mapped, "<f4", weight.length // 4, weight.offset)
        self._rows = flat.reshape(weight.dims)

    def rows(self, ids: NDArray[np.int64]) -> Float:
        """float32[*ids.shape, width]"""
        return self._rows[ids]

    def give_back(self) -> None:
        """Drop what was read; the system reads it again, most likely from its own cache."""
        if hasattr(mmap, "MADV_DONTNEED"):
            self._mapped.madvise(mmap.MADV_DONTNEED)
