"""A walk by chance through the whole public interface, against a pure model after each step (the folder `walk`, DESIGN section 2).

100 steps in `make test`, always the same ones, and each kind of step at least once; 300, and 5,000 others each time, in `make soak`. A
failure names its seed: `ORMAH_SEED=7 pytest tests/blackbox/test_random_operations.py`.
"""

from __future__ import annotations

import os
import random

import pytest

from tests.blackbox.walk.walk import walked

FIRST = int(os.environ.get("ORMAH_SEED", "1"))


def test_a_hundred_steps() -> None:
    walked(100, FIRST)


@pytest.mark.soak
def test_three_hundred_steps() -> None:
    walked(300, FIRST)


@pytest.mark.soak
@pytest.mark.timeout(14_400)
def test_five_thousand_steps() -> None:
    walked(5_000, int(os.environ.get("ORMAH_SEED", str(random.SystemRandom().randrange(1_000_000)))))
