"""Tombstones: lines without texts, which are read back, and of which any other is refused."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from ormahd.actions.tombstones import statement
from ormahd.model.tombstone import FILES, Tombstone, Tombstones, decode, encode, new_salt, tombstone

NOW = datetime(2026, 11, 27, 12, 0, tzinfo=UTC)
SALT = "0b7e" * 8


def test_a_line_holds_hashes_and_is_found_again() -> None:
    line = tombstone(SALT, statement("The staging database listens on port 5433."), "a" * 24, NOW)
    said = encode(line).decode()
    assert "5433" not in said
    assert "a" * 24 not in said
    (found,) = FILES.read(encode(line) + b"\n")[0].values()
    assert found == line
    known = Tombstones.of([found])
    assert known.statement(statement("the staging database listens on port 5433"))
    assert known.turn("a" * 24)
    assert not known.statement(statement("The staging database listens on port 5434."))
    assert not known.turn("b" * 24)


def test_the_day_since_which_something_holds_is_no_part_of_it() -> None:
    assert statement("Write in the imperative mood (since 2026-11-02).") == statement("Write in the imperative mood.")
    assert statement("The mast fell (on 2026-11-02) twice.") != statement("The mast fell twice.")


def test_vaults_have_other_hashes_and_a_joined_one_both() -> None:
    one, other = (tombstone(new_salt(), "said", None, NOW) for _ in range(2))
    assert one.statement != other.statement
    assert Tombstones.of([one, other]).statement("said")
    assert not Tombstones.of([one, other]).turn("")


@pytest.mark.parametrize(
    "change",
    [{"salt": "xyz"}, {"statement": 1}, {"turn": "no hash"}, {"gone_at": "soon"}, {"id": "1"}, {"statement": "", "turn": ""}],
)  # fmt: skip
def test_another_line_is_refused_with_the_reason(change: dict[str, object]) -> None:
    row = json.loads(encode(tombstone(SALT, "said", "a" * 24, NOW)))
    found = decode(json.dumps(row | change).encode())
    assert isinstance(found, str)
    assert not isinstance(found, Tombstone)
    assert decode(b"[]") == "it is no JSON object"
