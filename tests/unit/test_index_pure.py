"""Pieces of long texts, token vectors made small, exact cosines: the parts of the index without a disk."""

import re
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ormahd.embedding import token_vectors
from ormahd.embedding.hashing import Hashing
from ormahd.embedding.pieces import split
from ormahd.index import links
from ormahd.index.lookup import clean_prefix
from ormahd.vectors.matrix import Matrix
from ormahd.vectors.nearest import Only
from ormahd.vectors.prefilter import STEP, wide
from tests.contract.index_notes import node_id
from tests.examples import examples

SPAN = re.compile(r"\S+")


@settings(max_examples=examples(200))
@given(
    st.text("ab .\n!。", max_size=400),
    st.integers(4, 40),
    st.integers(1, 50),
)
def test_pieces_cover_the_text_and_fit_the_window(text: str, window: int, most: int) -> None:
    spans = [match.span() for match in SPAN.finditer(text)]
    places = split(text, spans, window, most)
    assert len(places) <= most
    assert bool(places) == bool(spans)
    reached = 0
    for first, last in places:
        assert first <= reached < last <= len(spans)
        assert last - first <= window
        reached = last
    assert reached == len(spans) or len(places) == most


def test_pieces_end_where_a_reader_would_stop() -> None:
    sentences = [f"This is sentence number {number} of the text." for number in range(40)]
    text = " ".join(sentences)
    spans = [match.span() for match in SPAN.finditer(text)]
    for first, last in split(text, spans, 50, 99):
        piece = text[spans[first][0] : spans[last - 1][1]]
        assert piece.startswith("This")
        assert piece.endswith(".")


def test_the_basis_is_the_same_whoever_computes_it() -> None:
    random = np.random.default_rng(3)
    tokens = token_vectors.unit(random.standard_normal((500, 64)) * np.linspace(2, 0.1, 64))
    one, other = token_vectors.basis(tokens, 16), token_vectors.basis(tokens.copy(), 16)
    assert one.tobytes() == other.tobytes()
    assert one.shape == (64, 16)
    assert np.allclose(one.T @ one, np.eye(16), atol=1e-5)


def test_small_tokens_keep_their_cosines() -> None:
    random = np.random.default_rng(4)
    tokens = token_vectors.unit(
        random.standard_normal((2 * token_vectors.SOME + 7, 40)) @ random.standard_normal((40, 384))
    )
    small = token_vectors.project(tokens, token_vectors.basis(tokens, 64))
    codes = token_vectors.quantise(small)
    kept = codes.astype(np.float32) * token_vectors.step(64)
    assert np.abs(small @ kept.T - tokens @ tokens.T).max() < 0.12
    assert np.abs(small @ kept.T - tokens @ tokens.T).mean() < 0.02
    packed = np.frombuffer(token_vectors.pack(codes), np.uint8).reshape(-1, 32)
    asked = token_vectors.unit(np.random.default_rng(1).standard_normal((5, 64)).astype(np.float32))
    wanted = codes.astype(np.float32) @ asked.T * token_vectors.step(64)
    assert np.allclose(token_vectors.cosines(packed, asked), wanted, atol=1e-5)
    assert len(token_vectors.pack(codes)) == codes.size // 2


def test_calibration_is_there() -> None:
    lines = token_vectors.calibration()
    assert len(lines) > 150
    assert not any(line.startswith("#") for line in lines)


def test_hashing_finds_shared_words_and_never_changes() -> None:
    embedder = Hashing()
    (apples, pears, empty) = embedder.embed_documents(["red apples", "green pears", ""])
    question = embedder.embed_query("apples")
    assert question.vector @ apples.vector > 0.6
    assert abs(question.vector @ pears.vector) < 0.3
    assert len(empty.pieces) == 1
    assert len(empty.pieces[0].tokens) == 0
    again = Hashing().embed_query("apples")
    assert again.vector.tobytes() == question.vector.tobytes()
    assert Hashing(salt="x").embed_query("apples").vector.tobytes() != question.vector.tobytes()
    assert np.isclose(np.linalg.norm(question.vector), 1, atol=1e-5)


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 3)), max_size=60), st.integers(0, 2**31))
def test_the_matrix_is_a_dict_of_vectors(steps: list[tuple[int, int]], seed: int) -> None:
    random = np.random.default_rng(seed)
    matrix, wanted = Matrix(8), {}
    for number, pieces in steps:
        if pieces:
            rows = token_vectors.unit(random.standard_normal((pieces, 8))).astype(np.float16)
            matrix.put([(node_id(number), rows)])
            wanted[node_id(number)] = rows
        else:
            matrix.remove([node_id(number)])
            wanted.pop(node_id(number), None)
    check(matrix, wanted, random)


def test_the_matrix_copies_the_living_together() -> None:
    random = np.random.default_rng(1)
    matrix, wanted = Matrix(8), {}
    for turn in range(6):
        for number in range(40):
            rows = token_vectors.unit(random.standard_normal((100 + turn, 8))).astype(np.float16)
            matrix.put([(node_id(number), rows)])
            wanted[node_id(number)] = rows
    assert matrix.memory < 3 * STEP * 16
    check(matrix, wanted, random)


def crowd(count: int, seed: int) -> token_vectors.Float:
    """Unit vectors that crowd in a part of their space, as those of texts do: float32[count, 384]."""
    random = np.random.default_rng(seed)
    spread = random.standard_normal((count, 384)) * np.geomspace(1, 0.05, 384)
    return token_vectors.unit((spread + random.standard_normal(384) * 0.3).astype(np.float32))


def test_of_many_rows_the_nearest_are_found_by_their_short_form() -> None:
    rows = crowd(3 * STEP + 100, 1).astype(np.float16)
    matrix, exact = Matrix(384, quick=2 * STEP + 50, block=STEP), Matrix(384)  # the last rows have no short form
    for one in (matrix, exact):
        one.put((node_id(number), rows[number : number + 1]) for number in range(len(rows)))
    assert matrix.memory < 1.4 * exact.memory
    for question in crowd(20, 2):
        found, wanted = matrix.nearest(question, 50), exact.nearest(question, 50)
        assert found[:25] == wanted[:25]
        assert len(set(found) & set(wanted)) >= 49
    assert matrix.nearest_each(crowd(3, 3), 7) == [exact.nearest(question, 7) for question in crowd(3, 3)]
    assert len(matrix.nearest(crowd(1, 4)[0], len(rows) + 10)) == len(rows)


@pytest.mark.parametrize("quick", [0, 10 * STEP])
@pytest.mark.parametrize("block", [STEP // 3, 10 * STEP])
def test_the_nearest_of_those_that_are_wanted(quick: int, block: int) -> None:
    rows = crowd(2 * STEP, 7).astype(np.float16)
    matrix = Matrix(384, quick=quick, block=block)
    matrix.put((node_id(number // 2), rows[number : number + 2]) for number in range(0, len(rows), 2))
    members = {node_id(number) for number in range(0, STEP, 9)}
    gone = {node_id(number) for number in range(0, STEP, 27)}
    for question in crowd(10, 8):
        cosines = matrix.cosines(question, sorted(members - gone))
        wanted = sorted(cosines.items(), key=lambda item: (-item[1], item[0]))
        assert matrix.nearest(question, 12, Only(members, gone, 0.1)) == wanted[:12]
        assert matrix.nearest(question, 12, Only(members, gone, 1.0)) == wanted[:12]
        assert len(matrix.nearest(question, STEP, Only(members, gone, 0.1))) == len(wanted)
    assert matrix.nearest(crowd(1, 9)[0], 5, Only(set(), set(), 0.5)) == []
    question = crowd(1, 10)[0]
    far = dict(matrix.nearest(question, STEP)[STEP // 2 :])  # none of them among those that are looked at first
    assert matrix.nearest(question, 12, Only(far.keys(), set(), 0.5)) == list(far.items())[:12]


def test_short_forms_follow_what_is_changed_and_copied_together() -> None:
    rows = crowd(2 * STEP, 5).astype(np.float16)
    matrix = Matrix(384, quick=10 * STEP)
    matrix.put((node_id(number // 8), rows[number : number + 8]) for number in range(0, len(rows), 8))
    for number in range(700):  # so many that the living rows are copied
        matrix.put([(node_id(number), np.roll(rows[8 * number : 8 * number + 8], 1, axis=1))])
    matrix.remove([node_id(number) for number in range(100)])
    for number in (100, 650, 800, 1000):
        row = rows[8 * number].astype(np.float32)
        question = token_vectors.unit((np.roll(row, 1) if number < 700 else row)[None])[0]
        (best, cosine), *others = matrix.nearest(question, 5)
        assert (best, len(others)) == (node_id(number), 4)
        assert cosine == pytest.approx(1.0, abs=1e-3)


def test_a_search_beside_changes_finds_what_stays() -> None:
    """Also while rows are copied together, and the short forms are made anew."""
    rows = crowd(2 * STEP, 6).astype(np.float16)
    matrix = Matrix(384, quick=10 * STEP)
    matrix.put((node_id(number), rows[number : number + 1]) for number in range(1000))
    stop, wrong = threading.Event(), list[object]()

    def ask() -> None:
        while not stop.is_set():
            for number in range(0, 100, 9):
                try:
                    found = matrix.nearest(rows[number].astype(np.float32), 3)
                    if found[0][0] != node_id(number):
                        wrong.append((number, found))
                except Exception as exc:  # noqa: BLE001 - told to the test, which fails with it
                    wrong.append(exc)

    thread = threading.Thread(target=ask)
    thread.start()
    for turn in range(6):
        matrix.put(
            (node_id(number), rows[number : number + 1]) for number in range(1000 + turn * 1000, 2000 + turn * 1000)
        )
        matrix.remove([node_id(number) for number in range(900 + turn * 1000, 1900 + turn * 1000)])
    stop.set()
    thread.join(120)
    assert not wrong, wrong[:3]


def test_float16_is_widened_exactly() -> None:
    every = np.arange(2**16, dtype=np.uint16).view(np.float16)
    finite = every[np.isfinite(every)]
    assert wide(finite).tobytes() == finite.astype(np.float32).tobytes()


def check(matrix: Matrix, wanted: dict[str, token_vectors.NDArray[np.float16]], random: np.random.Generator) -> None:
    assert len(matrix) == len(wanted)
    assert matrix.pieces == sum(map(len, wanted.values()))
    assert set(matrix.ids()) == set(wanted)
    vector = token_vectors.unit(random.standard_normal((1, 8)))[0]
    best = {name: float((rows.astype(np.float32) @ vector).max()) for name, rows in wanted.items()}
    assert matrix.cosines(vector, [*wanted, node_id(999)]) == pytest.approx(best, abs=2e-6)
    nearest = matrix.nearest(vector, 5)
    assert [score for _, score in nearest] == pytest.approx(sorted(best.values(), reverse=True)[:5], abs=2e-6)
    for name, rows in wanted.items():
        found = matrix.vectors(name)
        assert found is not None
        assert np.array_equal(found, rows.astype(np.float32))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("fact_x_1A2B3C4D", ("1a2b3c4d", "fact_x_1a2b3c4d", "fact_x_1a2b3c4d")),
        ("People/Bob.md", (None, "bob", "people/bob")),
        ("./a//../Bob ", (None, "bob", "a/bob")),
        ("Cafe\u0301", (None, "caf\u00e9", "caf\u00e9")),
        ("", (None, "", "")),
    ],
)
def test_what_a_link_is_looked_up_by(text: str, expected: tuple[str | None, str, str]) -> None:
    found = links.target(text)
    assert (found.short, found.file, found.whole) == expected


def test_prefixes_are_canonical() -> None:
    assert clean_prefix(" ABCD ") == "abcd"
    assert clean_prefix("abcd1111-0000-4000-8000-000000000001") == "abcd1111-0000-4000-8000-000000000001"
    assert clean_prefix("abcd1111000040008000000000000001") == "abcd1111-0000-4000-8000-000000000001"
    assert clean_prefix("abcd11110") == "abcd1111-0"
