"""A model in eight bits: its matrices rounded, where that is quicker on this processor and costs nothing.

A question's forward pass reads every matrix for a handful of tokens, so it waits for memory, and a quarter of the bytes is
less to wait for; a note's has more tokens, and eight bits are multiplied two to four at a time. What is multiplied is rounded too. A few
of its numbers are always large (transformers have such) and would leave the others coarse. They are made even first, at the cost
of the matrix, whose columns take them over (SmoothQuant, arXiv:2211.10438): how large each becomes is measured on some texts, and that
is also where the steps end to which it is rounded. What leaves the widened layer has other large ones for each token, and is rounded
token by token. So a vector stays within a cosine of .994 of the exact one, .9989 on average, and does not depend on what is embedded beside it.
Plain, as ONNX Runtime's own tools round: .980 and .9936. With steps as wide as each text's own numbers, which must then go alone: .995 and
.9990. In blocks of 32 with a scale each (ggml's Q8_0): .998 and .9997, which takes twice as long and finds the same notes.

Processors without VNNI add two products in 16 bits, and what does not fit is cut off: the same matrices then gave .959 and .9935.
So each row's scale is as large as it takes that no two neighbours of it can ever sum up to too much (`PAIR`), which costs a
fifth of the codes. Then all sums are exact, and a text has the same vector on every processor.

Notes and questions alike: retrieval with both in eight bits is what it is with both in full (`tests/bench/README.md`).

The rounded matrices lie in a file of their own, made once for each model: a second for 42 MB of matrices.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from ormahd.embedding.model_files import in_place
from ormahd.embedding.onnx_graph import FLOAT, INT8, INT64, POSITIONS, TOKENS, Shape, Weight, Writer, multiplied
from ormahd.embedding.token_vectors import Float

MOST = 127
"""The largest code."""
PAIR = 128
"""The most that two neighbours of one sign come to: times 255, the largest code of what is multiplied, that fits into 16 bits."""
SHARE = 0.7
"""How much of what is large goes from what is multiplied to the matrix, as an exponent. Measured: .65 to .8 nearly alike, .5 worse."""
SMALL = np.float32(1e-3)
"""Numbers are not made even below this: nothing was seen there."""
TURNS = 5
"""Passes of each kind that are timed, in turns; the quickest count."""
PAYS = 0.8
"""Of the time of a full pass, what one in eight bits may take to be worth it."""


def quantise(matrix: Float) -> tuple[NDArray[np.int8], Float]:
    """Of W[rows, columns] the codes, int8[columns, rows], and the scales, float32[rows]: for columns 2n and 2n + 1, which are added
    first, codes of one sign come to PAIR at most."""
    # One less than PAIR is shared out, because each of the two may be rounded up by half a step.
    scales = np.maximum(np.abs(matrix).max(axis=1) / np.float32(MOST), _pairs(matrix) / np.float32(PAIR - 1))
    codes = np.rint(matrix / np.where(scales > 0, scales, np.float32(1.0))[:, None])
    return np.ascontiguousarray(codes.astype(np.int8).T), scales.astype(np.float32)


def _pairs(matrix: Float) -> Float:
    """The most that neighbouring columns 2n and 2n + 1 come to in each row, those of one sign: float32[rows]."""
    rows, columns = matrix.shape
    pairs = np.pad(matrix, ((0, 0), (0, columns % 2))).reshape(rows, -1, 2)
    above, below = np.maximum(pairs, 0).sum(axis=2), np.minimum(pairs, 0).sum(axis=2)
    return np.asarray(np.maximum(above, -below).max(axis=1), np.float32)


def evening(matrix: Float, largest: Float) -> Float:
    """What is multiplied with W[rows, columns] is to be multiplied with this first, float32[columns]: it then comes to HALF at most, in
    any of them; `largest`: how large each of its numbers becomes."""
    column, largest = np.maximum(np.abs(matrix).max(axis=0), SMALL), np.maximum(largest, SMALL)
    smooth = column ** (1 - SHARE) / largest**SHARE
    return np.asarray(smooth * (HALF / (largest * smooth).max()), np.float32)


def seen(shape: Shape) -> dict[str, str]:
    """Of the products that are made even, by name, what the full graph calls what is multiplied."""
    return {
        product.at: name
        for layer in range(shape.layers)
        for product, name in zip(products(layer), multiplied(layer), strict=False)
    }


def layout(shape: Shape, weights: Mapping[str, Weight]) -> tuple[dict[str, Eight], int]:
    """Where the matrices of each product lie in the file, and the file's size in bytes."""
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
        found[product.at] = Eight(codes, scales, factors)
    return found, at


def store(shape: Shape, weights: Mapping[str, Weight], source: Path, largest: Mapping[str, Float], file: Path) -> None:
    """Write `file`, all of it or nothing, from the weights in `source`. `largest`: float32[columns] by what `seen` names."""
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
    """What each takes of the processor at best, in turns: other processes hit them alike, and do not count."""
    best = [float("inf")] * len(passes)
    for _ in range(TURNS):
        for number, do in enumerate(passes):
            begun = time.thread_time()
            do()
            best[number] = min(best[number], time.thread_time() - begun)
    return best


OURS = "com.microsoft"
"""ONNX Runtime's own operators."""
HALF = 127
"""What is multiplied becomes codes from 0 to 255; where it is as often negative as not, 0 becomes one more than this."""
BELOW, ABOVE = 24, 231
"""Where it comes from Gelu: codes for what is below 0, and above."""
LARGEST = 0.17 * ABOVE / BELOW
"""The largest number of a token counts as so much at least: then what is below 0, which is -.17 at most, has codes."""


class Eight(Struct, frozen=True):
    """Matrices W[rows, columns] in eight bits, one under the other, as a product takes them."""

    codes: Weight
    """int8[columns, rows]"""
    scales: Weight
    """float32[rows]: a code times its row's scale is the number."""
    even: Weight | None
    """float32[columns]: what is multiplied with them is multiplied with this first, which makes whole numbers of up to `HALF` of it
    once it is rounded, and W was divided by it. None: what is multiplied comes from Gelu, and is rounded token by token instead."""


class Product(Struct, frozen=True):
    """One product of a layer."""

    at: str
    """Its name."""
    parts: tuple[str, ...]
    """The names of its matrices and biases, without `.weight` and `.bias`."""


def products(layer: int) -> tuple[Product, ...]:
    """Attention itself, its output, widening and narrowing."""
    at = f"encoder.layer.{layer}."
    each = f"{at}attention.self"
    return (
        Product(each, (f"{each}.query", f"{each}.key", f"{each}.value")),
        *(Product(f"{at}{one}", (f"{at}{one}",)) for one in ("attention.output.dense", "intermediate.dense", "output.dense")),
    )  # fmt: skip


def graph(
    shape: Shape, file: str, eight: Mapping[str, Eight], inside: Mapping[str, tuple[tuple[int, ...], bytes]]
) -> bytes:
    """`eight`: the matrices of each product by its name, in `file`; `inside`: all other weights, and a bias for each product."""
    made = Writer()
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


def _layer(made: Writer, at: str, number: int, here: str, shape: Shape, eight: Mapping[str, Eight]) -> str:
    attention, output, wide, narrow = (one.at for one in products(number))
    parts = [f"{attention}.{one}" for one in ("query", "key", "value")]
    made.nodes("Split", [_product(made, here, attention, eight), "thirds"], parts, axis=2)
    seen = made.node("MultiHeadAttention", parts, f"{attention}.seen", OURS, num_heads=shape.heads)
    added = made.node("Add", [_product(made, seen, output, eight), here], f"{at}added")
    here = made.normalise(added, f"{at}attention.output.LayerNorm", shape.epsilon)
    bent = made.node("Gelu", [_product(made, here, wide, eight)], f"{at}bent")
    summed = made.node("Add", [_product(made, bent, narrow, eight), here], f"{at}summed")
    return made.normalise(summed, f"{at}output.LayerNorm", shape.epsilon)


def _product(made: Writer, here: str, at: str, eight: Mapping[str, Eight]) -> str:
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


def multiply(made: Writer, codes: str, at: str, step: str, zero: str, bias: str = "") -> str:
    """The product of `codes`, in steps of `step` from `zero`, with the matrix `at`."""
    given = [codes, f"{at}.codes", step, f"{at}.scales", zero, "", bias]
    return made.node("MatMulIntegerToFloat", given, f"{at}.product", OURS)
