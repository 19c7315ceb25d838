"""Models as a person gives them: the default's files under another name, and the same model as torch reads it."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from ormahd.embedding import model_files
from ormahd.embedding.model_files import TOKENIZER, WEIGHTS


def folder(place: Path) -> Path:
    """Make the folder `place` with an ONNX file and a tokenizer: those of the default model."""
    found = model_files.onnx_files(model_files.DEFAULT_MODEL)
    assert found is not None
    place.mkdir(parents=True)
    (place / WEIGHTS).symlink_to(found.weights)
    (place / TOKENIZER).symlink_to(found.tokenizer)
    return place


def published() -> Path:
    """Return the folder of the default model as sentence-transformers published it, in fp32."""
    spec = importlib.util.find_spec(model_files.PACKAGES[TOKENIZER][0])
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).with_name("model")
