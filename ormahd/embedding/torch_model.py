"""A model on torch, loaded by sentence-transformers: the reference for `check.py`, and the runtime of unsupported
models.

Importing both is slow and takes much memory, so it is done only if a model needs it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ormahd.embedding.embedder import About
from ormahd.embedding.model_files import load_files, tokenizer_of
from ormahd.embedding.token_vectors import Float
from ormahd.settings import EmbeddingSettings


class Torch:
    """Forward passes of a SentenceTransformer, each on one core: two cores are no faster in bulk, and slower on a busy
    machine."""

    name = "torch"

    def __init__(self, where: Path | str, settings: EmbeddingSettings) -> None:
        """Load the model. Raises Unavailable, with a hint, if its files are not on this machine."""
        self.model = load_files(where, settings)
        import torch

        self.version = str(torch.__version__)
        kind = next(self.model.parameters()).dtype
        self.precision = {torch.float32: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16"}.get(kind, str(kind))
        self._wants_types = "token_type_ids" in self.model.tokenizer.model_input_names

    def about(self, name: str) -> About:
        prompts = self.model.prompts or {}
        return About(
            tokenizer=tokenizer_of(self.model, name),
            window=int(self.model.max_seq_length or 512),
            pad=int(self.model.tokenizer.pad_token_id or 0),
            query=prompts.get("query") or "",
            document=prompts.get("document") or "",
        )

    def pooling(self) -> str | None:
        """Return how token vectors are pooled ("mean" or "cls"); None if anything else follows the transformer."""
        kinds = [type(module).__name__ for module in self.model]
        if kinds[:2] != ["Transformer", "Pooling"] or kinds[2:] not in ([], ["Normalize"]):
            return None
        found = self.model[1].pooling_mode
        return found if found in {"mean", "cls"} else None

    def give_back(self) -> None:
        """Do nothing: torch holds only the weights in memory, and they are needed."""

    def forward(self, ids: NDArray[np.int64], mask: NDArray[np.bool_]) -> tuple[Float, Float]:
        """Run a pass, see `forward.Runtime`."""
        import torch

        features: dict[str, Any] = {
            "input_ids": torch.from_numpy(ids),
            "attention_mask": torch.from_numpy(mask.astype(np.int64)),
        }
        if self._wants_types:
            features["token_type_ids"] = torch.zeros_like(features["input_ids"])
        torch.set_num_threads(1)  # for this thread
        with torch.inference_mode():
            out = self.model(features)
        return out["sentence_embedding"].float().numpy(), out["token_embeddings"].float().numpy()
