"""The merge of `.ormah/*.jsonl`: sets of lines."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ormahd.model.lines import merge_lines
from ormahd.model.strength import Access, fold, read_strength, with_active_days
from ormahd.note.merge import merge_file
from tests.tables import rows

NOW = datetime(2026, 11, 21, 20, tzinfo=UTC)


def lines(*rows: tuple[str, int]) -> bytes:
    return b"".join(json.dumps({"id": name, "v": value}).encode() + b"\n" for name, value in rows)


def test_active_days_of_two_machines_are_united() -> None:
    base = with_active_days(b"", [date(2026, 11, 1)])
    ours, theirs = (with_active_days(base, [date(2026, 11, day)]) for day in (21, 3))
    merged = merge_lines(base, ours, theirs)
    assert merged == merge_lines(base, theirs, ours) == with_active_days(base, [date(2026, 11, 3), date(2026, 11, 21)])


@pytest.mark.parametrize(("base", "ours", "theirs", "merged"), rows(__file__, "merges"))
def test_lines_come_go_and_change(base: list[Any], ours: list[Any], theirs: list[Any], merged: list[Any]) -> None:
    versions = [lines(*rows_) for rows_ in (base, ours, theirs)]
    assert merge_lines(*versions) == merge_lines(versions[0], versions[2], versions[1]) == lines(*merged)


def test_lines_without_id_stay_and_markers_go() -> None:
    ours = b"<<<<<<< HEAD\nnot json\n" + lines(("b", 1)) + b"=======\n[1]\n" + lines(("a", 1)) + b">>>>>>> other\n"
    assert merge_lines(b"", ours, lines(("c", 1))) == lines(("a", 1), ("b", 1), ("c", 1)) + b"[1]\nnot json\n"


def test_strength_takes_the_larger_numbers_and_later_dates() -> None:
    base = fold(b"", "m1", [Access("n", NOW)])
    ours = fold(base, "m1", [Access("n", NOW + timedelta(days=2)), Access("n", NOW, how="recall")])
    theirs = fold(fold(base, "m1", [Access("n", NOW + timedelta(days=4))]), "m2", [Access("n", NOW)])
    merged = merge_lines(base, ours, theirs)
    assert merged == merge_lines(base, theirs, ours)
    strength = read_strength(merged)["n"]
    assert strength.access_count == 3 + 1
    assert strength.last_review == NOW + timedelta(days=4)
    assert fold(merged, "m1", []) == merged


files = st.dictionaries(st.sampled_from("abcde"), st.integers(0, 3)).map(lambda rows: lines(*rows.items()))


@given(files, files, files)
def test_a_line_that_one_side_touched_follows_that_side(base: bytes, ours: bytes, theirs: bytes) -> None:
    merged = merge_lines(base, ours, theirs)
    before, here, there, after = (
        {r["id"]: r["v"] for r in map(json.loads, f.splitlines())} for f in (base, ours, theirs, merged)
    )
    for name in "abcde":
        if here.get(name) == before.get(name):
            assert after.get(name) == there.get(name)
        elif there.get(name) == before.get(name):
            assert after.get(name) == here.get(name)
        else:
            changed = {here.get(name), there.get(name)}
            assert after.get(name) in (changed - {None} or {None})
    if base not in (ours, theirs) and ours != theirs:
        assert list(after) == sorted(after)


@given(*[files | st.binary(max_size=40)] * 3)
def test_symmetric_and_true_to_a_side_that_changed_nothing(base: bytes, ours: bytes, theirs: bytes) -> None:
    assert merge_lines(base, base, theirs) == theirs
    assert merge_lines(base, ours, base) == ours
    merged = merge_lines(base, ours, theirs)
    assert merged == merge_lines(base, theirs, ours)
    assert merge_lines(merged, merged, merged) == merged


def test_only_files_of_ours_are_sets_a_persons_lines_keep_their_order() -> None:
    base, ours, theirs = b"z\ny\nx\n", b"z\ny\nx\nb\n", b"a\nz\ny\nx\n"
    for path in (".ormah/strength.jsonl", "memory/.ormah/feedback/2026-11.jsonl"):
        assert merge_file(base, ours, theirs, path).data == b"a\nb\nx\ny\nz\n"
    for path in ("data.jsonl", "data/.ormah.jsonl"):
        assert merge_file(base, ours, theirs, path).data == b"a\nz\ny\nx\nb\n"
