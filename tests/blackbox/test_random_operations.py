"""A walk by chance through the whole public interface, against a pure model after each step (the folder `walk`, DESIGN section 2).

300 steps in `make test`, always the same ones; 5,000 in `make soak`, other ones each time. A failure names its seed:
`ORMAH_SEED=7 pytest tests/blackbox/test_random_operations.py`.
"""

from __future__ import annotations

import os
import random

import pytest

from tests.blackbox.walk.walk import walked


def test_three_hundred_steps() -> None:
    walked(300, int(os.environ.get("ORMAH_SEED", "1")))


@pytest.mark.soak
@pytest.mark.timeout(14_400)
def test_five_thousand_steps() -> None:
    walked(5_000, int(os.environ.get("ORMAH_SEED", str(random.SystemRandom().randrange(1_000_000)))))
