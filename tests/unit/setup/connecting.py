"""What the tests of connecting an agent share: a home of its own, settings in it, and our entries in them."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from ormahctl.setup import change as entry
from ormahctl.setup import connect
from ormahctl.setup.edit import Json
from ormahctl.setup.harness import HARNESSES, Harness
from tests.surroundings import surroundings

CLAUDE, CODEX, GEMINI = HARNESSES["claude-code"], HARNESSES["codex"], HARNESSES["gemini"]
JSON = pytest.mark.parametrize("harness", [CLAUDE, CODEX, GEMINI], ids=lambda harness: harness.name)


@contextmanager
def a_home() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="orm") as directory, patch.dict(os.environ, clear=True):
        os.environ.update(surroundings(Path(directory)))
        yield Path(directory)


def put(harness: Harness, data: bytes) -> Path:
    path = harness.target()
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    return path


WORDS = ["/home/ada/.local/bin/ormahctl", "mcp"]


def planned(harness: Harness, *, deadline: int = 500, socket: str | None = None) -> connect.SettingsChange:
    """The change of the file that has the hooks."""
    return connect.plan(harness, socket=socket, deadline=deadline, server=WORDS)[0]


def setup(harness: Harness, *, deadline: int = 500, socket: str | None = None) -> connect.SettingsChange:
    change = planned(harness, deadline=deadline, socket=socket)
    change.make()
    return change


def uninstall(harness: Harness) -> list[connect.SettingsChange]:
    changes = connect.disconnect(harness)
    entry.make_restores(changes)
    return changes


def ours(path: Path) -> dict[str, list[Any]]:
    """Our handlers, read by the standard library alone."""
    document = Json.parse(path.read_bytes())
    return {
        event: found
        for event, groups in document.value["hooks"].items()
        if isinstance(groups, list)
        and (found := [one for group in groups for one in group.get("hooks", []) if "hook.py" in json.dumps(one)])
    }
