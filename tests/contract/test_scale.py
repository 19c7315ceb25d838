"""The scale of a model's similarities, by which another model's are converted for the whisper's gate."""

from __future__ import annotations

from pathlib import Path

import pytest

from ormahd.embedding import model as choose
from ormahd.embedding import scale
from ormahd.embedding.embedder import Embedder
from ormahd.embedding.scale import USUAL, Scale, usual_cosine
from ormahd.settings import EmbeddingSettings
from tests.contract.models_as_folders import folder

CROWDED = Scale(cosine=(0.70, 0.72, 0.74, 0.76, 0.80, 0.83))


def test_the_default_model_has_the_usual_scale(model: Embedder) -> None:
    texts = scale.texts()
    found = scale.measure([model.embed_query(text) for text in texts], model.embed_documents(texts))
    assert found.cosine == pytest.approx(USUAL.cosine, abs=0.02)
    assert model.embed_query("one").scale is None


def test_similarities_are_converted_by_their_quantiles() -> None:
    assert usual_cosine(CROWDED, 0.74) == pytest.approx(USUAL.cosine[2], abs=0.01)
    assert usual_cosine(CROWDED, 1.0) == pytest.approx(1.0)
    assert usual_cosine(USUAL, 0.5) == pytest.approx(0.5, abs=0.01)
    values = [usual_cosine(CROWDED, value / 100) for value in range(-100, 101)]
    assert values == sorted(values)
    flat = Scale(cosine=(1.0,) * 6)
    assert usual_cosine(flat, 1.0) <= 1.0


def test_another_model_is_measured_once(tmp_path: Path) -> None:
    directory = tmp_path / "kept"
    settings = EmbeddingSettings(model=str(folder(tmp_path / "mine")))
    found = choose.load(settings, directory).embed_query("one").scale
    assert found is not None
    (file,) = directory.glob("scale-*.json")
    made = file.stat().st_mtime_ns
    assert choose.load(settings, directory).embed_query("two").scale == found
    assert file.stat().st_mtime_ns == made
