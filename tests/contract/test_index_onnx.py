"""ONNX Runtime gives what sentence-transformers gives, or torch serves and says why; and nothing half done is used."""

from __future__ import annotations

import json
import logging
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
import pytest

from ormahd.embedding import check as embed_check
from ormahd.embedding import model as choose
from ormahd.embedding import model_files
from ormahd.embedding.embedder import Embedder
from ormahd.embedding.model import Model
from ormahd.errors import Unavailable
from ormahd.settings import EmbeddingSettings
from tests import models
from tests.contract.tiny_models import edit, make
from tests.house import wait_until
from tests.surroundings import surroundings

TEXTS = [
    "The user prefers green tea over coffee.", "", "x", "東京タワーに行きました。", "We chose Vite, because esbuild is quick. " * 9,
    *(f"Sentence number {number} is about {'cats ' * number}" for number in range(12)),
]  # fmt: skip


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="module")
def compared(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index directory with the record of `tiny`, made by the process that the daemon starts for it."""
    directory = tmp_path_factory.mktemp("compared")
    assert load(tiny, directory).served.runtime == "onnx"
    return directory


def load(model: Path | str, directory: Path, runtime: str = "auto") -> Model:
    settings = EmbeddingSettings.model_validate({"model": str(model), "runtime": runtime, "precision": "fp32"})
    made = choose.load(settings, directory)
    assert isinstance(made, Model)
    return made


def key(folder: Path) -> str:
    return embed_check.key_of(model_files.identity(folder, folder))


def record_of(directory: Path) -> Path:
    (found,) = directory.glob("checked-*.json")
    return found


def assert_same(one: Model, other: Model) -> None:
    assert one.fingerprint == other.fingerprint
    for ours, theirs in zip(one.embed_documents(TEXTS), other.embed_documents(TEXTS), strict=True):
        assert len(ours.pieces) == len(theirs.pieces)
        for piece, wanted in zip(ours.pieces, theirs.pieces, strict=True):
            assert piece.vector @ wanted.vector > embed_check.LEAST
            assert piece.token_ids.tolist() == wanted.token_ids.tolist()
            assert np.abs(piece.tokens.astype(int) - wanted.tokens).max(initial=0) <= 1
    for text in TEXTS:
        asked, wanted = one.embed_query(text), other.embed_query(text)
        assert asked.vector @ wanted.vector > embed_check.LEAST
        assert embed_check.least(asked.wide, wanted.wide) > embed_check.LEAST


@pytest.mark.soak  # quantises and compares the default model anew; that it is compared with the reference: test_index_embed.py
def test_the_default_models_record_is_what_comparing_it_gives() -> None:
    folder = model_files.find_model(model_files.DEFAULT_MODEL)
    assert isinstance(folder, Path)
    packaged = msgspec.json.decode(
        (Path(embed_check.__file__).parent / embed_check.PACKAGED).read_bytes(), type=embed_check.CheckRecord
    )
    found = embed_check.compare(folder, key(folder))
    assert min(found.vectors, found.tokens) > 0.999999
    assert min(found.eight, found.eight_tokens) > embed_check.EIGHT_LEAST
    measured = {"probes": [], "versions": {}, "vectors": 0, "tokens": 0, "eight": 0, "eight_tokens": 0}
    assert msgspec.structs.asdict(found) | measured == msgspec.structs.asdict(packaged) | measured, (
        "run: python -m ormahd.embedding.check"
    )
    for ours, kept in zip(found.probes, packaged.probes, strict=True):
        assert ours.text == kept.text
        assert np.allclose(np.frombuffer(ours.vector, "<f4"), np.frombuffer(kept.vector, "<f4"), atol=1e-5)


@pytest.mark.parametrize(
    ("kind", "pooling", "more"),
    [("bert", "cls", "Normalize"), ("roberta", "mean", None), ("xlm-roberta", "cls", None)],
)
def test_models_of_the_family_give_the_same_vectors(tmp_path: Path, kind: str, pooling: str, more: str | None) -> None:
    folder = make(tmp_path / "model", kind=kind, pooling=pooling, more=more)
    found = embed_check.compare(folder, key(folder))
    assert found.refused is None
    assert found.pooling == pooling
    assert min(found.vectors, found.tokens) > embed_check.LEAST
    directory = tmp_path / "index"
    directory.mkdir()
    embed_check.write(found, directory / f"checked-{key(folder)[:16]}.json")
    onnx = load(folder, directory)
    assert onnx.served.runtime == "onnx"
    assert_same(onnx, load(folder, directory, "torch"))


def test_the_first_load_compares_and_later_ones_remember(tiny: Path, compared: Path, caplog: pytest.LogCaptureFixture) -> None:  # fmt: skip
    made = record_of(compared).stat()
    with caplog.at_level(logging.INFO):
        onnx = load(tiny, compared)
    assert "comparing" not in caplog.text
    assert record_of(compared).stat().st_mtime_ns == made.st_mtime_ns
    assert onnx.served.vectors is not None
    assert onnx.served.vectors > embed_check.LEAST
    torch = load(tiny, compared, "torch")
    assert torch.served.runtime == "torch"
    assert torch.served.vectors is None
    assert_same(onnx, torch)


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda folder: edit(folder / "config.json", hidden_act="relu"), "hidden_act"),
        (lambda folder: edit(folder / "config.json", model_type="mpnet"), "mpnet"),
        (lambda folder: edit(folder / "config.json", position_embedding_type="relative_key"), "relative_key"),
        (lambda folder: edit(folder / "config.json", num_hidden_layers=3), "encoder.layer.2"),
        (lambda folder: edit(folder / "config.json", hidden_size="wide"), "config.json"),
        (lambda folder: (folder / "config.json").write_text("{"), "config.json"),
        (lambda folder: (folder / "config.json").write_text("[]"), "config.json"),
        (lambda folder: (folder / "config.json").unlink(), "config.json"),
        (lambda folder: (folder / "modules.json").write_text('[{"name": "0"}]'), "modules.json"),
        (lambda folder: (folder / "modules.json").write_text("{"), "modules.json"),
        (lambda folder: (folder / "model.safetensors").unlink(), "model.safetensors"),
        (lambda folder: (folder / "model.safetensors").write_bytes(b""), "model.safetensors"),
        (lambda folder: (folder / "model.safetensors").write_bytes(b"\xff" * 500), "no header"),
        (lambda folder: os.truncate(folder / "model.safetensors", 100_000), "cut off"),
    ],
)  # fmt: skip
def test_what_cannot_be_served_is_named_before_anything_is_started(
    tiny: Path, tmp_path: Path, spoil: Callable[[Path], object], why: str
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(tiny, folder)
    spoil(folder)
    with pytest.raises(Unavailable, match=why) as unavailable:
        load(folder, tmp_path / "index", "onnx")
    assert "embedding.runtime" in (unavailable.value.hint or "")
    assert not (tmp_path / "index").exists()


def test_a_model_that_is_more_than_an_encoder_stays_on_torch(tmp_path: Path) -> None:
    folder = make(tmp_path / "model", more="Dense")
    made = load(folder, tmp_path / "index")
    assert made.served.runtime == "torch"
    assert "Dense" in (made.served.why or "")
    assert made.dimensions == 16
    with pytest.raises(Unavailable, match="Dense"):
        load(folder, tmp_path / "index", "onnx")
    assert not list((tmp_path / "index").glob("checked-*"))


@pytest.mark.soak  # the suite has ten minutes
def test_another_pooling_is_refused_once_and_remembered(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = make(tmp_path / "model", pooling="max")
    made = load(folder, tmp_path / "index")
    assert made.served.runtime == "torch"
    assert "pooling" in (made.served.why or "")
    caplog.clear()
    with caplog.at_level(logging.INFO):
        assert load(folder, tmp_path / "index").served.runtime == "torch"
    assert "comparing" not in caplog.text
    assert "pooling" in caplog.text
    assert not [one for one in caplog.records if one.levelno >= logging.WARNING]


@pytest.mark.parametrize("damage", [b"", b"garbage", b'{"key": 1}', pytest.param(None, marks=pytest.mark.soak)])
def test_a_record_that_is_not_whole_is_made_again(tiny: Path, compared: Path, tmp_path: Path, damage: bytes | None) -> None:  # fmt: skip
    directory = tmp_path / "index"
    directory.mkdir()
    whole = record_of(compared).read_bytes()
    file = directory / record_of(compared).name
    file.write_bytes(whole[: len(whole) // 2] if damage is None else damage)
    assert embed_check.read(file.read_bytes(), key(tiny)) is None
    if damage is None:  # one load is enough: it takes half a minute beside other tests
        assert load(tiny, directory).served.runtime == "onnx"
        assert embed_check.read(file.read_bytes(), key(tiny)) is not None


def test_vectors_that_differ_from_the_record_are_not_served(
    tiny: Path, compared: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    directory = tmp_path / "index"
    directory.mkdir()
    kept = embed_check.read(record_of(compared).read_bytes(), key(tiny))
    assert kept is not None
    probe = kept.probes[1]
    other = np.roll(np.frombuffer(probe.vector, "<f4"), 1).tobytes()
    spoilt = msgspec.structs.replace(kept, probes=[kept.probes[0], embed_check.Probe(probe.text, other)])
    embed_check.write(spoilt, directory / record_of(compared).name)
    with caplog.at_level(logging.WARNING):
        made = load(tiny, directory)
    assert made.served.runtime == "torch"
    assert "other vectors" in caplog.text
    with pytest.raises(Unavailable, match="other vectors"):
        load(tiny, directory, "onnx")


def test_a_comparison_that_is_killed_leaves_nothing(tiny: Path, tmp_path: Path) -> None:
    file = tmp_path / "checked.json"
    command = [sys.executable, "-m", "ormahd.embedding.check", str(tiny), str(file), key(tiny)]
    for end in ("kill", "orphan"):
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
        assert child.stdin is not None
        maps = Path(f"/proc/{child.pid}/maps")
        wait_until(lambda maps=maps: "torch" in maps.read_text(), "torch is loaded", 120)
        if end == "kill":
            child.send_signal(signal.SIGKILL)
        else:
            child.stdin.close()  # as when the daemon is gone
        assert child.wait(120) != 0
        assert list(tmp_path.iterdir()) == []


def test_nothing_half_written_stays_where_nothing_can_be_kept(tiny: Path, tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="could not be compared"):
        load(tiny, Path("/dev/full/index"), "onnx")
    (tmp_path / "index").mkdir()
    (tmp_path / "index" / f"checked.json.{os.getpid()}.new").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space"):
        embed_check.write(embed_check.CheckRecord("key"), tmp_path / "index" / "checked.json")
    assert list((tmp_path / "index").iterdir()) == []


def run(script: str, home: Path, **variables: str) -> dict[str, object]:
    done = subprocess.run(
        [sys.executable, "-c", script], env=surroundings(home) | variables, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


LOADED = """
import json, sys
from pathlib import Path
from ormahd.embedding import model as embed
from ormahd.settings import EmbeddingSettings
made = embed.load(EmbeddingSettings.model_validate({settings}), Path("index"))
made.embed_documents(["some words", "and others"] * 3)
made.embed_query("what?")
print(json.dumps({{"runtime": made.served.runtime, "fingerprint": made.fingerprint,
    "libraries": sorted({{"torch", "sentence_transformers", "transformers", "onnxruntime"}} & sys.modules.keys())}}))
"""


@pytest.mark.soak  # the suite has ten minutes
def test_each_runtime_loads_its_own_libraries_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    onnx = run(LOADED.format(settings={"precision": "fp32"}), tmp_path)
    torch = run(LOADED.format(settings={"runtime": "torch"}), tmp_path)
    assert (onnx["runtime"], onnx["libraries"]) == ("onnx", ["onnxruntime"])
    assert (torch["runtime"], torch["libraries"]) == ("torch", ["sentence_transformers", "torch", "transformers"])
    assert onnx["fingerprint"] == torch["fingerprint"]


def test_nobody_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ONNX Runtime has telemetry, on by default: a device id and a queue of events in the cache directory."""
    monkeypatch.chdir(tmp_path)
    script = LOADED.format(settings={}) + "from chromadb.utils.embedding_functions import ONNXMiniLM_L6_V2\n"
    with models.made_once(tmp_path / "index"):
        assert run(script, tmp_path)["runtime"] == "onnx"
    files = {file.relative_to(tmp_path).parts[0] for file in tmp_path.rglob("*") if file.is_file()}
    assert files == {"index"}


@pytest.mark.soak  # four loads of torch
def test_a_model_in_the_cache_of_hugging_face_is_found_by_its_name(
    tiny: Path, compared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = "0123456789abcdef0123456789abcdef01234567"
    cache = tmp_path / "hub" / "models--somebody--tiny"
    (cache / "refs").mkdir(parents=True)
    (cache / "refs" / "main").write_text(commit)
    for number, file in enumerate(sorted(file for file in tiny.rglob("*") if file.is_file())):
        blob, link = cache / "blobs" / f"{number:040}", cache / "snapshots" / commit / file.relative_to(tiny)
        for one in (blob, link):
            one.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, blob)
        link.symlink_to(os.path.relpath(blob, link.parent))
    monkeypatch.chdir(tmp_path)
    variables = {"HF_HUB_CACHE": str(tmp_path / "hub"), "HF_HOME": str(tmp_path / "hf")}
    onnx = run(LOADED.format(settings={"model": "somebody/tiny", "precision": "fp32"}), tmp_path, **variables)
    torch = run(LOADED.format(settings={"model": "somebody/tiny", "runtime": "torch"}), tmp_path, **variables)
    assert (onnx["runtime"], torch["runtime"]) == ("onnx", "torch")
    assert onnx["fingerprint"] == torch["fingerprint"]


def test_the_same_question_gets_the_same_bits(model: Embedder, tmp_path: Path) -> None:
    before = model.embed_query("Which database does the billing service use?")
    model.embed_documents(TEXTS)
    again = model.embed_query("Which database does the billing service use?")
    assert before.vector.tobytes() == again.vector.tobytes()
    assert before.wide.tobytes() == again.wide.tobytes()
    with models.made_once(tmp_path / "models"):
        loaded = choose.load(EmbeddingSettings(), tmp_path / "models")
    other = loaded.embed_query("Which database does the billing service use?")
    assert before.vector.tobytes() == other.vector.tobytes()


@pytest.fixture(scope="module")
def on_three_cores(tmp_path_factory: pytest.TempPathFactory) -> Embedder:
    directory = tmp_path_factory.mktemp("models") / "models"
    with models.made_once(directory):
        return choose.load(EmbeddingSettings(threads=3), directory)


@pytest.mark.parametrize("many", [1, 2, 7, 12, 31])
def test_a_few_that_somebody_waits_for_are_divided_among_the_cores_and_stay_in_order(
    on_three_cores: Embedder, many: int
) -> None:
    texts = [f"Note {number} about the billing service. {'And more. ' * (number % 4)}" for number in range(many)]
    waited = on_three_cores.embed_documents(texts, urgent=True)
    quiet = on_three_cores.embed_documents(texts)
    assert len(waited) == len(quiet) == many
    for one, other in zip(waited, quiet, strict=True):
        assert float(one.pieces[0].vector @ other.pieces[0].vector) > 0.99999
        assert (one.pieces[0].token_ids == other.pieces[0].token_ids).all()
