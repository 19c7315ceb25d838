"""Each room of the product stays within its line of `sizes.toml`, counted without blank lines, comments and docstrings.

`python -m tests.architecture.test_sizes` lowers the lines of rooms that became smaller. To raise one is an edit by hand.
"""

from __future__ import annotations

import ast
import re
import tomllib
from functools import cache
from pathlib import Path

import pytest

from tests.architecture.syntax import ROOT, files, nodes

SIZES = Path(__file__).with_name("sizes.toml")
ROOMS = {room["name"]: room for room in tomllib.loads(SIZES.read_text("utf-8"))["room"]}


def code_lines(file: Path) -> int:
    documented: set[int] = set()
    for node in nodes(file):
        body = getattr(node, "body", None)
        for part in body if isinstance(body, list) else []:
            if (
                isinstance(part, ast.Expr)
                and isinstance(part.value, ast.Constant)
                and isinstance(part.value.value, str)
            ):
                documented.update(range(part.lineno, (part.end_lineno or part.lineno) + 1))
    lines = enumerate(file.read_text("utf-8").split("\n"), 1)
    return sum(1 for at, line in lines if line.strip() and at not in documented and not line.lstrip().startswith("#"))


def folder_of(file: Path) -> str:
    """The folder that `sizes.toml` names: `ormahd/vault`; `ormahd` for the modules beside the folders."""
    parts = file.relative_to(ROOT).parts
    if parts[:3] == ("ormahctl", "gateway", "page"):
        return "ormahctl/gateway/page"
    return "/".join(parts[:2]) if len(parts) > 2 else parts[0]


@cache
def counted() -> dict[str, int]:
    """Code lines of each room."""
    rooms = {folder: name for name, room in ROOMS.items() for folder in room["folders"]}
    found = dict.fromkeys(ROOMS, 0)
    for file in files("ormahd", "ormahctl"):
        assert folder_of(file) in rooms, f"{folder_of(file)} is no folder of sizes.toml"
        found[rooms[folder_of(file)]] += code_lines(file)
    return found


@pytest.mark.parametrize("name", ROOMS)
def test_a_room_is_not_larger_than_its_line(name: str) -> None:
    lines = counted()[name]
    assert lines <= ROOMS[name]["lines"], f"{name} has {lines} code lines: cut, or raise its line and say what it buys"


def lowered() -> str:
    """The text of `sizes.toml` with today's lines where they are fewer."""
    text = SIZES.read_text("utf-8")
    for name, lines in counted().items():
        wanted = min(lines, ROOMS[name]["lines"])
        text = re.sub(rf'(name = "{re.escape(name)}"\n(?:.*\n)*?lines = )\d+', rf"\g<1>{wanted}", text, count=1)
    return text


if __name__ == "__main__":
    SIZES.write_text(lowered(), "utf-8")
