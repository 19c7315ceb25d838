"""What is told before an action: floors on both halves (README, "Actions")."""

from __future__ import annotations

import pytest

from tests.quality.actions import figures, outcomes

TOLD, BESIDE = 0.85, 0.03
"""The share of actions on which a memory bears that must be told it, and the share of all that may be told another one."""


@pytest.mark.parametrize("half", ["dev", "held"])
def test_the_memory_that_bears_is_told_and_hardly_another(half: str) -> None:
    found = figures(list(outcomes(half)))
    assert found["told"] >= TOLD * found["bears"], found
    assert found["beside"] <= BESIDE * found["all"], found
