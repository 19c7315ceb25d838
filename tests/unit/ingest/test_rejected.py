"""Rules learn what was tried and rejected, and why, from what the person says."""

from __future__ import annotations

import tomllib
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ormahd.ingest.readers.turns import SessionTurn
from ormahd.ingest.rules import candidates
from ormahd.model.node import NodeType

ROWS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))["rows"]


@pytest.mark.parametrize(("text", "because"), ROWS, ids=lambda one: str(one)[:50])
def test_a_dead_end_is_learned_with_its_reason(text: str, because: str) -> None:
    turn = SessionTurn("user", text, None, "s", "k")
    found = [one for one in candidates([turn], today=datetime(2026, 11, 27, 12, tzinfo=UTC)) if one.because]
    assert [one.because for one in found] == ([because] if because else [])
    assert all(one.type is NodeType.OBSERVATION for one in found)
