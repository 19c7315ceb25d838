"""Which of the steps of a write the suite kills at: some of them each run, all of them in the soak."""

import pytest

STRIDE = pytest.mark.parametrize("stride", [3, pytest.param(1, marks=pytest.mark.soak)])
"""One step in so many. The suite has ten minutes for everything; `make soak` has the night."""


def numbered(steps: list[str], stride: int) -> list[tuple[int, str]]:
    """Steps with their numbers: every `stride`th, and the last."""
    return [(number, step) for number, step in enumerate(steps) if number % stride == 0 or number == len(steps) - 1]
