"""Questions in eight bits: the matrices of a model rounded, where that is quicker on this processor and costs nothing.

A question's forward pass reads every matrix for a handful of tokens, so it waits for memory, and a quarter of the bytes
is less to wait for. Each row is rounded in blocks of 32 with a scale each (ggml calls it Q8_0; arXiv:2208.07339 for
rounding in parts), and what is multiplied with it likewise, so a question's vector stays within a cosine of .998 of the
exact one, .9997 on average; with one scale for a whole pass (ONNX Runtime's dynamic quantisation) it is .985. Notes are
embedded in full: there are many tokens in a pass then, nothing is gained by it, and their vectors stay those of
sentence-transformers.

The rounded matrices lie in a file beside the index, made once for each model: a tenth of a second for 42 MB of matrices.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ormahd.index.embed_graph import FLOAT, UINT8, Eight, Shape, Weight, matrices
from ormahd.index.late import Float

BLOCK = 32
"""Numbers with one scale. With 128: a cosine of .997, and a seventh quicker."""
ZERO = 128
"""The code of 0."""
TURNS = 5
"""Passes of each kind that are timed, in turns; the quickest count."""
PAYS = 0.8
"""Of the time of a full pass, what one in eight bits may take to be worth it."""


def quantise(matrix: Float) -> tuple[NDArray[np.uint8], Float]:
    """Of W[rows, columns] the codes, uint8[rows, blocks, BLOCK], and the scales, float32[rows, blocks]."""
    rows, columns = matrix.shape
    filled = np.zeros((rows, -(-columns // BLOCK) * BLOCK), np.float32)
    filled[:, :columns] = matrix
    parted = filled.reshape(rows, -1, BLOCK)
    scales = np.abs(parted).max(axis=2) / np.float32(ZERO - 1)
    codes = np.rint(parted / np.where(scales > 0, scales, 1.0)[:, :, None]) + ZERO
    return codes.astype(np.uint8), scales.astype(np.float32)


def layout(shape: Shape, weights: Mapping[str, Weight]) -> tuple[dict[str, Eight], int]:
    """Where each matrix lies in the file, and the file's size in bytes."""
    found = {}
    at = 0
    for name in matrices(shape):
        rows, columns = weights[name].dims
        blocks = -(-columns // BLOCK)
        codes = Weight((rows, blocks, BLOCK), at, rows * blocks * BLOCK, UINT8)
        scales = Weight((rows * blocks,), at + codes.length, rows * blocks * 4, FLOAT)
        found[name] = Eight(columns, codes, scales)
        at += codes.length + scales.length
    return found, at


def store(shape: Shape, weights: Mapping[str, Weight], source: Path, file: Path) -> None:
    """Write `file`, all of it or nothing, from the weights in `source`."""
    mapped = np.memmap(source, np.uint8, "r")
    new = file.with_name(f"{file.name}.{os.getpid()}.new")
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        with new.open("wb") as opened:
            for name in matrices(shape):
                at = weights[name]
                for part in quantise(mapped[at.offset : at.offset + at.length].view("<f4").reshape(at.dims)):
                    opened.write(part.astype(part.dtype.newbyteorder("<"), copy=False).tobytes())
            opened.flush()
            os.fsync(opened.fileno())
        new.replace(file)
    finally:
        new.unlink(missing_ok=True)


def seconds(passes: Sequence[Callable[[], object]]) -> list[float]:
    """What each takes of the processor at best, in turns: other processes hit them alike, and do not count."""
    best = [float("inf")] * len(passes)
    for _ in range(TURNS):
        for number, do in enumerate(passes):
            begun = time.thread_time()
            do()
            best[number] = min(best[number], time.thread_time() - begun)
    return best
