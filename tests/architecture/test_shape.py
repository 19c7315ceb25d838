"""The shape of the code: one class a name, private names used at home only, imports at the top of a file."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.architecture.syntax import ROOT, files, nodes, tree

PUBLIC_IN_THE_LIBRARY = {"os._exit", "posix._exit", "sys._getframe", "sys._current_frames"}
"""Names of Python's own library that are documented although they begin with an underscore."""
NAMED_TUPLE = {"_replace", "_asdict", "_fields"}


@cache
def modules() -> dict[str, Path]:
    """Each product file, by its path in the checkout."""
    return {file.relative_to(ROOT).as_posix(): file for file in files("ormahd", "ormahctl")}


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


def test_a_class_name_is_used_once() -> None:
    assert not list(double_classes())


def test_private_names_are_used_in_their_own_module() -> None:
    assert not list(borrowed_names())


def test_imports_stand_at_the_top_of_a_file() -> None:
    late = []
    for file, path in modules().items():
        defined = False
        for node in tree(path).body:
            defined = defined or isinstance(node, (ast.FunctionDef, ast.ClassDef))
            if defined and isinstance(node, (ast.Import, ast.ImportFrom)):
                late.append(f"{file}:{node.lineno}")
    assert not late
