"""How many random examples a property is tried with, where the profile's own number is too small or too slow."""

from __future__ import annotations

from hypothesis import settings

SUITE: int = settings.get_profile("suite").max_examples


def examples(count: int) -> int:
    """Returns `count` for `make test`, and as many times more as the profile in force says (fifty times in `make soak`)."""
    return count * settings().max_examples // SUITE
