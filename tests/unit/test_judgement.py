"""A judgement is one line: written, read again, put in its place, merged, purged."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from ormahd.model.judgement import FILES, Int8Vector, Judgement, decode, encode, line_id, model_name
from ormahd.model.lines import is_lines, merge_lines
from ormahd.note.forgetting import Forgotten
from ormahd.note.merge import merge_file
from tests.tables import rows

NOW = datetime(2026, 11, 21, 20, tzinfo=UTC)
A = "97acbe8e-6d0a-4c1e-9a55-0a52b0f4f9d1"
B = "1a2b3c4d-6d0a-4c1e-9a55-0a52b0f4f9d2"


def unit(seed: int, dimensions: int = 384) -> np.ndarray:
    drawn = np.random.default_rng(seed).standard_normal(dimensions).astype(np.float32)
    return drawn / np.linalg.norm(drawn)


def judgement(node: str = A, signal: int = 1, *, event: str = "k3v9x2m7q4hd", at: datetime = NOW, **more: object) -> Judgement:  # fmt: skip
    values: dict[str, object] = {
        "source": "explicit", "model": "all-MiniLM-L6-v2", "vector": Int8Vector.of(unit(1)), "prompt_hash": "0" * 32,
        "space": "ormah", "session_id": "1" * 32,
    } | more  # fmt: skip
    return Judgement(node, signal, confirmed_at=at, event=event, **values)  # type: ignore[arg-type]


@pytest.mark.parametrize("prompt", [None, "where is the \u2028 wood-stove? 木炉 \ud800"])
def test_what_is_written_is_read(prompt: str | None) -> None:
    made = judgement(prompt=prompt)
    line = encode(made)
    assert b"\n" not in line
    assert len(line.splitlines()) == 1
    again = decode(line)
    assert isinstance(again, Judgement)
    assert again == judgement(prompt=None if prompt is None else prompt.replace("\ud800", "?"))


def test_a_vector_in_eight_bits_has_nearly_the_same_cosines() -> None:
    others = np.stack([unit(seed) for seed in range(500)])
    vector = unit(1000)
    near = 0.7 * vector + np.sqrt(1 - 0.49) * others
    near /= np.linalg.norm(near, axis=1, keepdims=True)
    small = Int8Vector.of(vector).vector
    off = np.abs(near @ (small / np.linalg.norm(small)) - near @ vector).max()
    assert off < 0.002
    assert not Int8Vector.of(np.zeros(4, np.float32)).vector.any()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        *rows(__file__, "a_line_that_says_something_else_is_none"),
        ({"scale": None}, "scale"),
        ({"scale": 10**400}, "scale"),
        ({"event": None}, "event"),
    ],
)
def test_a_line_that_says_something_else_is_none(change: dict[str, object], why: str) -> None:
    row = json.loads(encode(judgement())) | change
    assert why in str(decode(json.dumps(row).encode()))


@pytest.mark.parametrize("line", [b"", b"[]", b"{", b"\xff\xfe", b"<<<<<<< ours", b"[" * 100_000, b"1e999"])
def test_no_line_breaks_the_reader(line: bytes) -> None:
    assert isinstance(decode(line), str)
    good = encode(judgement())
    found, bad = FILES.read(line + b"\n" + good + b"\n")
    assert list(found) == [judgement().id]
    assert [number for number, _ in bad] == ([1] if line else [])


def test_put_replaces_and_keeps_what_it_does_not_know() -> None:
    first, other = judgement(), judgement(B)
    data = FILES.put(FILES.put(b"", first), other)
    assert FILES.read(data) == ({one.id: one for one in (first, other)}, [])
    with_more = data + b'{"id": "from a later version", "kind": "new"}\nno json\n'
    changed = judgement(signal=-1, at=NOW + timedelta(seconds=3))
    after = FILES.put(with_more, changed)
    assert FILES.read(after)[0] == {changed.id: changed, other.id: other}
    assert b"from a later version" in after
    assert b"no json" in after
    assert len(after.splitlines()) == 4
    assert FILES.put(after, changed) == after


def test_machines_that_judged_both_have_both_and_the_later_word_on_the_same() -> None:
    here, there = judgement(), judgement(B)
    assert FILES.read(merge_lines(b"", FILES.put(b"", here), FILES.put(b"", there)))[0] == {
        here.id: here,
        there.id: there,
    }
    later = judgement(signal=-1, at=NOW + timedelta(days=1))
    for one, other in ((here, later), (later, here)):
        merged = merge_file(b"", FILES.put(b"", one), FILES.put(b"", other), FILES.path(NOW))
        assert merged.data is not None
        assert FILES.read(merged.data)[0] == {later.id: later}


def test_taken_back_is_gone_though_others_came_since() -> None:
    before, mine, since = FILES.put(b"", judgement(B)), judgement(), judgement(B, event="another00000")
    after = FILES.put(before, mine)
    assert FILES.read(merge_lines(after, FILES.put(after, since), before))[0].keys() == {judgement(B).id, since.id}


def test_names() -> None:
    assert FILES.path(datetime(2026, 12, 1, 0, 30, tzinfo=UTC).astimezone()) == ".ormah/feedback/2026-12.jsonl"
    assert is_lines(FILES.path(NOW))
    assert FILES.ours(FILES.path(NOW))
    for other in (
        ".ormah/feedback/2026-11.txt",
        ".ormah/feedback/x.jsonl",
        "feedback/2026-11.jsonl",
        ".ormah/feedback",
    ):
        assert not FILES.ours(other)
    assert line_id("e", A, "explicit") == "e-97acbe8e-explicit"
    for spelled in ("all-MiniLM-L6-v2", "sentence-transformers/all-MiniLM-L6-v2", "/home/ada/models/all-MiniLM-L6-v2/"):
        assert model_name(spelled) == "all-MiniLM-L6-v2"


def test_a_purged_memory_takes_its_lines_with_it() -> None:
    data = FILES.put(FILES.put(b"", judgement()), judgement(B))
    left = Forgotten(A).without(FILES.path(NOW), data)
    assert FILES.read(left)[0].keys() == {judgement(B).id}
    assert not Forgotten(A).mentions(left)


def test_a_purged_text_goes_from_a_committed_prompt() -> None:
    data = FILES.put(b"", judgement(prompt='the "hush hush" plan'))
    left = Forgotten(None, ('"hush hush"',)).without(FILES.path(NOW), data)
    found, bad = FILES.read(left)
    assert bad == []
    assert next(iter(found.values())).prompt == "the (purged) plan"
