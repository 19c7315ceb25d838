"""A model in an ONNX file: the same vectors in any company, nobody told, and files that cannot serve."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ormahd.embedding import model as choose
from ormahd.embedding import model_files
from ormahd.embedding.embedder import Embedder
from ormahd.errors import Unavailable
from ormahd.settings import EmbeddingSettings
from tests import models
from tests.contract.models_as_folders import folder
from tests.surroundings import surroundings

TEXTS = [f"Note {number} about the billing service. {'And more of it. ' * (number % 9)}" for number in range(31)]


def test_the_default_models_files_are_the_pinned_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:  # fmt: skip
    model_files.identity(model_files.DEFAULT_MODEL)
    assert not caplog.text
    for name in (model_files.WEIGHTS, model_files.TOKENIZER):
        (tmp_path / name).write_text("{}")
    monkeypatch.setattr(model_files, "BUNDLED", tmp_path)
    model_files.identity(model_files.DEFAULT_MODEL)
    assert all(sha256 in caplog.text for sha256 in model_files.SHA256.values())


@pytest.mark.parametrize("urgent", [False, True])
def test_a_texts_vectors_do_not_depend_on_what_is_embedded_beside_it(model: Embedder, urgent: bool) -> None:
    together = model.embed_documents([*TEXTS, "a long one " * 900], urgent=urgent)
    assert len(together[-1].pieces) > 1
    for text, found in zip(TEXTS, together, strict=False):
        (alone,) = model.embed_documents([text])[0].pieces
        (piece,) = found.pieces
        assert piece.vector.tobytes() == alone.vector.tobytes()
        assert (piece.token_ids == alone.token_ids).all()
        assert (piece.tokens == alone.tokens).mean() > 0.999


def test_the_same_question_gets_the_same_bits(model: Embedder, tmp_path: Path) -> None:
    question = "Which database does the billing service use?"
    before = model.embed_query(question)
    model.embed_documents(TEXTS)
    again = model.embed_query(question)
    assert before.vector.tobytes() == again.vector.tobytes()
    assert before.wide.tobytes() == again.wide.tobytes()
    with models.made_once(tmp_path / "models"):
        loaded = choose.load(EmbeddingSettings(), tmp_path / "models")
    assert before.vector.tobytes() == loaded.embed_query(question).vector.tobytes()


def test_a_folder_with_the_same_files_gives_the_same_vectors(model: Embedder, tmp_path: Path) -> None:
    mine = choose.load(EmbeddingSettings(model=str(folder(tmp_path / "mine"))), tmp_path / "models")
    assert mine.embed_query("tea").vector.tobytes() == model.embed_query("tea").vector.tobytes()


def test_what_is_no_model_is_said_by_name(tmp_path: Path) -> None:
    place = folder(tmp_path / "mine")
    (place / model_files.WEIGHTS).unlink()
    (place / model_files.WEIGHTS).write_bytes(b"no model")
    with pytest.raises(Unavailable) as unavailable:
        choose.load(EmbeddingSettings(model=str(place)), tmp_path / "models")
    assert str(place) in unavailable.value.message
    assert "ormahctl model use" in (unavailable.value.hint or "")


LOADED = """
import json, sys
from pathlib import Path
from ormahd.embedding import model as embed
from ormahd.settings import EmbeddingSettings
made = embed.load(EmbeddingSettings(), Path("index"))
made.embed_documents(["some words", "and others"] * 3)
made.embed_query("what?")
print(json.dumps(sorted({"torch", "sentence_transformers", "transformers", "onnxruntime"} & sys.modules.keys())))
from chromadb.utils.embedding_functions import ONNXMiniLM_L6_V2
"""


def test_torch_is_not_loaded_and_nobody_is_told(tmp_path: Path) -> None:
    """ONNX Runtime has telemetry, on by default: a device id and a queue of events in the cache directory."""
    with models.made_once(tmp_path / "index"):
        done = subprocess.run(
            [sys.executable, "-c", LOADED], env=surroundings(tmp_path), cwd=tmp_path, capture_output=True, text=True, timeout=120
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == ["onnxruntime"]
    files = {file.relative_to(tmp_path).parts[0] for file in tmp_path.rglob("*") if file.is_file()}
    assert files == {"index"}
