"""The real model: the vectors that sentence-transformers gives, its tokens beside them, and what happens without files."""

import importlib.util
import logging
import shutil
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from ormahd.embedding import model as choose
from ormahd.embedding import model_files, token_vectors
from ormahd.embedding.model import Model
from ormahd.embedding.model_files import Torch
from ormahd.errors import Unavailable
from ormahd.settings import EmbeddingSettings
from tests import models

TEXTS = [
    "The user prefers green tea over coffee.", "", "x", "東京タワーに行きました。", "We chose Vite, because esbuild is quick. " * 5,
    *(f"Sentence number {number} is about {'cats ' * number}" for number in range(20)),
]  # fmt: skip


@pytest.fixture(scope="module")
def embedder(tmp_path_factory: pytest.TempPathFactory) -> Model:
    directory = tmp_path_factory.mktemp("index")
    made = choose.load(EmbeddingSettings(precision="fp32"), directory)
    assert isinstance(made, Model)
    assert made.served.runtime == "onnx"
    assert not list(directory.glob("checked-*")), "the packaged record is of another model, or of another format"
    return made


def test_importing_costs_nothing() -> None:
    spec = importlib.util.find_spec(model_files.PACKAGE)
    assert spec is not None
    assert isinstance(model_files.find_model("all-MiniLM-L6-v2"), Path)
    assert model_files.PACKAGE not in sys.modules


def test_vectors_are_those_of_sentence_transformers(embedder: Model) -> None:
    reference = Torch(model_files.find_model("all-MiniLM-L6-v2"), EmbeddingSettings())
    theirs = reference.model.encode(TEXTS, normalize_embeddings=True, show_progress_bar=False)
    ours = np.stack([document.vector for document in embedder.embed_documents(TEXTS)])
    assert (theirs * ours).sum(axis=1).min() > 0.99999
    urgent = np.stack([document.vector for document in embedder.embed_documents(TEXTS, urgent=True)])
    assert np.allclose(ours, urgent, atol=1e-5)
    asked = np.stack([embedder.embed_query(text).vector for text in TEXTS])
    assert (theirs * asked).sum(axis=1).min() > 0.99999


def test_tokens_are_the_texts_own_and_keep_their_cosines(embedder: Model) -> None:
    text = "The user prefers green tea."
    (document,) = embedder.embed_documents([text])
    (piece,) = document.pieces
    expected = embedder._tokenizer.encode(text, add_special_tokens=False).ids
    assert piece.token_ids.tolist() == expected
    assert piece.tokens.shape == (len(expected), 256)
    question = embedder.embed_query(text)
    cosines = question.tokens @ piece.tokens.astype(np.float32).T * token_vectors.step(256)
    assert np.diag(cosines).min() > 0.97
    exact = question.wide @ question.wide.T
    assert np.abs(cosines - exact).max() < 0.12


def test_a_long_text_is_embedded_piece_by_piece(embedder: Model) -> None:
    text = (
        " ".join(f"Paragraph {number} speaks about topic {number}." for number in range(300))
        + " The secret is tangerine."
    )
    (long, short) = embedder.embed_documents([text, "short"], ["A heading", None])
    assert len(long.pieces) > 5
    assert len(short.pieces) == 1
    head = embedder._tokenizer.encode("A heading", add_special_tokens=False).ids
    for piece in long.pieces:
        assert piece.token_ids[: len(head)].tolist() == head
        assert len(piece.token_ids) <= embedder._window - embedder._specials
    question = embedder.embed_query("What is the secret?").vector
    scores = [float(question @ piece.vector) for piece in long.pieces]
    assert scores.index(max(scores)) == len(scores) - 1
    heavy = embedder.embed_documents(["x"], ["heading " * 2000])[0]
    assert all(len(piece.token_ids) <= embedder._window - embedder._specials for piece in heavy.pieces)


def test_a_long_question_keeps_its_beginning_and_its_end(embedder: Model) -> None:
    indexer = "lorem ipsum dolor sit amet " * 2000
    question = embedder.embed_query(f"pineapple {indexer} helicopter")
    tokens = question.token_ids.tolist()
    for word in ("pineapple", "helicopter"):
        assert embedder._tokenizer.encode(word, add_special_tokens=False).ids[0] in tokens
    assert len(tokens) <= embedder._window


@pytest.mark.soak  # the suite has ten minutes
def test_the_basis_is_found_again_after_the_index_is_deleted(embedder: Model, tmp_path: Path) -> None:
    one = embedder._load_basis(tmp_path / "one", 128)
    kept = embedder._load_basis(tmp_path / "one", 128)
    other = embedder._load_basis(tmp_path / "other", 128)
    assert one.tobytes() == other.tobytes() == kept.tobytes()
    (file,) = (tmp_path / "one").iterdir()
    file.write_bytes(b"garbage")
    assert embedder._load_basis(tmp_path / "one", 128).tobytes() == one.tobytes()


def test_many_threads_ask_while_one_embeds(embedder: Model) -> None:
    expected = embedder.embed_query("what about tea?")
    failures: list[BaseException] = []
    stop = threading.Event()

    def ask() -> None:
        try:
            while not stop.is_set():
                found = embedder.embed_query("what about tea?")
                assert np.allclose(found.vector, expected.vector, atol=1e-5)
        except BaseException as error:  # noqa: BLE001  # a thread's failure is shown by the test
            failures.append(error)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    embedder.embed_documents(TEXTS)
    stop.set()
    for thread in threads:
        thread.join()
    assert not failures


def test_missing_files_name_the_mend(tmp_path: Path) -> None:
    with pytest.raises(Unavailable) as unavailable:
        choose.load(EmbeddingSettings(model="nobody/no-such-model"), tmp_path)
    assert "nobody/no-such-model" in unavailable.value.message
    assert "ormahctl model use nobody/no-such-model --download" in (unavailable.value.hint or "")
    (tmp_path / "empty").mkdir()
    with pytest.raises(Unavailable):
        choose.load(EmbeddingSettings(model=str(tmp_path / "empty")), tmp_path)


def test_without_the_extra_another_model_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = model_files.find_model("all-MiniLM-L6-v2")
    assert isinstance(found, Path)
    other = shutil.copytree(found, tmp_path / "other")
    (other / "unlike.json").write_text("{}")  # a model that was never compared
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    for runtime in ("auto", "torch", "onnx"):
        settings = EmbeddingSettings.model_validate({"model": str(other), "runtime": runtime})
        with pytest.raises(Unavailable) as unavailable:
            choose.load(settings, tmp_path / "models")
        assert str(other) in unavailable.value.message
        assert "sentence-transformers" in unavailable.value.message
        assert "install ormah[torch]" in (unavailable.value.hint or "")
    with models.made_once(tmp_path / "usual"):
        assert choose.load(EmbeddingSettings(), tmp_path / "usual").embed_query("tea").vector.shape == (384,)


def test_other_weights_under_the_known_name_are_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"other weights")
    with caplog.at_level(logging.WARNING):
        model_files.check_weights(tmp_path)
    assert model_files.BUNDLED_SHA256 in caplog.text
    caplog.clear()
    found = model_files.find_model("all-MiniLM-L6-v2")
    assert isinstance(found, Path)
    model_files.check_weights(found)
    assert not caplog.text
