"""A model in one ONNX file, run by ONNX Runtime.

Its memory arena is off, so that the memory of a pass is freed at its end.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ormahd.embedding.token_vectors import Float
from ormahd.errors import Unavailable

INPUTS = {"input_ids", "attention_mask", "token_type_ids"}
OUTPUT = "last_hidden_state"


class OnnxRuntime:
    """Runs the forward passes of a model on ONNX Runtime.

    Each pass uses the calling thread only, so bulk work and queries run at the same time. With a second thread a query
    would be slower on a busy machine.
    """

    name = "onnx"

    def __init__(self, file: Path, pooling: str) -> None:
        """Load the model in `file`. Raises Unavailable, with the reason, if that is not possible.

        `pooling`: "mean" or "cls".
        """
        # Since 1.29 ONNX Runtime otherwise writes a device id into the cache directory and sends events over the
        # network. The second variable is the older name of the first.
        os.environ["ORT_DISABLE_TELEMETRY"] = os.environ["ORT_TELEMETRY_DISABLED"] = "1"
        import onnxruntime

        self.version = str(onnxruntime.__version__)
        self._pooling = pooling
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3  # only errors, which are raised as well
        options.enable_cpu_mem_arena = False
        try:
            self._session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # its errors derive from Exception only
            raise _unfit_error(file, str(error).strip()[:300]) from error
        self._inputs = {one.name for one in self._session.get_inputs()}
        if not self._inputs <= INPUTS:
            raise _unfit_error(file, f"it needs the inputs {', '.join(sorted(self._inputs - INPUTS))}")
        if OUTPUT not in {one.name for one in self._session.get_outputs()}:
            raise _unfit_error(file, f"it has no output {OUTPUT}")

    def forward(self, ids: NDArray[np.int64], mask: NDArray[np.bool_]) -> tuple[Float, Float]:
        """Run a pass, see `token_vectors.Runtime`."""
        given: dict[str, NDArray[Any]] = {"input_ids": ids, "token_type_ids": np.zeros_like(ids)}
        given["attention_mask"] = mask.astype(np.int64)
        (tokens,) = self._session.run([OUTPUT], {name: given[name] for name in self._inputs})
        if self._pooling == "cls":
            return tokens[:, 0], tokens
        # Each text by itself: the order of a sum over all of them would depend on the longest.
        pooled = [row[:length].mean(axis=0) for row, length in zip(tokens, mask.sum(axis=1), strict=True)]
        return np.stack(pooled), tokens


def _unfit_error(file: Path, why: str) -> Unavailable:
    """Return the error for a model that ONNX Runtime cannot run. `why`: the reason."""
    return Unavailable(
        f"ONNX Runtime cannot run the embedding model {file}: {why}",
        hint="choose another one: ormahctl model use NAME",
    )
