"""Small models with random weights, as sentence-transformers saves them; their tokenizer is the default model's."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from ormahd.embedding import model_files

WIDTH, VOCABULARY = 32, 30_522


def make(folder: Path, *, kind: str = "bert", pooling: str = "mean", more: str | None = None, **config: Any) -> Path:
    """Write a model of one of transformers' kinds into `folder`; `more`: a module after the pooling."""
    model_files.stay_offline()
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.models import Dense, Normalize, Pooling, Transformer
    from transformers import AutoConfig, AutoModel, AutoTokenizer

    default = model_files.find_model(model_files.DEFAULT_MODEL)
    torch.manual_seed(7)
    shape = {"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": WIDTH, "intermediate_size": 64}
    if kind == "distilbert":
        shape = {"n_layers": 2, "n_heads": 4, "dim": WIDTH, "hidden_dim": 64}
    given = {"vocab_size": VOCABULARY, "max_position_embeddings": 80, "pad_token_id": 0, **shape, **config}
    plain = folder.with_name(f"{folder.name}-plain")
    AutoModel.from_config(AutoConfig.for_model(kind, **given)).save_pretrained(plain)
    AutoTokenizer.from_pretrained(str(default), model_max_length=64).save_pretrained(plain)
    modules = [Transformer(str(plain), max_seq_length=64), Pooling(WIDTH, pooling_mode=pooling)]
    modules += [Normalize()] if more == "Normalize" else [Dense(WIDTH, 16)] if more == "Dense" else []
    SentenceTransformer(modules=modules, device="cpu").save(str(folder))
    shutil.rmtree(plain)
    return folder


def edit(file: Path, **changes: Any) -> None:
    """Change a JSON file of a model."""
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))
