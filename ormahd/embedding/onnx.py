"""A model on ONNX Runtime: the graph of its architecture (`onnx_graph.py`) with the weights in its own files.

On one core this is about twice as fast as torch, and it takes far less memory. The weights are memory-mapped. ONNX
Runtime's memory arena is off, so that the memory of a pass is freed at its end.
"""

from __future__ import annotations

import json
import mmap
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ormahd.embedding import int8, onnx_graph
from ormahd.embedding.onnx_graph import Shape, Weight
from ormahd.embedding.token_vectors import Float
from ormahd.errors import Unavailable

WEIGHTS = "model.safetensors"
FAMILY = {"bert", "roberta", "xlm-roberta", "camembert"}
"""Values of `model_type` in config.json for which `onnx_graph.py` can write the encoder."""
OFFSET_FAMILY = FAMILY - {"bert"}
"""Those of `FAMILY` in which the position of the first token is the id of the padding token + 1."""
HEADER_MOST = 100_000_000
"""Maximum number of bytes of the header of a weights file; the same as in safetensors."""
FAR = np.float32(np.finfo(np.float32).min)
"""Value that is added to the attention scores of padding, so that it has no influence."""
NEAR = np.zeros((1, 1, 1, 1), np.float32)
"""Values that are added to the attention scores if there is no padding."""
HINT = "leave embedding.runtime at `auto`, or set it to `torch`; it is slower and takes more memory"


class OnnxRuntime:
    """Runs the forward passes of a model on ONNX Runtime.

    Each pass uses the calling thread only, so bulk work and queries run at the same time. With a second thread a query
    would be slower on a busy machine.
    """

    name = "onnx"

    def __init__(self, folder: Path, pooling: str, eight: Path | None = None) -> None:
        """Load the model in `folder`. Raises Unavailable, with the reason, if it does not run on ONNX Runtime.

        `pooling`: "mean" or "cls"; `eight`: a file of int8 matrices that `round_off` wrote, None for fp32.
        """
        shape, weights, file = parts(folder)
        onnxruntime = _library()
        self.version = str(onnxruntime.__version__)
        self._folder = folder
        self._pooling = pooling
        self._first = shape.first
        self.positions = weights["embeddings.position_embeddings.weight"].dims[0] - shape.first
        """Maximum number of tokens in a text."""
        self._width = shape.width
        self._eight = eight is not None
        self._table = WordTable(file, weights[onnx_graph.TABLE])
        if eight is None:
            graph, place = onnx_graph.graph(shape, file.name, weights), file.parent
        else:
            matrices, _ = int8.layout(shape, weights)
            graph = int8.graph(shape, eight.name, matrices, _inside(shape, weights, file))
            place = eight.parent
        self._session = _session(onnxruntime, graph, place, folder)

    def round_off(self, file: Path, texts: Sequence[NDArray[np.int64]]) -> OnnxRuntime:
        """Write the model's matrices in int8 (`int8.py`) to `file`, and return the model that uses them.

        `texts`: token ids of each text on which the ranges of activations are measured. Raises Unavailable, with the
        reason, if int8 does not run here, and OSError if `file` cannot be written.
        """
        shape, weights, source = parts(self._folder)
        names = sorted(set(int8.seen(shape).values()))
        graph = onnx_graph.graph(shape, source.name, weights, seen=names)
        session = _session(_library(), graph, source.parent, self._folder)
        largest = dict.fromkeys(names, np.zeros(shape.width, np.float32))
        for ids in texts:
            given = self._given(ids[None]) | {onnx_graph.BIAS: NEAR}
            for name, values in zip(names, session.run(names, given), strict=True):
                largest[name] = np.maximum(largest[name], np.abs(values).max(axis=0))
        int8.store(shape, weights, source, largest, file)
        return OnnxRuntime(self._folder, self._pooling, file)

    def give_back(self) -> None:
        """Free RAM, see `token_vectors.Runtime`."""
        self._table.give_back()

    def forward(self, ids: NDArray[np.int64], mask: NDArray[np.bool_]) -> tuple[Float, Float]:
        """Run a pass, see `token_vectors.Runtime`.

        In int8, texts of different length are run in separate passes: with padding a text's vector would depend in the
        last bit on the other texts.
        """
        tokens = self._alike(ids, mask) if self._eight else self._together(ids, mask)
        if self._pooling == "cls":
            return tokens[:, 0], tokens
        share = mask.astype(np.float32) / mask.sum(axis=1, dtype=np.float32, keepdims=True)
        return np.einsum("ts,tsw->tw", share, tokens), tokens

    def _together(self, ids: NDArray[np.int64], mask: NDArray[np.bool_]) -> Float:
        bias = NEAR if mask.all() else np.where(mask, np.float32(0.0), FAR)[:, None, None, :]
        return self._through(ids, {onnx_graph.BIAS: bias})

    def _alike(self, ids: NDArray[np.int64], mask: NDArray[np.bool_]) -> Float:
        if mask.all():
            return self._through(ids, {})
        tokens = np.zeros((*ids.shape, self._width), np.float32)
        lengths = mask.sum(axis=1)
        for length in np.unique(lengths).tolist():
            rows = np.flatnonzero(lengths == length)
            tokens[rows, :length] = self._through(ids[rows, :length], {})  # padding comes last
        return tokens

    def _through(self, ids: NDArray[np.int64], hiding: dict[str, NDArray[Any]]) -> Float:
        """Run the graph, and return the token vectors, float32[*ids.shape, width]. `hiding`: `{name: value}` of the
        graph's input that masks padding; empty if the graph has no such input."""
        (flat,) = self._session.run([onnx_graph.TOKENS], self._given(ids) | hiding)
        return np.asarray(flat.reshape(*ids.shape, self._width), np.float32)

    def _given(self, ids: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
        """Return `{name: values}` of the graph's inputs for these token ids, without the one that masks padding."""
        places = np.arange(self._first, self._first + ids.shape[1], dtype=np.int64)[None]
        return {onnx_graph.WORDS: self._table.rows(ids), onnx_graph.POSITIONS: places}


def unfit(folder: Path, why: str, *, fault: bool = False, hint: str = HINT) -> Unavailable:
    """Return the error that the model in `folder` does not run on ONNX Runtime. `fault`: whether it ought to run, so
    that the error is worth a warning."""
    return Unavailable(
        f"the embedding model in {folder} does not run on ONNX Runtime: {why}",
        hint=hint,
        data={"why": why, "fault": fault},
    )


def parts(folder: Path) -> tuple[Shape, dict[str, Weight], Path]:
    """Return (sizes of a model's encoder, `{name: position of the weight in the file}`, the file of the weights).

    Raises Unavailable if the model has other modules than a supported encoder, a pooling and a normalisation.
    """
    with _reading(folder, "modules.json"):
        file = folder / "modules.json"
        listed = json.loads(file.read_bytes()) if file.exists() else []  # none: a bare encoder, pooled by mean
        kinds = [str(one["type"]).rpartition(".")[2] for one in listed]
        encoder = folder / str(listed[0]["path"]) if listed else folder
    if kinds and (kinds[:2] != ["Transformer", "Pooling"] or kinds[2:] not in ([], ["Normalize"])):
        raise unfit(folder, f"its modules are {', '.join(kinds)}")
    with _reading(folder, "config.json"):
        shape = _shape(folder, json.loads((encoder / "config.json").read_bytes()))
    file = Path(os.path.realpath(encoder / WEIGHTS))  # a symlink in the Hugging Face cache
    with _reading(folder, WEIGHTS):
        return shape, _weights(folder, file, shape), file


def _shape(folder: Path, config: dict[str, Any]) -> Shape:
    kind = config.get("model_type")
    if kind not in FAMILY:
        raise unfit(folder, f"it is of the kind {kind!r}, not of {', '.join(sorted(FAMILY))}")
    for key, wanted in (("hidden_act", "gelu"), ("position_embedding_type", "absolute"), ("is_decoder", False)):
        if config.get(key, wanted) != wanted:
            raise unfit(folder, f"its config.json has {key} = {config[key]!r}")
    if config.get("quantization_config"):
        raise unfit(folder, "its weights are quantised")
    return Shape(
        layers=int(config["num_hidden_layers"]), heads=int(config["num_attention_heads"]),
        width=int(config["hidden_size"]), epsilon=float(config.get("layer_norm_eps", 1e-12)),
        first=int(config["pad_token_id"]) + 1 if kind in OFFSET_FAMILY else 0,
    )  # fmt: skip


def _weights(folder: Path, file: Path, shape: Shape) -> dict[str, Weight]:
    """Return `{name: position of the weight}` in the safetensors file `file`.

    The format: 8 bytes with the length of the header, the header in JSON, the tensors.
    """
    with file.open("rb") as opened:
        length = int.from_bytes(opened.read(8), "little")
        if length > HEADER_MOST:
            raise ValueError("it has no header")
        header = json.loads(opened.read(length))
        size = os.fstat(opened.fileno()).st_size
    wanted = onnx_graph.names(shape)
    prefix = next((name.removesuffix(wanted[0]) for name in header if name.endswith(wanted[0])), "")
    found = {}
    for name in wanted:
        entry = header[prefix + name]
        if entry["dtype"] != "F32":
            raise unfit(folder, f"its weights are {entry['dtype']}, not F32")
        begin, end = (8 + length + int(offset) for offset in entry["data_offsets"])
        if end > size:
            raise ValueError("it is cut off")
        found[name] = Weight(tuple(int(one) for one in entry["shape"]), begin, end - begin)
    return found


def _inside(shape: Shape, weights: dict[str, Weight], source: Path) -> dict[str, tuple[tuple[int, ...], bytes]]:
    """Return `{name: (dimensions, bytes)}` of the weights that the int8 graph contains itself.

    These are all except the large matrices and the word embeddings. The biases of queries, keys and values are
    concatenated to one, because one product computes all three.
    """
    large = {*onnx_graph.matrices(shape), onnx_graph.TABLE}
    with source.open("rb") as opened:
        found = {
            name: (one.dims, os.pread(opened.fileno(), one.length, one.offset))
            for name, one in weights.items()
            if name not in large
        }
    for layer in range(shape.layers):
        for product in int8.products(layer):
            biases = [found.pop(f"{part}.bias") for part in product.parts]
            rows = sum(dims[0] for dims, _ in biases)
            found[f"{product.at}.bias"] = (rows,), b"".join(data for _, data in biases)
    return found


@contextmanager
def _reading(folder: Path, name: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise unfit(folder, f"{name}: {error.strerror}") from error
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:  # unexpected contents
        raise unfit(folder, f"{name} is not as expected ({error!r})") from error


def _library() -> Any:
    """Import ONNX Runtime with its telemetry off.

    Since 1.29 it otherwise writes a device id into the cache directory and sends events over the network. The second
    environment variable is the older name of the first.
    """
    os.environ["ORT_DISABLE_TELEMETRY"] = os.environ["ORT_TELEMETRY_DISABLED"] = "1"
    try:
        import onnxruntime
    except ImportError as error:
        raise Unavailable(
            f"ONNX Runtime cannot be loaded: {error}",
            hint="install the package `onnxruntime`",
            data={"why": "it is not there"},
        ) from error
    return onnxruntime


def _session(onnxruntime: Any, graph: bytes, weights: Path, folder: Path) -> Any:
    """Return a session of ONNX Runtime that runs `graph`. `weights`: the folder of the files that the graph names;
    `folder`: that of the model, for errors."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3  # only errors, which are raised as well
    options.enable_cpu_mem_arena = False
    options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(weights))
    try:
        return onnxruntime.InferenceSession(
            graph, options, providers=["CPUExecutionProvider"],
            # The fused addition and normalisation is not vectorised, and slower.
            disabled_optimizers=["SkipLayerNormFusion"],
        )  # fmt: skip
    except Exception as error:  # its errors derive from Exception only
        raise unfit(folder, str(error).strip()[:300], fault=True) from error


class WordTable:
    """Looks up word embeddings in a memory-mapped file. Thread-safe. Rows stay in RAM until `give_back`."""

    def __init__(self, file: Path, weight: Weight) -> None:
        with file.open("rb") as opened:
            self._mapped = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
        flat = np.frombuffer(self._mapped, "<f4", weight.length // 4, weight.offset)
        self._rows = flat.reshape(weight.dims)

    def rows(self, ids: NDArray[np.int64]) -> Float:
        """Return the embeddings of these token ids: float32[*ids.shape, width]."""
        return self._rows[ids]

    def give_back(self) -> None:
        """Free the RAM of the rows that were read. They are read from the file again, usually from the page cache."""
        if hasattr(mmap, "MADV_DONTNEED"):
            self._mapped.madvise(mmap.MADV_DONTNEED)
