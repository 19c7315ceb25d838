"""A model in eight bits: as good as in full, only where it pays, and never from a file that is not whole."""

from __future__ import annotations

import logging
import os
import shutil
import time
from pathlib import Path

import msgspec
import numpy as np
import pytest

from ormahd.embedding import check as embed_check
from ormahd.embedding import int8, onnx
from ormahd.embedding import model as choose
from ormahd.embedding.int8 import HALF, multiply
from ormahd.embedding.model import Model
from ormahd.embedding.onnx_graph import FLOAT, INT8, TOKENS, WORDS, GraphWriter, Shape, Weight
from ormahd.settings import EmbeddingSettings
from tests import models

TEXTS = [
    "which database keeps the bills?", "tea?", "", "東京タワー", "What did we decide about the connection pool for staging? " * 12,
]  # fmt: skip


def load(directory: Path, precision: str) -> Model:
    made = choose.load(EmbeddingSettings.model_validate({"precision": precision}), directory)
    assert isinstance(made, Model)
    return made


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory in which the default model was loaded."""
    found = tmp_path_factory.mktemp("models") / "models"
    with models.made_once(found):
        load(found, "int8")
    return found


@pytest.fixture(scope="module")
def full(directory: Path) -> Model:
    return load(directory, "fp32")


@pytest.fixture(scope="module")
def eight(directory: Path) -> Model:
    return load(directory, "int8")


@pytest.fixture
def elsewhere(directory: Path, tmp_path: Path) -> Path:
    """Another directory, in which no model was loaded in eight bits."""
    shutil.copy(next(directory.glob("basis-*")), tmp_path)
    return tmp_path


def file_of(directory: Path) -> Path:
    (found,) = directory.glob("eight-*.bin")
    return found


def weighed_in(directory: Path) -> Path:
    return file_of(directory).with_suffix(".json")


def test_vectors_are_nearly_what_they_are_in_full(full: Model, eight: Model) -> None:
    assert eight.fingerprint != full.fingerprint, "vectors of both in one index"
    assert (full.served.precision, eight.served.precision) == ("fp32", "int8")
    assert full.served.milliseconds is None
    assert eight.served.milliseconds is not None
    assert min(eight.served.vectors or 0, eight.served.tokens or 0) > embed_check.EIGHT_LEAST
    for text, ours, theirs in zip(TEXTS, eight.embed_documents(TEXTS), full.embed_documents(TEXTS), strict=True):
        asked, wanted = eight.embed_query(text), full.embed_query(text)
        assert asked.token_ids.tolist() == wanted.token_ids.tolist()
        assert asked.vector @ wanted.vector > embed_check.EIGHT_LEAST
        assert embed_check.least(asked.wide, wanted.wide) > embed_check.EIGHT_LEAST
        assert asked.vector.tobytes() != wanted.vector.tobytes()
        assert ours.vector @ theirs.vector > embed_check.EIGHT_LEAST
        assert [one.token_ids.tolist() for one in ours.pieces] == [one.token_ids.tolist() for one in theirs.pieces]


def test_a_texts_vector_does_not_depend_on_what_is_embedded_beside_it(eight: Model) -> None:
    alike = [
        f"The {what} stands beside the {other}." for what in ("tree", "house", "lamp") for other in ("door", "wall")
    ]
    texts = [*TEXTS, *alike]
    lengths = {len(eight._tokenizer.encode(text).ids) for text in alike}
    assert len(lengths) == 1, "they go together"
    together = eight.embed_documents(texts)
    assert len({one.vector.tobytes() for one in together}) == len(texts)
    for urgent in (True, False):
        for text, wanted in zip(texts, together, strict=True):
            (alone,) = eight.embed_documents([text], urgent=urgent)
            assert alone.vector.tobytes() == wanted.vector.tobytes()
            assert [one.tokens.tobytes() for one in alone.pieces] == [one.tokens.tobytes() for one in wanted.pieces]
            assert eight.embed_query(text).vector.tobytes() == wanted.vector.tobytes() or len(wanted.pieces) > 1


def test_whether_it_pays_is_weighed_once(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(int8, "PAYS", 0.0)
    first = load(elsewhere, "auto")
    slow = "eight bits are hardly quicker on this processor"
    assert (first.served.precision, first.served.why) == ("fp32", slow)
    before = weighed_in(elsewhere).read_bytes()
    monkeypatch.setattr(int8, "seconds", lambda _: pytest.fail("timed again"))
    assert (load(elsewhere, "auto").served.why, load(elsewhere, "fp32").served.why) == (slow, None)
    assert load(elsewhere, "int8").served.precision == "int8"
    assert weighed_in(elsewhere).read_bytes() == before
    monkeypatch.setattr(int8, "PAYS", 1000.0)
    assert load(elsewhere, "auto").served.precision == "int8"


@pytest.mark.parametrize("damage", ["cut off", "other bytes", pytest.param("gone", marks=pytest.mark.soak)])
def test_a_file_that_is_not_whole_is_made_again(directory: Path, eight: Model, damage: str) -> None:
    file, weighed = file_of(directory), weighed_in(directory).read_bytes()
    whole = file.read_bytes()
    match damage:
        case "cut off":
            file.write_bytes(whole[: len(whole) // 2])
        case "other bytes":
            file.write_bytes(whole[:-100] + b"\x55" * 100)
        case "gone":
            file.unlink()
    again = load(directory, "int8")
    assert (again.served.precision, again.fingerprint) == ("int8", eight.fingerprint)
    assert file.read_bytes() == whole
    assert weighed_in(directory).read_bytes() == weighed, "what was weighed stands"


@pytest.mark.parametrize(
    "damage", [b'{"sha256": 5}', *(pytest.param(other, marks=pytest.mark.soak) for other in (b"", b"{", b"[]"))]
)
def test_what_was_weighed_is_weighed_again_where_it_is_not_whole(directory: Path, damage: bytes) -> None:
    weighed_in(directory).write_bytes(damage)
    assert load(directory, "int8").served.precision == "int8"
    assert msgspec.json.decode(weighed_in(directory).read_bytes(), type=embed_check.Int8Record).milliseconds > 0


def test_matrices_that_give_other_vectors_are_not_served(
    directory: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As a version of ONNX Runtime might, whose sums overflow."""
    whole = int8.quantise
    monkeypatch.setattr(int8, "quantise", lambda matrix: whole(matrix[::-1].copy()))
    file_of(directory).unlink()
    with caplog.at_level(logging.WARNING):
        made = load(directory, "int8")
    assert made.served.precision == "fp32"
    assert "differs here" in (made.served.why or "")
    assert "other vectors" in caplog.text
    monkeypatch.undo()
    assert load(directory, "int8").served.precision == "int8"


def test_matrices_that_nobody_opened_for_long_go_when_others_are_made(directory: Path) -> None:
    ours, theirs, former = file_of(directory), directory / "eight-0123456789abcdef.bin", directory / "eight-aa.bin"
    long_ago = time.time() - embed_check.UNUSED_S - 60
    for file in (theirs, former):
        file.write_bytes(b"of another model")
    for file in (ours, former):
        os.utime(file, (long_ago, long_ago))
    load(directory, "int8")
    assert ours.stat().st_mtime > long_ago, "it was opened now"
    assert former.exists(), "nothing was made anew"
    whole = ours.read_bytes()
    ours.unlink()
    load(directory, "int8")
    assert ours.read_bytes() == whole
    assert {*directory.glob("eight-*.bin")} == {ours, theirs}
    theirs.unlink()


def test_a_folder_in_the_place_of_its_file_is_set_aside(directory: Path, elsewhere: Path) -> None:
    file = elsewhere / file_of(directory).name
    file.mkdir()
    made = load(elsewhere, "int8")
    assert made.served.precision == "int8"
    assert file.is_file()


def test_where_nothing_can_be_kept_it_serves_in_full(directory: Path, elsewhere: Path) -> None:
    (elsewhere / f"{file_of(directory).name}.{os.getpid()}.new").mkdir()  # under which name the file would be written
    made = load(elsewhere, "int8")
    assert (made.served.precision, made.served.why) == ("fp32", "it does not run in eight bits here")
    assert len(made.embed_query("what?").vector) == made.dimensions


@pytest.mark.parametrize(
    ("cosine", "why"), [pytest.param(0.0, "does not run so", marks=pytest.mark.soak), (0.9, "cosine 0.9000")]
)
def test_a_model_that_loses_too_much_serves_in_full(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch, cosine: float, why: str
) -> None:
    packaged = Path(embed_check.__file__).parent / embed_check.PACKAGED
    record = msgspec.json.decode(packaged.read_bytes(), type=embed_check.CheckRecord)
    monkeypatch.setattr(embed_check, "_packaged", lambda: b"")
    embed_check.write(msgspec.structs.replace(record, eight=cosine), elsewhere / f"checked-{record.key[:16]}.json")
    served = load(elsewhere, "auto").served
    assert served.precision == "fp32"
    assert why in (served.why or "")
    assert not list(elsewhere.glob("eight-*"))


@pytest.mark.parametrize("shape", [(1, 1), (3, 31), (5, 32), (2, 100)])
def test_rounding_is_off_by_half_a_step_at_most(shape: tuple[int, int]) -> None:
    matrix = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    matrix[0] = 0.0
    codes, scales = int8.quantise(matrix)
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
    codes, scales = int8.quantise(matrix)
    first, second = codes[0::2].astype(int), codes[1::2].astype(int)
    assert int8.PAIR - 1 <= np.abs(first[: len(second)] + second).max() <= int8.PAIR
    made = GraphWriter()
    made.floats("step", 1 / 255)
    made.byte("low", 0)
    product = multiply(made, made.node("QuantizeLinear", [WORDS, "step", "low"], "given"), "matrix", "step", "low")
    made.node("Identity", [product], TOKENS)
    (tmp_path / "eight.bin").write_bytes(codes.tobytes() + scales.tobytes())
    outside = {
        "matrix.codes": Weight((columns, 24), 0, codes.nbytes, INT8),
        "matrix.scales": Weight((24,), codes.nbytes, scales.nbytes, FLOAT),
    }
    shape = Shape(layers=1, heads=1, width=columns, epsilon=1e-12, first=0)
    graph = made.model(shape, "eight.bin", outside, {}, {}, [TOKENS])
    session = onnx._session(onnx._library(), graph, tmp_path, tmp_path)
    given = chance.uniform(0.9, 1.0, (1, 3, columns)).astype(np.float32)
    (out,) = session.run(None, {WORDS: given})
    step = np.float32(1 / 255)
    exactly = np.rint(given / step).astype(np.int64) @ codes.astype(np.int64)
    assert np.allclose(out, exactly * (scales * step), rtol=1e-5)


def test_what_is_always_large_is_made_even_at_the_cost_of_the_matrix() -> None:
    chance = np.random.default_rng(2)
    matrix = chance.standard_normal((40, 30)).astype(np.float32)
    given = chance.standard_normal((6, 30)).astype(np.float32)
    given[:, 7] *= 50.0
    largest = np.abs(given).max(axis=0)
    factors = int8.evening(matrix, largest)
    even = given * factors
    assert np.allclose(even @ (matrix / factors).T, given @ matrix.T, atol=1e-3)
    assert np.isclose(np.abs(even).max(), HALF), "no code is left unused, and none is too small"
    assert HALF / np.median(np.abs(even)) < np.abs(given).max() / np.median(np.abs(given)) / 5
    never = int8.evening(np.zeros((2, 3), np.float32), np.zeros(3, np.float32))
    assert np.isfinite(never).all()
    assert (never > 0).all()
