"""Tables of input and output that stand as data beside a test."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any


def rows(file: Path | str, name: str) -> list[Any]:
    """The rows of the table `name` in the TOML file beside a test: each a tuple or, where the table has one column, a value.

    TOML has no null: a row that is shorter than the longest one ends in None.
    """
    found = tomllib.loads(Path(file).with_suffix(".toml").read_text("utf-8"))[name]
    width = max(len(row) for row in found) if isinstance(found[0], list) else 0
    return [tuple(row) + (None,) * (width - len(row)) if width else row for row in found]


NUMBERS = {
    "long": "9" * 5000, "negative": "-" + "9" * 5000, "wide": "9" * 25, "large": "1e999", "-large": "-1e999", "small": "1e-9999",
    "exponent": "1e" + "9" * 30, "-exponent": "1e-" + "9" * 30, "longer": "1e" + "9" * 5000, "fraction": "0." + "1" * 5000,
    "both": "9" * 5000 + "." + "9" * 5000, "listed": "[" + "9" * 5000 + "]",
}  # fmt: skip
"""Numbers of JSON that no computer counts with: more digits than Python reads, or beyond what a float holds."""
