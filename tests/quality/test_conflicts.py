"""Floors of the rule that finds likely conflicts without a judge (README, "Conflicts")."""

from __future__ import annotations

from itertools import combinations

import pytest

from ormahd.core.claims import read
from ormahd.core.disagree import disagree
from tests.quality.conflicts import measure, pairs
from tests.quality.whisper import HALVES, memories


@pytest.mark.parametrize(("part", "recall"), [("dev", 0.75), ("held", 0.7), ("second", 0.0)])
def test_it_is_right_nearly_always(part: str, recall: float) -> None:
    figures = measure(pairs(part))
    assert figures.precision >= 0.97, figures
    assert figures.recall >= recall, figures


@pytest.mark.parametrize("half", HALVES)
def test_two_peoples_memories_hold_none(half: str) -> None:
    """Every pair that could ever be asked about, however far apart: 45,928 in both halves."""
    read_ = [(one, read(one.title, one.content)) for one in memories(half)]
    found = [
        (a.key, b.key, said)
        for (a, one), (b, other) in combinations(read_, 2)
        if (a.space == b.space or a.space is None or b.space is None) and (said := disagree(one, other)) is not None
    ]
    assert found == []
