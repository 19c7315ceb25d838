"""The real model: the vectors that sentence-transformers gives, its tokens beside them, and what happens without files."""

import sys
from pathlib import Path

import numpy as np
import pytest

from ormahd.embedding import model as choose
from ormahd.embedding import token_vectors
from ormahd.embedding.model import Model
from ormahd.errors import Unavailable
from ormahd.settings import EmbeddingSettings
from tests.contract.models_as_folders import published

TEXTS = [
    "The user prefers green tea over coffee.", "", "x", "東京タワーに行きました。", "We chose Vite, because esbuild is quick. " * 5,
    *(f"Sentence number {number} is about {'cats ' * number}" for number in range(20)),
]  # fmt: skip


@pytest.fixture(scope="module")
def embedder(tmp_path_factory: pytest.TempPathFactory) -> Model:
    directory = tmp_path_factory.mktemp("index")
    made = choose.load(EmbeddingSettings(), directory)
    assert isinstance(made, Model)
    return made


SOME = [TEXTS[0], *TEXTS[3:8]]
COSINES = [
    [0.08, 0.05, 0.09, 0.09, 0.11],
    [0.13, 0.04, 0.09, 0.07],
    [0.01, 0.07, 0.07],
    [0.55, 0.49],
    [0.95],
]
"""Of each two of `SOME`, as sentence-transformers computes them with the published weights."""


def test_cosines_are_nearly_those_of_sentence_transformers(embedder: Model) -> None:
    vectors = np.stack([document.vector for document in embedder.embed_documents(SOME)])
    ours = (vectors @ vectors.T)[np.triu_indices(len(SOME), 1)]
    assert np.abs(ours - np.concatenate(COSINES)).max() < 0.02


@pytest.mark.soak  # torch takes ten seconds of CPU
def test_vectors_are_nearly_those_of_sentence_transformers(embedder: Model, tmp_path: Path) -> None:
    reference = choose.load(EmbeddingSettings(model=str(published())), tmp_path)
    assert reference.served.runtime == "torch"
    theirs = np.stack([document.vector for document in reference.embed_documents(TEXTS)])
    ours = np.stack([document.vector for document in embedder.embed_documents(TEXTS)])
    assert (theirs * ours).sum(axis=1).min() > 0.995
    asked = np.stack([embedder.embed_query(text).vector for text in TEXTS])
    assert (theirs * asked).sum(axis=1).min() > 0.995


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
        assert len(piece.token_ids) <= embedder.window - embedder._specials
    question = embedder.embed_query("What is the secret?").vector
    scores = [float(question @ piece.vector) for piece in long.pieces]
    assert scores.index(max(scores)) == len(scores) - 1
    heavy = embedder.embed_documents(["x"], ["heading " * 2000])[0]
    assert all(len(piece.token_ids) <= embedder.window - embedder._specials for piece in heavy.pieces)


def test_a_long_question_keeps_its_beginning_and_its_end(embedder: Model) -> None:
    indexer = "lorem ipsum dolor sit amet " * 2000
    question = embedder.embed_query(f"pineapple {indexer} helicopter")
    tokens = question.token_ids.tolist()
    for word in ("pineapple", "helicopter"):
        assert embedder._tokenizer.encode(word, add_special_tokens=False).ids[0] in tokens
    assert len(tokens) <= embedder.window


def test_without_the_extra_another_model_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(Unavailable) as unavailable:
        choose.load(EmbeddingSettings(model=str(published())), tmp_path / "models")
    assert "sentence-transformers" in unavailable.value.message
    assert "install ormah[torch]" in (unavailable.value.hint or "")
