"""Questions in eight bits: as good as in full, only where they pay, and never from a file that is not whole."""

from __future__ import annotations

import logging
from pathlib import Path

import msgspec
import numpy as np
import pytest

from ormahd.index import embed, embed_check, embed_eight, embed_files, embed_onnx
from ormahd.index.embed_eight_graph import OURS
from ormahd.index.embed_graph import FLOAT, INT8, TOKENS, WORDS, Shape, Weight, Writer
from ormahd.index.embed_model import Model
from ormahd.index.embed_onnx import OnnxRuntime
from ormahd.settings import EmbeddingSettings

QUESTIONS = [
    "which database keeps the bills?", "tea?", "", "東京タワー", "What did we decide about the connection pool for staging? " * 12,
]  # fmt: skip


def load(directory: Path, precision: str) -> Model:
    made = embed.load(EmbeddingSettings.model_validate({"question_precision": precision}), directory)
    assert isinstance(made, Model)
    return made


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index directory in which the default model was loaded."""
    found = tmp_path_factory.mktemp("index")
    load(found, "int8")
    return found


def file_of(directory: Path) -> Path:
    (found,) = directory.glob("eight-*.bin")
    return found


def asked_in(made: Model) -> embed.Questions:
    assert made.served.questions is not None
    return made.served.questions


def test_questions_are_nearly_what_they_are_in_full_and_notes_exactly(directory: Path) -> None:
    full, eight = load(directory, "fp32"), load(directory, "int8")
    assert eight.fingerprint == full.fingerprint
    told = asked_in(eight)
    assert (asked_in(full).precision, told.precision, eight.served.precision) == ("fp32", "int8", "fp32")
    assert told.vectors is not None
    assert told.tokens is not None
    for text in QUESTIONS:
        asked, wanted = eight.embed_query(text), full.embed_query(text)
        assert asked.token_ids.tolist() == wanted.token_ids.tolist()
        assert asked.vector @ wanted.vector > embed_check.EIGHT_LEAST
        assert embed_check.least(asked.wide, wanted.wide) > embed_check.EIGHT_LEAST
        assert asked.vector.tobytes() != wanted.vector.tobytes()
    for ours, theirs in zip(eight.embed_documents(QUESTIONS), full.embed_documents(QUESTIONS), strict=True):
        assert ours.vector.tobytes() == theirs.vector.tobytes()


def test_only_where_it_pays(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embed_eight, "PAYS", 0.0)
    told = asked_in(load(directory, "auto"))
    assert (told.precision, told.why) == ("fp32", "eight bits are hardly quicker on this processor")
    assert told.milliseconds is not None
    assert asked_in(load(directory, "int8")).precision == "int8"
    monkeypatch.setattr(embed_eight, "PAYS", 1000.0)
    assert asked_in(load(directory, "auto")).precision == "int8"


def test_a_file_that_is_cut_off_is_made_again(directory: Path) -> None:
    whole = file_of(directory).read_bytes()
    file_of(directory).write_bytes(whole[: len(whole) // 2])
    assert asked_in(load(directory, "int8")).precision == "int8"
    assert file_of(directory).read_bytes() == whole


def test_a_damaged_file_is_noticed_and_the_next_start_makes_it_again(
    directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    whole = file_of(directory).read_bytes()
    file_of(directory).write_bytes(b"\x55" * len(whole))
    with caplog.at_level(logging.WARNING):
        told = asked_in(load(directory, "int8"))
    assert told.precision == "fp32"
    assert "differ" in (told.why or "")
    assert "questions in eight bits" in caplog.text
    assert asked_in(load(directory, "int8")).precision == "int8"
    assert file_of(directory).read_bytes() == whole


def test_where_nothing_can_be_kept_questions_are_embedded_in_full(directory: Path, tmp_path: Path) -> None:
    (tmp_path / file_of(directory).name).mkdir()
    made = load(tmp_path, "int8")
    assert (asked_in(made).precision, asked_in(made).why) == ("fp32", "they do not run in eight bits here")
    assert len(made.embed_query("what?").vector) == made.dimensions
    assert not list(tmp_path.glob("*.new"))


@pytest.mark.parametrize(("eight", "why"), [(0.0, "does not run so"), (0.9, "cosine 0.9000")])
def test_a_model_that_loses_too_much_is_asked_in_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, eight: float, why: str
) -> None:
    packaged = Path(embed_check.__file__).parent / embed_check.PACKAGED
    record = msgspec.json.decode(packaged.read_bytes(), type=embed_check.Record)
    monkeypatch.setattr(embed_check, "_packaged", lambda: b"")
    embed_check.write(msgspec.structs.replace(record, eight=eight), tmp_path / f"checked-{record.key[:16]}.json")
    told = asked_in(load(tmp_path, "auto"))
    assert told.precision == "fp32"
    assert why in (told.why or "")
    assert not list(tmp_path.glob("eight-*"))


@pytest.mark.parametrize("shape", [(1, 1), (3, 31), (5, 32), (2, 100)])
def test_rounding_is_off_by_half_a_step_at_most(shape: tuple[int, int]) -> None:
    matrix = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    matrix[0] = 0.0
    codes, scales = embed_eight.quantise(matrix)
    assert (codes.dtype, codes.shape) == (np.int8, shape[::-1])
    back = codes.T.astype(np.float32) * scales[:, None]
    assert (np.abs(back - matrix) <= scales[:, None] / 2 + 1e-6).all()
    assert not back[0].any()


@pytest.mark.parametrize("columns", [31, 32, 384])
def test_sums_are_exact_also_where_the_processor_adds_two_products_in_16_bits(tmp_path: Path, columns: int) -> None:
    """Numbers as large as they can be, each beside a large weight of its own sign: what a processor without VNNI would cut off."""
    chance = np.random.default_rng(3)
    matrix = np.abs(chance.standard_normal((24, columns))).astype(np.float32)
    matrix[::2] *= -1.0
    codes, scales = embed_eight.quantise(matrix)
    first, second = codes[0::2].astype(int), codes[1::2].astype(int)
    assert embed_eight.PAIR - 1 <= np.abs(first[: len(second)] + second).max() <= embed_eight.PAIR
    made = Writer()
    made.node("DynamicQuantizeMatMul", [WORDS, "codes", "scales", ""], TOKENS, OURS)
    (tmp_path / "eight.bin").write_bytes(codes.tobytes() + scales.tobytes())
    outside = {
        "codes": Weight((columns, 24), 0, codes.nbytes, INT8),
        "scales": Weight((24,), codes.nbytes, scales.nbytes, FLOAT),
    }
    shape = Shape(layers=1, heads=1, width=columns, epsilon=1e-12, first=0)
    graph = made.model(shape, "eight.bin", outside, {}, {}, [TOKENS])
    session = embed_onnx._session(embed_onnx._library(), graph, tmp_path, tmp_path)
    given = chance.uniform(0.9, 1.0, (1, 3, columns)).astype(np.float32)
    (out,) = session.run(None, {WORDS: given})
    step = given.max() / np.float32(255)
    exactly = np.rint(given / step).astype(np.int64) @ codes.astype(np.int64)
    assert np.allclose(out, exactly * (scales * step), rtol=1e-5)


def test_what_is_always_large_is_made_even_at_the_cost_of_the_matrix() -> None:
    chance = np.random.default_rng(2)
    matrix = chance.standard_normal((40, 30)).astype(np.float32)
    given = chance.standard_normal((6, 30)).astype(np.float32)
    given[:, 7] *= 50.0
    smooth = embed_eight.smoothing(matrix, np.abs(given).max(axis=0))
    even = given * smooth
    assert np.allclose(even @ (matrix / smooth).T, given @ matrix.T, atol=1e-3)
    assert np.abs(even).max() / np.median(np.abs(even)) < np.abs(given).max() / np.median(np.abs(given)) / 5
    never = embed_eight.smoothing(np.zeros((2, 3), np.float32), np.zeros(3, np.float32))
    assert np.isfinite(never).all()
    assert (never > 0).all()


def test_texts_that_are_padded_are_none_of_its_business(directory: Path) -> None:
    folder = embed_files.find_model(embed_files.DEFAULT_MODEL)
    assert isinstance(folder, Path)
    eight = OnnxRuntime(folder, "mean").in_eight_bits(file_of(directory), [])
    mask = np.array([[True, True, True], [True, True, False]])
    with pytest.raises(ValueError, match="one at a time"):
        eight.forward(np.array([[101, 2023, 102], [101, 102, 0]]), mask)
