"""The cross-encoder, with a real one that the test makes: a BERT of two layers that knows twenty words."""

import json
import logging
import math
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ormahd.errors import Unavailable
from ormahd.search import rerank
from ormahd.search.rerank import CHARACTERS, BackgroundReranker, Reranker
from ormahd.settings import WhisperSettings

WORDS = [
    "the", "which", "database", "we", "use", "is", "postgres", "because", "of", "json", "owl", "sleeps", "at", "night", "in",
    "a", "tree", "query", "plan", "index",
]  # fmt: skip


def make(folder: Path, *, outputs: int = 1, seed: int = 1) -> Path:
    """A cross-encoder's files, as `save_pretrained` writes them."""
    import torch
    from sentence_transformers import CrossEncoder
    from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast

    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
    bare = folder.with_suffix(".bare")
    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=5 + len(WORDS), hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64,
        max_position_embeddings=128, num_labels=outputs, initializer_range=0.5,
    )  # fmt: skip
    BertForSequenceClassification(config).save_pretrained(bare)
    BertTokenizerFast(vocab={word: at for at, word in enumerate(vocabulary)}, model_max_length=128).save_pretrained(
        bare
    )
    CrossEncoder(str(bare), device="cpu").save_pretrained(str(folder))
    return folder


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("reranker") / "tiny")


@pytest.fixture
def own(files: Path, tmp_path: Path) -> Path:
    """A copy to damage."""
    return shutil.copytree(files, tmp_path / "own")


def settings(model: Path | str, **more: Any) -> WhisperSettings:
    return WhisperSettings(reranker_model=str(model), **more)


def load(model: Path | str, **more: Any) -> Reranker:
    found = Reranker.load(settings(model, **more))
    assert found is not None
    return found


LONG = 3600.0


def soon() -> float:
    return time.monotonic() + LONG


TEXTS = [" ".join(WORDS[at : at + 4] * (1 + at % 5)) for at in range(13)] + ["", "owl 🦉 \x00"]


def test_raw_logits_in_the_order_of_the_texts(files: Path) -> None:
    reranker = load(files)
    together = reranker.scores("which database", TEXTS, deadline=soon())
    assert together is not None
    alone = [reranker.scores("which database", [text], deadline=soon()) for text in TEXTS]
    assert together == pytest.approx([one[0] for one in alone if one], abs=1e-4)  # padding changes nothing
    assert len({round(one, 3) for one in together}) > 5
    assert not all(0 <= one <= 1 for one in together)  # a logit, not a probability
    assert reranker.scores("owl sleeps", TEXTS, deadline=soon()) != pytest.approx(together)
    assert reranker.scores("which database", [], deadline=soon()) == []


def test_the_same_as_the_library_gives(files: Path) -> None:
    from sentence_transformers import CrossEncoder
    from torch.nn import Identity

    theirs = CrossEncoder(str(files), device="cpu").predict(
        [("which database", text) for text in TEXTS], activation_fn=Identity(), show_progress_bar=False
    )
    assert load(files).scores("which database", TEXTS, deadline=soon()) == pytest.approx(theirs.tolist(), abs=1e-4)


def test_texts_are_read_up_to_a_limit(files: Path) -> None:
    reranker = load(files)
    head = ("postgres because of json, the database, " * 13)[:CHARACTERS]
    one, other = (
        reranker.scores("which database", [head + "owl", head + "tree in the night " * 9], deadline=soon()) or []
    )
    assert one == pytest.approx(other, abs=1e-4)
    huge = "owl " * 2_500_000
    assert reranker.scores(huge, [huge], deadline=soon()) is not None


def test_nothing_after_the_deadline(files: Path) -> None:
    reranker = load(files)
    assert reranker.scores("which", ["owl"], deadline=time.monotonic() - 1) is None
    assert reranker.scores("which", ["owl"] * 100_000) is None  # by its own time
    assert reranker.scores("which", ["owl"], deadline=soon()) is not None


def test_who_is_busy_is_not_waited_for_past_the_deadline(files: Path) -> None:
    reranker = load(files)
    busy, done = threading.Event(), threading.Event()
    got: list[Any] = []

    class Slow:
        def predict(self, *args: Any, **kwargs: Any) -> Any:
            busy.set()
            done.wait(120)
            return inner.predict(*args, **kwargs)

    inner = reranker._model
    reranker._model = Slow()
    thread = threading.Thread(target=lambda: got.append(reranker.scores("which", ["owl"], deadline=soon())))
    thread.start()
    assert busy.wait(120)
    assert reranker.scores("which", ["owl"], deadline=time.monotonic() + 0.01) is None
    done.set()
    thread.join(120)
    assert got[0] is not None


def test_many_threads_get_their_own_answers(files: Path) -> None:
    reranker = load(files)
    queries = [" ".join(WORDS[at : at + 3]) for at in range(8)]
    expected = {query: reranker.scores(query, TEXTS, deadline=soon()) for query in queries}
    got: dict[str, Any] = {}

    def ask(query: str) -> None:
        got[query] = reranker.scores(query, TEXTS, deadline=soon())

    threads = [threading.Thread(target=ask, args=(query,)) for query in queries]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert got.keys() == expected.keys()
    for query in queries:
        assert got[query] == pytest.approx(expected[query], abs=1e-4)


def test_a_model_that_fails_gives_none_and_says_so_once(files: Path, caplog: pytest.LogCaptureFixture) -> None:
    reranker = load(files)
    reranker._model = None
    with caplog.at_level(logging.WARNING):
        assert reranker.scores("which", ["owl"], deadline=soon()) is None
        assert reranker.scores("which", ["owl"], deadline=soon()) is None
    assert len([record for record in caplog.records if "reranker" in record.message]) == 1


# ---------------------------------------------------------------- files


def arrive(settings: WhisperSettings) -> tuple[BackgroundReranker, list[str]]:
    said: list[str] = []
    arriving = BackgroundReranker(settings, said.append)
    assert arriving.get() is None
    assert arriving.reason
    arriving.start()
    assert arriving.wait(120)
    return arriving, said


def test_it_arrives_in_the_background(files: Path) -> None:
    arriving, said = arrive(settings(files))
    reranker = arriving.get()
    assert reranker is not None
    assert arriving.reason is None
    assert said == []
    assert reranker.scores("which", ["owl"], deadline=soon()) is not None


def test_off_is_not_even_looked_for(files: Path) -> None:
    arriving, said = arrive(settings(files, reranker="off"))
    assert arriving.get() is None
    assert arriving.reason == "whisper.reranker is off"
    assert said == []


def test_without_files_there_is_a_reason_and_no_warning() -> None:
    arriving, said = arrive(WhisperSettings())
    if arriving.get() is None:  # this machine may have the default model
        assert arriving.reason == "the reranker's files (cross-encoder/ms-marco-MiniLM-L-6-v2) are not on this machine"
    assert said == []


@pytest.mark.parametrize("name", ["/no/such/folder", "nobody/nothing", "../x", "a b c", "x" * 300])
def test_a_model_that_was_asked_for_and_is_not_there_is_a_warning(name: str) -> None:
    arriving, said = arrive(settings(name))
    assert arriving.get() is None
    assert said == [arriving.reason]
    assert name in said[0]
    assert Reranker.load(settings(name)) is None


def test_without_the_extra_it_says_what_to_install(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    arriving, said = arrive(settings(files))
    assert arriving.get() is None
    assert said == [arriving.reason]
    assert "install ormah[torch]" in said[0]


def no_weights(folder: Path) -> None:
    (folder / "model.safetensors").unlink()


def cut_weights(folder: Path) -> None:
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])


def noise(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(os.urandom(5000))


def no_numbers(folder: Path) -> None:
    from safetensors.torch import load_file, save_file

    weights = load_file(folder / "model.safetensors")
    save_file({name: tensor * math.nan for name, tensor in weights.items()}, folder / "model.safetensors")


def broken_config(folder: Path) -> None:
    (folder / "config.json").write_text("{not json")


def other_sizes(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"hidden_size": 64, "vocab_size": 9}))


def no_tokenizer(folder: Path) -> None:
    for file in folder.glob("*token*"):
        file.unlink()


def empty(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.mkdir()


@pytest.mark.parametrize(
    "damage", [no_weights, cut_weights, noise, no_numbers, broken_config, other_sizes, no_tokenizer, empty]
)
def test_damaged_files_are_a_warning_that_names_them(own: Path, damage: Callable[[Path], None]) -> None:
    damage(own)
    arriving, said = arrive(settings(own))
    assert arriving.get() is None
    assert len(said) == 1
    assert str(own) in said[0]
    assert Reranker.load(settings(own)) is None


def test_a_model_of_several_outputs_ranks_nothing(tmp_path: Path) -> None:
    arriving, said = arrive(settings(make(tmp_path / "three", outputs=3)))
    assert arriving.get() is None
    assert "3 outputs" in said[0]


def test_a_name_is_found_in_the_local_cache(files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    revision = "0" * 40
    kept = tmp_path / "models--cross-encoder--tiny"
    shutil.copytree(files, kept / "snapshots" / revision)
    (kept / "refs").mkdir()
    (kept / "refs" / "main").write_text(revision)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    assert rerank.locate("cross-encoder/tiny") == kept / "snapshots" / revision
    assert rerank.locate("cross-encoder/other") is None
    reranker = load("cross-encoder/tiny")
    assert reranker.name == "cross-encoder/tiny"


def test_nothing_is_asked_of_the_network(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def connect(*_: Any) -> None:
        raise AssertionError("the network was asked")

    monkeypatch.setattr("socket.socket.connect", connect)
    no_tokenizer(own)
    for name in (str(own), "nobody/nothing"):
        with pytest.raises(Unavailable) as found:
            rerank._load(settings(name))
        assert "the network was asked" not in str(found.value.data)
