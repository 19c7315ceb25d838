"""Secrets told in prose are found in many languages, and clean sentences stay: floors for both halves of our own set."""

import pytest

from tests.quality.secrets import measure


@pytest.mark.parametrize("half", ["dev", "held"])
def test_secrets_in_prose(half: str) -> None:
    found = measure(half)
    print(f"{half}: {found.found} of {found.planted} found, {found.touched} of {found.clean} clean ones touched")
    assert found.planted > 150
    assert found.clean > 750
    assert found.found >= 0.97 * found.planted, found.misses
    assert found.touched <= 0.005 * found.clean, found.false
