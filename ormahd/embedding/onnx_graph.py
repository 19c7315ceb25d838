"""Write an encoder of the BERT family as an ONNX graph.

The architecture is small and fixed: word, position and type embeddings, then layers of attention and feed-forward
networks (arXiv:1810.04805; RoBERTa and XLM-R differ in the first position). An export with torch would be slow, need
two more packages, and write a second copy of the weights; here they stay in `model.safetensors`. This module does not
verify that a model has this architecture, because `check.py` compares its results with sentence-transformers.

The word embeddings are not part of the graph: the caller looks the rows up. `int8.py` writes another graph of the
same encoder, with int8 products.

A graph is a protobuf message (onnx.proto3, github.com/onnx/onnx). The few fields used are encoded here.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

OPSET = 20
"""Version of ONNX's operators: the first one with Gelu. ONNX Runtime supports it since 1.17."""
IR_VERSION = 9
FLOAT, UINT8, INT8, INT64 = 1, 2, 3, 7
"""Values of `TensorProto.DataType`."""

WORDS, POSITIONS, BIAS = "words", "positions", "bias"
"""Names of the inputs. WORDS: rows of `TABLE`, float32[texts, tokens, width]. POSITIONS: int64[texts or 1, tokens].
BIAS: float32 that broadcasts to [texts, heads, tokens, tokens] and is added to the attention scores; 0, or the
lowest number for padding."""
TABLE = "embeddings.word_embeddings.weight"
"""Name of the word embeddings, half of a small model. They are not in the graph, so that their memory can be freed."""
TOKENS = "tokens"
"""Name of the output: the token vectors of the last layer, float32[texts * tokens, width]."""


class Shape(Struct, frozen=True):
    """The sizes of an encoder, as its `config.json` tells them."""

    layers: int
    heads: int
    width: int
    epsilon: float
    """The epsilon of layer normalisation."""
    first: int = 0
    """The position of a text's first token."""


class Weight(Struct, frozen=True):
    """The position of a little-endian tensor in a file."""

    dims: tuple[int, ...]
    offset: int
    length: int
    """`offset` and `length` are in bytes."""
    kind: int = FLOAT
    """Type of its numbers: `FLOAT`, `UINT8`, `INT8` or `INT64`."""


def names(shape: Shape) -> list[str]:
    """Return the names of the weights that the graph uses, as in the library transformers. In some models' files each
    name has a prefix."""
    layer = [
        f"{part}.{kind}"
        for part in (
            "attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense",
            "attention.output.LayerNorm", "intermediate.dense", "output.dense", "output.LayerNorm",
        )
        for kind in ("weight", "bias")
    ]  # fmt: skip
    return [
        TABLE, "embeddings.position_embeddings.weight",
        "embeddings.token_type_embeddings.weight", "embeddings.LayerNorm.weight", "embeddings.LayerNorm.bias",
        *(f"encoder.layer.{number}.{name}" for number in range(shape.layers) for name in layer),
    ]  # fmt: skip


def matrices(shape: Shape) -> list[str]:
    """Return the names of the matrices by which activations are multiplied: the weights of all linear layers."""
    return [name for name in names(shape)[5:] if name.endswith(".weight") and "LayerNorm" not in name]


def multiplied(layer: int) -> tuple[str, str, str]:
    """Return the names, in `graph`, of three activations of a layer: float32[texts * tokens, width] each.

    They are the inputs of the attention's matrices, of its output's matrix, and of the first feed-forward matrix.
    """
    at = f"encoder.layer.{layer}."
    before = f"encoder.layer.{layer - 1}.output.LayerNorm" if layer else "embeddings.LayerNorm"
    return f"{before}.out", f"{at}flat", f"{at}attention.output.LayerNorm.out"


def graph(shape: Shape, file: str, weights: Mapping[str, Weight], *, seen: Sequence[str] = ()) -> bytes:
    """Return the encoder as an ONNX graph.

    `file`: name of the weights' file, without folder; `weights`: `{name: position in this file}`; `seen`: names of
    activations (`multiplied`) that are outputs besides `TOKENS`.
    """
    made = GraphWriter()
    each = shape.width // shape.heads
    made.floats("scale", each**-0.5)
    made.integers("flat", [-1, shape.width])
    placed = made.embed()
    made.node("Shape", [WORDS], "size", start=0, end=2)
    made.integers("per_head", [shape.heads, each])
    made.node("Concat", ["size", "per_head"], "heads", axis=0)
    made.node("Reshape", [placed, "flat"], "embedded")
    here = made.normalise("embedded", "embeddings.LayerNorm", shape.epsilon)
    for number in range(shape.layers):
        here = _layer(made, f"encoder.layer.{number}.", here, shape)
    made.node("Identity", [here], TOKENS)
    outside = {name: weights[name] for name in names(shape)[1:]}
    return made.model(shape, file, outside, {}, {POSITIONS: INT64, BIAS: FLOAT}, [TOKENS, *seen])


def _layer(made: GraphWriter, at: str, here: str, shape: Shape) -> str:
    turned = {}
    for part, order in (("query", (0, 2, 1, 3)), ("key", (0, 2, 3, 1)), ("value", (0, 2, 1, 3))):
        found = made.dense(here, f"{at}attention.self.{part}")
        parted = made.node("Reshape", [found, "heads"], f"{at}{part}.parted")
        turned[part] = made.node("Transpose", [parted], f"{at}{part}.turned", perm=order)
    likeness = made.node("MatMul", [turned["query"], turned["key"]], f"{at}likeness")
    scaled = made.node("Mul", [likeness, "scale"], f"{at}scaled")
    masked = made.node("Add", [scaled, BIAS], f"{at}masked")
    share = made.node("Softmax", [masked], f"{at}share", axis=-1)
    seen = made.node("MatMul", [share, turned["value"]], f"{at}seen")
    back = made.node("Transpose", [seen], f"{at}back", perm=(0, 2, 1, 3))
    flat = made.node("Reshape", [back, "flat"], f"{at}flat")
    attended = made.dense(flat, f"{at}attention.output.dense")
    added = made.node("Add", [attended, here], f"{at}added")
    here = made.normalise(added, f"{at}attention.output.LayerNorm", shape.epsilon)
    wide = made.dense(here, f"{at}intermediate.dense")
    bent = made.node("Gelu", [wide], f"{at}bent")
    narrow = made.dense(bent, f"{at}output.dense")
    summed = made.node("Add", [narrow, here], f"{at}summed")
    return made.normalise(summed, f"{at}output.LayerNorm", shape.epsilon)


class GraphWriter:
    """Collects the nodes and constants of a graph, encoded in protobuf, and writes the graph (`model`)."""

    def __init__(self) -> None:
        self._nodes: list[bytes] = []
        self._constants: list[bytes] = []
        self._domains = {""}

    def node(
        self, op: str, inputs: Sequence[str], output: str, domain: str = "", **attributes: float | Sequence[int]
    ) -> str:
        self.nodes(op, inputs, [output], domain, **attributes)
        return output

    def nodes(
        self, op: str, inputs: Sequence[str], outputs: Sequence[str], domain: str = "", **attributes: float | Sequence[int]
    ) -> None:  # fmt: skip
        """Add a node: the operator `op` of `domain`, with the names of its inputs and outputs."""
        self._domains.add(domain)
        given = b"".join(_field(5, _attribute(name, value)) for name, value in attributes.items())
        ends = b"".join(_text(1, one) for one in inputs) + b"".join(_text(2, one) for one in outputs)
        self._nodes.append(ends + _text(3, outputs[0]) + _text(4, op) + given + _text(7, domain))

    def embed(self) -> str:
        """Add the nodes that sum word, position and type embeddings (of type 0). Return the name of the sum."""
        self.integers("type", [0])
        self.node("Gather", ["embeddings.position_embeddings.weight", POSITIONS], "places")
        self.node("Gather", ["embeddings.token_type_embeddings.weight", "type"], "types")
        self.node("Add", [WORDS, "places"], "placed")
        return self.node("Add", ["placed", "types"], "typed")

    def dense(self, here: str, at: str) -> str:
        """Add the linear layer `at` with the input `here`: x · Wᵀ + b, W[out, in] as in torch. Return its output's
        name."""
        return self.node("Gemm", [here, f"{at}.weight", f"{at}.bias"], f"{at}.out", transB=1)

    def normalise(self, here: str, at: str, epsilon: float) -> str:
        return self.node(
            "LayerNormalization", [here, f"{at}.weight", f"{at}.bias"], f"{at}.out", axis=-1, epsilon=epsilon
        )

    def integers(self, name: str, values: Sequence[int]) -> None:
        data = b"".join(value.to_bytes(8, "little", signed=True) for value in values)
        self._constants.append(_tensor(name, INT64, [len(values)]) + _field(9, data))

    def byte(self, name: str, value: int) -> None:
        self._constants.append(_tensor(name, UINT8, []) + _field(9, bytes([value])))

    def floats(self, name: str, value: float) -> None:
        self._constants.append(_tensor(name, FLOAT, []) + _field(9, struct.pack("<f", value)))

    def model(
        self, shape: Shape, file: str, outside: Mapping[str, Weight], inside: Mapping[str, tuple[tuple[int, ...], bytes]],
        inputs: Mapping[str, int], outputs: Sequence[str],
    ) -> bytes:  # fmt: skip
        """Return the encoded model.

        `outside`: `{name: position}` of weights that stay in `file`; `inside`: `{name: (dimensions, bytes)}` of
        weights that the model contains; `inputs`: `{name: type}` of the inputs besides `WORDS`; `outputs`: names.
        """
        there = [
            _tensor(name, one.kind, one.dims) + _pair("location", file) + _pair("offset", str(one.offset))
            + _pair("length", str(one.length)) + _number(14, 1)
            for name, one in outside.items()
        ]  # fmt: skip
        here = [_tensor(name, FLOAT, dims) + _field(9, data) for name, (dims, data) in inside.items()]
        body = b"".join(_field(1, one) for one in self._nodes) + _text(2, "encoder")
        body += b"".join(_field(5, one) for one in (*self._constants, *here, *there))
        body += _field(11, _value(WORDS, FLOAT, ["texts", "tokens", shape.width]))
        for name, kind in inputs.items():
            dims = ("rows", "tokens") if kind == INT64 else ("a", "b", "c", "d")
            body += _field(11, _value(name, kind, dims))
        for name in outputs:
            body += _field(12, _value(name, FLOAT, ["all", shape.width]))
        sets = [_field(8, (_text(1, one) if one else b"") + _number(2, 1 if one else OPSET)) for one in sorted(self._domains)]  # fmt: skip
        return _number(1, IR_VERSION) + _text(2, "ormahd") + _field(7, body) + b"".join(sets)


def _tensor(name: str, kind: int, dims: Iterable[int]) -> bytes:
    return b"".join(_number(1, one) for one in dims) + _number(2, kind) + _text(8, name)


def _pair(key: str, value: str) -> bytes:
    return _field(13, _text(1, key) + _text(2, value))


def _value(name: str, kind: int, dims: Iterable[int | str]) -> bytes:
    sizes = b"".join(_field(1, _text(2, one) if isinstance(one, str) else _number(1, one)) for one in dims)
    return _text(1, name) + _field(2, _field(1, _number(1, kind) + _field(2, sizes)))


def _attribute(name: str, value: float | Sequence[int]) -> bytes:
    if isinstance(value, float):
        return _text(1, name) + _key(2, 5) + struct.pack("<f", value) + _number(20, 1)
    if isinstance(value, int):
        return _text(1, name) + _number(3, value) + _number(20, 2)
    return _text(1, name) + b"".join(_number(8, one) for one in value) + _number(20, 7)


# Protobuf: each field is a key (field number and wire type), then a varint, or a length and bytes


def _key(number: int, kind: int) -> bytes:
    return _varint(number << 3 | kind)


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1  # two's complement
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def _number(number: int, value: int) -> bytes:
    return _key(number, 0) + _varint(value)


def _field(number: int, data: bytes) -> bytes:
    return _key(number, 2) + _varint(len(data)) + data


def _text(number: int, value: str) -> bytes:
    return _field(number, value.encode())
