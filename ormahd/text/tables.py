"""Read the data files of this package: tables of words and of patterns."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from importlib import resources
from typing import Any

_PART = re.compile("@([a-z_]+)@")


@cache
def tables(file: str) -> dict[str, Any]:
    """Return the content of a TOML file of this package."""
    return tomllib.loads(resources.files(__package__).joinpath(file).read_text("utf-8"))


@cache
def sections(file: str) -> dict[str, list[str]]:
    """Return {section: its lines, folded} of a text file of this package, without comments."""
    found: dict[str, list[str]] = {}
    for line in resources.files(__package__).joinpath(file).read_text("utf-8").splitlines():
        if line.startswith("["):
            found[line.strip("[]")] = lines = []
        elif line and not line.startswith("#"):
            lines.append(line.casefold())
    return found


def patterns(file: str, table: str, **parts: str) -> dict[str, re.Pattern[str]]:
    """Return {name: pattern} of a table of regular expressions.

    In them, `@name@` stands for one of `parts`, or for an entry of the table `parts` of the same file.
    """
    data = tables(file)
    known = data.get("parts", {}) | parts

    def part(found: re.Match[str]) -> str:
        return _PART.sub(part, known[found[1]])

    return {name: re.compile(_PART.sub(part, source)) for name, source in data[table].items()}
