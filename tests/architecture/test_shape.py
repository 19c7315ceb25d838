"""The shape of the code: short functions, short files, one class a name, and private names used at home only.

`shape.toml` lists today's exceptions by name. The lists are exact: a mended exception has to be taken out (`python -m
tests.architecture.test_shape` does that), and none is added.
"""

from __future__ import annotations

import ast
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.architecture.syntax import ROOT, files, nodes, tree

LISTS = Path(__file__).with_name("shape.toml")
EXCEPTIONS = tomllib.loads(LISTS.read_text("utf-8"))
FUNCTION_LINES = 60
FILE_LINES = 600
PUBLIC_IN_THE_LIBRARY = {"os._exit", "posix._exit", "sys._getframe", "sys._current_frames"}
"""Names of Python's own library that are documented although they begin with an underscore."""
NAMED_TUPLE = {"_replace", "_asdict", "_fields"}


@cache
def modules() -> dict[str, Path]:
    """Each product file, by its path in the checkout."""
    return {file.relative_to(ROOT).as_posix(): file for file in files("ormahd", "ormahctl")}


def long_functions() -> Iterator[str]:
    """`file:name` of each function that has too many lines, decorators not counted."""
    for file, path in modules().items():
        for name, node in _functions(tree(path), ""):
            if (node.end_lineno or 0) - node.lineno + 1 > FUNCTION_LINES:
                yield f"{file}:{name}"


def _functions(tree: ast.AST, prefix: str) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield prefix + node.name, node
            yield from _functions(node, f"{prefix}{node.name}.")
        elif isinstance(node, ast.ClassDef):
            yield from _functions(node, f"{prefix}{node.name}.")
        else:
            yield from _functions(node, prefix)


def long_files() -> Iterator[str]:
    for file in modules():
        if len((ROOT / file).read_text("utf-8").splitlines()) > FILE_LINES:
            yield file


def double_classes() -> Iterator[str]:
    """Names that more than one class of the product has."""
    names = Counter(node.name for file in modules().values() for node in nodes(file) if isinstance(node, ast.ClassDef))
    yield from (name for name, times in names.items() if times > 1)


def borrowed_names() -> Iterator[str]:
    """`file:_name` of each private name that a file uses and does not define: another module's function or attribute."""
    for file, path in modules().items():
        own = _defined(path)
        for node in nodes(path):
            if isinstance(node, ast.ImportFrom) and node.level == 0:
                yield from (f"{file}:{alias.name}" for alias in node.names if _private(alias.name))
            elif isinstance(node, ast.Attribute) and _private(node.attr) and node.attr not in NAMED_TUPLE:
                owner = node.value.id if isinstance(node.value, ast.Name) else ""
                imported = owner in _imported(file)
                if (imported or node.attr not in own) and f"{owner}.{node.attr}" not in PUBLIC_IN_THE_LIBRARY:
                    yield f"{file}:{node.attr}"


def _private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def _defined(file: Path) -> set[str]:
    """Names that a file defines or assigns to: functions, classes, constants, fields, attributes of `self`."""
    names: set[str] = set()
    for node in nodes(file):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            if isinstance(node.value, ast.Name) and node.value.id in {"self", "cls"}:
                names.add(node.attr)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and _private(node.value):
            names.add(node.value)  # `__slots__`
    return names


@cache
def _imported(file: str) -> frozenset[str]:
    """Names that a file binds to modules."""
    names: set[str] = set()
    for node in nodes(modules()[file]):
        if isinstance(node, ast.Import):
            names |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {alias.asname or alias.name for alias in node.names if f"{node.module}.{alias.name}" in _dotted()}
    return frozenset(names)


@cache
def _dotted() -> frozenset[str]:
    """The modules' names, as an import has them."""
    return frozenset(path.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for path in modules())


KINDS = (long_functions, long_files, double_classes, borrowed_names)


def without_mended() -> str:
    """Return the text of `shape.toml` without the exceptions that are mended."""
    found = {kind.__name__: set(kind()) for kind in KINDS}
    kept: list[str] = []
    name = ""
    for line in LISTS.read_text("utf-8").splitlines(keepends=True):
        name = line.split(" = ")[0] if " = [" in line else name
        if not line.startswith("    ") or line.strip(' ",\n') in found[name]:
            kept.append(line)
    return "".join(kept)


@pytest.mark.parametrize("kind", KINDS, ids=lambda one: one.__name__)
def test_shape(kind: Callable[[], Iterator[str]]) -> None:
    found, known = set(kind()), set(EXCEPTIONS[kind.__name__])
    assert not found - known, f"{kind.__name__}: split, merge or rename what is new"
    assert not known - found, f"{kind.__name__}: mended; run: python -m tests.architecture.test_shape"


def test_the_lists_are_in_order() -> None:
    for name, listed in EXCEPTIONS.items():
        assert listed == sorted(set(listed)), f"{name} of shape.toml is not sorted"


if __name__ == "__main__":
    LISTS.write_text(without_mended(), "utf-8")
