"""Tables of input and output that stand as data beside a test."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any


def rows(file: Path, name: str) -> list[tuple[Any, ...]]:
    """The rows of the table `name` in a TOML file."""
    return [tuple(row) for row in tomllib.loads(file.read_text("utf-8"))[name]]
