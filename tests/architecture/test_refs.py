"""No module names a file of refs but those listed here: git reads and writes them, in whatever format they are kept."""

import ast
from pathlib import Path

import pytest

from tests.architecture.syntax import ROOT, files, nodes

NAMES = {"HEAD", "ORIG_HEAD", "FETCH_HEAD", "packed-refs", "refs", "logs", "reftable"}
MAY = {
    "ormahd/git/ref_files.py": "watches, waits for, and compares times",
    "ormahd/vault/spaces.py": "looks whether a folder is a repository",
    "ormahd/git/mend.py": "sets aside what git cannot read, and reads the reflogs that git does not show then",
    "ormahd/purge/purge.py": "drops the reflogs of a clone that it made, in the format of files",
}
"""Modules that may name such a file, and what for."""


def named(file: Path) -> list[int]:
    """Lines with a path into the files of refs: `folder / "HEAD"`, `folder / f"refs/heads/{name}"`, `join(folder, "logs")`."""
    found: list[int] = []
    if not any(name in file.read_text("utf-8") for name in NAMES):
        return found  # most files, and a tree takes a hundred times as long
    for node in nodes(file):
        parts: list[ast.expr] = []
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            parts = [node.right]
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in {"join", "joinpath"}
        ):
            parts = node.args
        for part in parts:
            first = part.values[0] if isinstance(part, ast.JoinedStr) and part.values else part
            text = first.value if isinstance(first, ast.Constant) else None
            if isinstance(text, str) and (text in NAMES or text.partition("/")[0] in NAMES):
                found.append(part.lineno)
    return found


FILES = [file.relative_to(ROOT).as_posix() for file in files("ormahd", "ormahctl")]


def test_refs_are_asked_of_git() -> None:
    found = {file: named(ROOT / file) for file in FILES if file not in MAY}
    assert {file: names for file, names in found.items() if names} == {}


@pytest.mark.parametrize("file", MAY)
def test_each_module_of_the_list_names_one(file: str) -> None:
    assert named(ROOT / file)
