"""A model on ONNX Runtime: the graph of its family (`onnx_graph.py`) over the weights in its own files.

Measured for the default model on one core, beside the same forward pass through torch: a question of 14 tokens 3.9 ms
(7.3), 32 notes of 20 tokens 69 ms (160). The weights are mapped, not read: 51 MB more in memory, and after bulk work
as much again, because nothing is kept between two passes (ONNX Runtime's arena would keep 320 MB, and is no faster).
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
"""`model_type` of the models whose encoder `onnx_graph.py` writes."""
OFFSET_FAMILY = FAMILY - {"bert"}
"""Of these, those whose first position comes after that of the padding."""
HEADER_MOST = 100_000_000
"""Bytes that the header of a file of weights may have (as safetensors itself has it)."""
FAR = np.float32(np.finfo(np.float32).min)
"""Added to the attention's score of what is no token."""
NEAR = np.zeros((1, 1, 1, 1), np.float32)
"""The same where all are tokens."""
HINT = "leave embedding.runtime at `auto`, or set it to `torch`; it is slower and takes more memory"


class OnnxRuntime:
    """Forward passes, each on the thread that asks: bulk work and questions run beside each other.

    A second thread for a question helps on a free machine and harms on a busy one, where it counts: 14 tokens took 2.6
    ms instead of 4.2 with two threads that wait spinning, 8.2 instead of 4.5 beside other work (load 4 on 2 cores).
    """

    name = "onnx"

    def __init__(self, folder: Path, pooling: str, eight: Path | None = None) -> None:
        """`folder`: of the model; `pooling`: "mean" or "cls"; `eight`: the file of its matrices in eight bits (`round_off`),
        which serve instead of those in full.

        Raises Unavailable, with the reason, when this model does not run here.
        """
        shape, weights, file = parts(folder)
        onnxruntime = _library()
        self.version = str(onnxruntime.__version__)
        self._folder = folder
        self._pooling = pooling
        self._first = shape.first
        self.positions = weights["embeddings.position_embeddings.weight"].dims[0] - shape.first
        """Tokens that a text may have."""
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
        """Write the matrices in eight bits to `file` (`int8.py`), by what the model makes of `texts`, ids[tokens] each; the
        model with those.

        Raises Unavailable, with the reason, where that does not run here, and OSError where `file` cannot be written.
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
        """See `forward.Runtime`."""
        self._table.give_back()

    def forward(self, ids: NDArray[np.int64], mask: NDArray[np.bool_]) -> tuple[Float, Float]:
        """See `forward.Runtime`. In eight bits only texts of the same length go together: each product then reads its matrix once for
        all of them, and a text's vector does not depend on its neighbours'. Padding would change it in the last bit."""
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
            tokens[rows, :length] = self._through(ids[rows, :length], {})  # what is no token follows those that are
        return tokens

    def _through(self, ids: NDArray[np.int64], hiding: dict[str, NDArray[Any]]) -> Float:
        """float32[*ids.shape, width]. `hiding`: the session's input that hides padding, where it has one."""
        (flat,) = self._session.run([onnx_graph.TOKENS], self._given(ids) | hiding)
        return np.asarray(flat.reshape(*ids.shape, self._width), np.float32)

    def _given(self, ids: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
        """A session's inputs, but for what hides padding."""
        places = np.arange(self._first, self._first + ids.shape[1], dtype=np.int64)[None]
        return {onnx_graph.WORDS: self._table.rows(ids), onnx_graph.POSITIONS: places}


def unfit(folder: Path, why: str, *, fault: bool = False) -> Unavailable:
    """`fault`: it ought to work, and somebody should know that it does not."""
    return Unavailable(
        f"the embedding model in {folder} does not run on ONNX Runtime: {why}",
        hint=HINT,
        data={"why": why, "fault": fault},
    )


def parts(folder: Path) -> tuple[Shape, dict[str, Weight], Path]:
    """What the graph is made of: the encoder's numbers, where its weights lie, and in which file.

    Raises Unavailable where the model is more than an encoder of the family, a pooling and a normalisation.
    """
    with _reading(folder, "modules.json"):
        file = folder / "modules.json"
        listed = json.loads(file.read_bytes()) if file.exists() else []  # without: a bare encoder, pooled by mean
        kinds = [str(one["type"]).rpartition(".")[2] for one in listed]
        encoder = folder / str(listed[0]["path"]) if listed else folder
    if kinds and (kinds[:2] != ["Transformer", "Pooling"] or kinds[2:] not in ([], ["Normalize"])):
        raise unfit(folder, f"its modules are {', '.join(kinds)}")
    with _reading(folder, "config.json"):
        shape = _shape(folder, json.loads((encoder / "config.json").read_bytes()))
    file = Path(os.path.realpath(encoder / WEIGHTS))  # in the Hugging Face cache it is a link
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
    """Where each weight lies. The format: the header's length in 8 bytes, the header in JSON, tensors."""
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
    """Everything but matrices and the table of words, and of each product in eight bits the biases, one after the other."""
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
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:  # not what such a file holds
        raise unfit(folder, f"{name} is not as expected ({error!r})") from error


def _library() -> Any:
    """ONNX Runtime, told to stay silent before it is there: since 1.29 it writes a device id into the cache directory
    and sends events over the network, unless one of these says no (the second is the older name)."""
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
    """A session over `graph`, whose weights lie in the folder `weights`, of the model in `folder`."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3  # errors: they are raised as well
    options.enable_cpu_mem_arena = False
    options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(weights))
    try:
        return onnxruntime.InferenceSession(
            graph, options, providers=["CPUExecutionProvider"],
            # Addition and normalisation in one step is not vectorised: 92 ms for 32 notes of 20 tokens, 79 without it.
            disabled_optimizers=["SkipLayerNormFusion"],
        )  # fmt: skip
    except Exception as error:  # whatever it is made of, it derives from Exception only
        raise unfit(folder, str(error).strip()[:300], fault=True) from error


class WordTable:
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
