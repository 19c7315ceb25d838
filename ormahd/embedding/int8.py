"""A model with int8 matrices. It is used if it is faster on this processor and its vectors are nearly those of fp32.

A pass over a query reads every matrix for a few tokens, so its speed is limited by memory, and int8 has a quarter of
the bytes. A pass over notes is faster because the processor computes several int8 products at a time.

Activations are quantised too. A few of their columns always have large values, which would leave few steps for the
other columns. SmoothQuant (arXiv:2211.10438) scales these columns down, and the matrix's columns up instead. The
largest value of each column is measured on calibration texts, and fixes the quantisation range. The output of Gelu
has large values in other columns for each token, so it is quantised token by token. In both cases a text's vector
does not depend on other texts in the same pass.

Processors without VNNI add two products in a 16-bit register that saturates. Each row's scale is therefore so large
that the sum of two neighbouring products always fits (`PAIR`): a text has the same vector on every processor.

Notes and queries are both embedded this way; retrieval is as good as with fp32 (`tests/bench/README.md`). The
matrices are stored in a separate file, which is made once for each model.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from ormahd.embedding.model_files import in_place
from ormahd.embedding.onnx_graph import FLOAT, INT8, INT64, POSITIONS, TOKENS, GraphWriter, Shape, Weight, multiplied
from ormahd.embedding.token_vectors import Float

MOST = 127
"""Maximum code of a weight."""
PAIR = 128
"""Maximum sum of two neighbouring codes of the same sign. Times 255 (the largest code of an activation) it fits into 16
bits."""
SHARE = 0.7
"""Exponent of SmoothQuant: how much of the activations' range moves to the matrix. From 0.65 to 0.8 the results are the
same."""
SMALL = np.float32(1e-3)
"""Minimum of a column's range. It avoids a division by zero for columns that were 0 in all texts."""
TURNS = 5
"""Number of times that each pass is timed. The shortest time counts."""
PAYS = 0.8
"""int8 is used if its pass takes at most this share of the time of the pass in fp32."""


def quantise(matrix: Float) -> tuple[NDArray[np.int8], Float]:
    """Quantise a matrix W[rows, columns]. Return (codes, int8[columns, rows]; scales, float32[rows]).

    The processor first adds the products of columns 2n and 2n + 1. So that their sum fits, two codes of the same sign
    in these columns of a row sum to at most PAIR.
    """
    # PAIR - 1, because rounding may add half a step to each of the two codes.
    scales = np.maximum(np.abs(matrix).max(axis=1) / np.float32(MOST), _pairs(matrix) / np.float32(PAIR - 1))
    codes = np.rint(matrix / np.where(scales > 0, scales, np.float32(1.0))[:, None])
    return np.ascontiguousarray(codes.astype(np.int8).T), scales.astype(np.float32)


def _pairs(matrix: Float) -> Float:
    """Return for each row the largest absolute sum of two values of the same sign in columns 2n and 2n + 1."""
    rows, columns = matrix.shape
    pairs = np.pad(matrix, ((0, 0), (0, columns % 2))).reshape(rows, -1, 2)
    above, below = np.maximum(pairs, 0).sum(axis=2), np.minimum(pairs, 0).sum(axis=2)
    return np.asarray(np.maximum(above, -below).max(axis=1), np.float32)


def evening(matrix: Float, largest: Float) -> Float:
    """Return the SmoothQuant factors, float32[columns], of the activations that `matrix`, W[rows, columns],
    multiplies.

    `largest`: the largest measured activation of each column. Multiplied by its factor, it is at most HALF.
    """
    column, largest = np.maximum(np.abs(matrix).max(axis=0), SMALL), np.maximum(largest, SMALL)
    smooth = column ** (1 - SHARE) / largest**SHARE
    return np.asarray(smooth * (HALF / (largest * smooth).max()), np.float32)


def seen(shape: Shape) -> dict[str, str]:
    """Return `{name of a product: name of its input in the fp32 graph}`, for products whose inputs `evening` scales."""
    return {
        product.at: name
        for layer in range(shape.layers)
        for product, name in zip(products(layer), multiplied(layer), strict=False)
    }


def layout(shape: Shape, weights: Mapping[str, Weight]) -> tuple[dict[str, Int8Matrices], int]:
    """Return (`{name of a product: positions of its matrices in the int8 file}`, size of the file in bytes)."""
    even = seen(shape)
    found = {}
    at = 0
    for product in _products(shape):
        rows = sum(weights[f"{part}.weight"].dims[0] for part in product.parts)
        columns = weights[f"{product.parts[0]}.weight"].dims[1]
        codes = Weight((columns, rows), at, columns * rows, INT8)
        scales = Weight((rows,), at + codes.length, rows * 4, FLOAT)
        at += codes.length + scales.length
        factors = Weight((columns,), at, columns * 4, FLOAT) if product.at in even else None
        at += factors.length if factors else 0
        found[product.at] = Int8Matrices(codes, scales, factors)
    return found, at


def store(shape: Shape, weights: Mapping[str, Weight], source: Path, largest: Mapping[str, Float], file: Path) -> None:
    """Quantise the matrices in `source`, a model's file, and write them to `file`, atomically.

    `weights`: `{name: position in source}`; `largest`: `{name of an input (`seen`): largest measured activation of
    each column}`.
    """
    mapped = np.memmap(source, np.uint8, "r")

    def read(name: str) -> Float:
        at = weights[f"{name}.weight"]
        return np.asarray(mapped[at.offset : at.offset + at.length].view("<f4").reshape(at.dims), np.float32)

    even = seen(shape)
    with in_place(file) as opened:
        for product in _products(shape):
            matrix = np.concatenate([read(part) for part in product.parts])
            more: tuple[Float, ...] = ()
            if product.at in even:
                more = (evening(matrix, largest[even[product.at]]),)
                matrix /= more[0]
            written: tuple[NDArray[np.generic], ...] = (*quantise(matrix), *more)
            for part in written:
                opened.write(part.astype(part.dtype.newbyteorder("<"), copy=False).tobytes())


def _products(shape: Shape) -> list[Product]:
    return [product for layer in range(shape.layers) for product in products(layer)]


def seconds(passes: Sequence[Callable[[], object]]) -> list[float]:
    """Return the shortest processor time of each of `passes`, in seconds. They are timed in turns, so that other
    processes slow them down equally."""
    best = [float("inf")] * len(passes)
    for _ in range(TURNS):
        for number, do in enumerate(passes):
            begun = time.thread_time()
            do()
            best[number] = min(best[number], time.thread_time() - begun)
    return best


OURS = "com.microsoft"
"""The domain of ONNX Runtime's own operators."""
HALF = 127
"""Maximum absolute value of a scaled activation. Codes are 0 to 255; an activation of 0 has the code HALF + 1."""
BELOW, ABOVE = 24, 231
"""Numbers of codes for values below 0 and above 0 in the output of Gelu."""
LARGEST = 0.17 * ABOVE / BELOW
"""Minimum of the largest value that is assumed of a token's output of Gelu. With it the codes below 0 reach to
-0.17, and Gelu is never less."""


class Int8Matrices(Struct, frozen=True):
    """Where the int8 file has the quantised matrix W[rows, columns] of a product. If the product has several
    matrices, W is these, concatenated by rows."""

    codes: Weight
    """int8[columns, rows]: the codes of the weights."""
    scales: Weight
    """float32[rows]: a weight is its code × the scale of its row."""
    even: Weight | None
    """float32[columns]: the factors (`evening`) by which activations are multiplied and W was divided. None for the
    output of Gelu, which is quantised token by token."""


class Product(Struct, frozen=True):
    """A matrix product in a layer."""

    at: str
    """Its name in the graph."""
    parts: tuple[str, ...]
    """Names of its matrices in the model's file, without `.weight`, and of its biases, without `.bias`."""


def products(layer: int) -> tuple[Product, ...]:
    """Return the products of a layer in order: attention (query, key and value in one), output of the attention, first
    and second matrix of the feed-forward network."""
    at = f"encoder.layer.{layer}."
    each = f"{at}attention.self"
    return (
        Product(each, (f"{each}.query", f"{each}.key", f"{each}.value")),
        *(Product(f"{at}{one}", (f"{at}{one}",)) for one in ("attention.output.dense", "intermediate.dense", "output.dense")),
    )  # fmt: skip


def graph(
    shape: Shape, file: str, eight: Mapping[str, Int8Matrices], inside: Mapping[str, tuple[tuple[int, ...], bytes]]
) -> bytes:
    """Return the ONNX graph of the model with int8 products.

    `eight`: `{name of a product: positions of its matrices}` in `file`; `inside`: `{name: (dimensions, bytes)}` of all
    other weights, with one bias for each product.
    """
    made = GraphWriter()
    made.integers("thirds", [shape.width] * 3)
    made.integers("flat", [-1, shape.width])
    made.integers("last", [-1])
    made.floats("one", 1.0)
    made.byte("middle", HALF + 1)
    made.floats("step", 1 / ABOVE)
    made.floats("floor", LARGEST)
    made.byte("low", BELOW)
    here = made.normalise(made.embed(), "embeddings.LayerNorm", shape.epsilon)
    for number in range(shape.layers):
        here = _layer(made, f"encoder.layer.{number}.", number, here, shape, eight)
    made.node("Reshape", [here, "flat"], TOKENS)
    outside: dict[str, Weight] = {}
    for name, one in eight.items():
        outside |= {f"{name}.codes": one.codes, f"{name}.scales": one.scales}
        if one.even is not None:
            outside[f"{name}.even"] = one.even
    return made.model(shape, file, outside, inside, {POSITIONS: INT64}, [TOKENS])


def _layer(made: GraphWriter, at: str, number: int, here: str, shape: Shape, eight: Mapping[str, Int8Matrices]) -> str:
    attention, output, wide, narrow = (one.at for one in products(number))
    parts = [f"{attention}.{one}" for one in ("query", "key", "value")]
    made.nodes("Split", [_product(made, here, attention, eight), "thirds"], parts, axis=2)
    seen = made.node("MultiHeadAttention", parts, f"{attention}.seen", OURS, num_heads=shape.heads)
    added = made.node("Add", [_product(made, seen, output, eight), here], f"{at}added")
    here = made.normalise(added, f"{at}attention.output.LayerNorm", shape.epsilon)
    bent = made.node("Gelu", [_product(made, here, wide, eight)], f"{at}bent")
    summed = made.node("Add", [_product(made, bent, narrow, eight), here], f"{at}summed")
    return made.normalise(summed, f"{at}output.LayerNorm", shape.epsilon)


def _product(made: GraphWriter, here: str, at: str, eight: Mapping[str, Int8Matrices]) -> str:
    if eight[at].even is not None:
        even = made.node("Mul", [here, f"{at}.even"], f"{at}.made.even")
        codes = made.node("QuantizeLinear", [even, "one", "middle"], f"{at}.given")
        return multiply(made, codes, at, "one", "middle", f"{at}.bias")
    top = made.node("ReduceMax", [here, "last"], f"{at}.top", keepdims=1)
    most = made.node("Max", [top, "floor"], f"{at}.most")
    unit = made.node("Div", [here, most], f"{at}.unit")
    codes = made.node("QuantizeLinear", [unit, "step", "low"], f"{at}.given")
    scaled = made.node("Mul", [multiply(made, codes, at, "step", "low"), most], f"{at}.scaled")
    return made.node("Add", [scaled, f"{at}.bias"], f"{at}.out")


def multiply(made: GraphWriter, codes: str, at: str, step: str, zero: str, bias: str = "") -> str:
    """Add to the graph `made` the product of the quantised activations `codes` with the matrix of the product `at`.
    Return the name of the output. `step`, `zero`: names of the activations' scale and zero point; `bias`: name of the
    bias, empty for none."""
    given = [codes, f"{at}.codes", step, f"{at}.scales", zero, "", bias]
    return made.node("MatMulIntegerToFloat", given, f"{at}.product", OURS)
