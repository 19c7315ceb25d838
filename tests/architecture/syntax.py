"""The product's files and their syntax trees, each read once in a process."""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]


def files(*packages: str) -> Iterator[Path]:
    for package in packages:
        yield from sorted((ROOT / package).rglob("*.py"))


@cache
def tree(file: Path) -> ast.Module:
    """The trees stay, a million objects: no collection goes through them, neither now nor later."""
    collects = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(file.read_bytes())
    finally:
        gc.freeze()
        if collects:
            gc.enable()


@cache
def nodes(file: Path) -> tuple[ast.AST, ...]:
    """Every node of the file's tree, from the outside to the inside."""
    return tuple(ast.walk(tree(file)))


@cache
def imports(file: Path) -> tuple[str, ...]:
    """Absolute names of what a file imports; of `from x import y`, `x.y` (y may be a module)."""
    found: list[str] = []
    for node in nodes(file):
        if isinstance(node, ast.Import):
            found += (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: relative import"
            found += (f"{node.module}.{alias.name}" for alias in node.names)
    return tuple(found)
