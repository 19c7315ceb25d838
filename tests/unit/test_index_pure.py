"""Pieces of long texts, token vectors made small, exact cosines: the parts of the index without a disk."""

import re
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ormahd.embedding import token_vectors
from ormahd.embedding.embedder import MOST, WINDOW, Hashing
from ormahd.embedding.token_vectors import split
from ormahd.index import links
from ormahd.vectors.matrix import STEP, Matrix
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


def test_vectors_of_one_direction_are_told_apart_by_their_distance_from_the_mean() -> None:
    crowded = token_vectors.unit(np.random.default_rng(1).standard_normal((400, 64)) + 12.0 / 8.0)
    assert (crowded @ crowded.T).mean() > 0.6
    apart = token_vectors.centred(crowded, crowded.mean(axis=0))
    cosines = apart @ apart.T
    assert abs(float(cosines.mean())) < 0.01
    np.testing.assert_allclose(np.diag(cosines), 1.0, atol=1e-5)


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
        random.standard_normal((2 * token_vectors.ROWS_AT_ONCE + 7, 40)) @ random.standard_normal((40, 384))
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


@pytest.mark.parametrize(
    "unit",
    ["function(a,b){return a[b]||{}};", " ", "渡轮在黎明时分离开港口", "เรือข้ามฟากออกจากท่าเรือ", "iVBORw0KGgo", "| a | b |\n", "boat ", "> > - **[[a]]** [x](y.md)\n", "ü"],
)  # fmt: skip
def test_the_windows_of_a_large_text_are_small(unit: str) -> None:
    (made,) = Hashing().embed_documents([unit * (400_000 // len(unit))])
    assert 1 <= len(made.pieces) <= MOST
    assert max(len(piece.tokens) for piece in made.pieces) <= 8 * WINDOW


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
    assert matrix.memory < 3 * STEP * 32
    check(matrix, wanted, random)


def crowd(count: int, seed: int) -> token_vectors.Float:
    """Unit vectors that crowd in a part of their space, as those of texts do: float32[count, 384]."""
    random = np.random.default_rng(seed)
    spread = random.standard_normal((count, 384)) * np.geomspace(1, 0.05, 384)
    return token_vectors.unit((spread + random.standard_normal(384) * 0.3).astype(np.float32))


def by_hand(rows: token_vectors.Float, question: token_vectors.Float, limit: int) -> list[tuple[str, float]]:
    """The nearest of notes of one row each, one comparison after the other."""
    cosines = [(node_id(number), round(float(np.vecdot(row, question)), 6)) for number, row in enumerate(rows)]
    return sorted(cosines, key=lambda one: (-one[1], one[0]))[:limit]


def test_the_nearest_are_those_of_a_comparison_one_by_one() -> None:
    rows = crowd(2 * STEP + 100, 1).astype(np.float16)
    rows[5000:5200] = rows[7]  # as near as each other: the first by id, wherever the cut is
    matrix = Matrix(384)
    matrix.put((node_id(number), rows[number : number + 1]) for number in range(len(rows)))
    wide = rows.astype(np.float32)
    questions = np.concatenate([crowd(5, 2), wide[7:8]])
    for question in questions:
        assert matrix.nearest(question, 50) == by_hand(wide, question, 50)
    assert matrix.nearest_each(questions, 7) == [by_hand(wide, question, 7) for question in questions]
    assert len(matrix.nearest(questions[0], len(rows) + 10)) == len(rows)
    assert matrix.nearest(questions[0], 0) == []


def test_an_index_that_grew_ranks_like_one_that_was_rebuilt() -> None:
    rows = crowd(2 * STEP, 5).astype(np.float16)
    grown, rebuilt = Matrix(384), Matrix(384)
    grown.put((node_id(number), rows[number : number + 8]) for number in range(0, len(rows) - 8, 8))
    for number in range(0, 5600, 8):  # so many that the living rows are copied
        grown.put([(node_id(number), np.roll(rows[number : number + 8], 1, axis=1))])
    grown.remove([node_id(number) for number in range(0, 800, 8)])
    left = [(node_id(number), grown.vectors(node_id(number))) for number in range(800, len(rows) - 8, 8)]
    rebuilt.put((one, vectors.astype(np.float16)) for one, vectors in reversed(left) if vectors is not None)
    for question in crowd(10, 6):
        assert grown.nearest(question, 30) == rebuilt.nearest(question, 30)
    row = token_vectors.unit(np.roll(rows[800].astype(np.float32), 1)[None])[0]
    (best, cosine), *_ = grown.nearest(row, 5)
    assert best == node_id(800)
    assert cosine == pytest.approx(1.0, abs=1e-3)


def test_a_search_beside_changes_finds_what_stays() -> None:
    """Also while rows are copied together."""
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
    found = links.parse_target(text)
    assert (found.short, found.file, found.whole) == expected
