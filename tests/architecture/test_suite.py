"""The suite gives the same verdict twice: its random examples are the same each time, and no clock decides."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

import pytest
from hypothesis import settings
from packaging.requirements import Requirement

TESTS = Path(__file__).parent.parent
FILES = sorted(path.relative_to(TESTS).as_posix() for path in TESTS.rglob("test_*.py"))
OURS = {"max_examples", "suppress_health_check"}
"""What one test may ask of hypothesis; the rest is for all of them alike (tests/conftest.py)."""


def test_examples_are_the_same_each_time() -> None:
    suite = settings.get_profile("suite")
    assert suite.derandomize
    assert suite.deadline is None
    assert suite.database is None
    soak = settings.get_profile("soak")
    assert not soak.derandomize
    assert soak.deadline is None
    assert soak.max_examples > suite.max_examples


def test_every_direct_dependency_has_the_version_that_is_tested() -> None:
    project = tomllib.loads((TESTS.parent / "pyproject.toml").read_text("utf-8"))
    extras = project["project"]["optional-dependencies"]
    direct = [*project["project"]["dependencies"], *extras["torch"], *project["dependency-groups"]["dev"]]
    wanted = {one.name.lower(): one.specifier for one in map(Requirement, direct)}
    listed = (TESTS / "versions.txt").read_text("utf-8").splitlines()
    tested = dict(line.split("==") for line in listed if not line.startswith("#"))
    assert sorted(tested) == sorted(wanted), "tests/versions.txt: one line for each of pyproject.toml"
    assert [name for name, version in tested.items() if not wanted[name].contains(version)] == []


@pytest.mark.parametrize("file", FILES)
def test_no_test_has_a_deadline_or_chance_of_its_own(file: str) -> None:
    text = (TESTS / file).read_text("utf-8")
    if "settings" not in text:
        return  # most files, and a tree takes a hundred times as long
    tree = ast.parse(text)
    imported = (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module == "hypothesis")
    if not any(alias.name == "settings" for node in imported for alias in node.names):
        return
    asked = [
        word
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "settings"
        for word in node.keywords
    ]
    assert {word.arg for word in asked} <= OURS
    for word in asked:
        if word.arg == "max_examples":
            assert ast.unparse(word.value).startswith("examples("), (
                "a count that the soak cannot raise: examples(count)"
            )
