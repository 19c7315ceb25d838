"""Patterns of commands and globs of files: what they name."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from ormahd.errors import BadRequest
from ormahd.model.node import CreateNodeRequest
from ormahd.note.read import parse
from ormahd.text.bearing import glob_matches, pattern_matches, simple_commands

TABLES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))


@pytest.mark.parametrize(("pattern", "command", "wanted"), TABLES["runs"])
def test_a_pattern_names_a_command(pattern: str, command: str, wanted: bool) -> None:
    assert any(pattern_matches(pattern, words) for words in simple_commands(command)) == wanted


@pytest.mark.parametrize(("glob", "path", "wanted"), TABLES["names"])
def test_a_glob_names_a_file(glob: str, path: str, wanted: bool) -> None:
    assert glob_matches(glob, path) == wanted


@pytest.mark.parametrize("glob", TABLES["refused"])
def test_a_glob_that_names_nothing_is_refused(glob: str) -> None:
    with pytest.raises(BadRequest, match="names nothing"):
        CreateNodeRequest.of({"content": "A text.", "commands": [glob]})
    note = parse(
        f"---\nid: 97acbe8e-6d0a-4c1e-9a55-0a52b0f4f9d1\ncommands: [make ship, '{glob}']\n---\nA text.\n".encode(),
        "a.md",
    )
    assert note.commands == ("make ship",)
    assert [problem.line for problem in note.problems] == ([3] if glob else [])
