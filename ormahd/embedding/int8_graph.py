"""The encoder of `onnx_graph.py` in eight bits, for texts of the same length.

A question has a handful of tokens: the fewer operators, the better (each costs some microseconds, and there are hundreds). So
query, key and value come from one product, and attention is one operator of ONNX Runtime's own. Nothing is padded, so nothing is
masked. What is multiplied is rounded by steps that are fixed, or that each token has for itself, so a text's numbers are the same to the
last bit whatever others are in the pass.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from ormahd.embedding.onnx_graph import INT64, POSITIONS, TOKENS, Shape, Weight, Writer

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
