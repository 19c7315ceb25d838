"""A git that keeps refs in tables (`reftable`), where this machine has one: at ORMAH_TEST_GIT, or the one in PATH."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

FIRST = (2, 46)
"""The first git that takes `init.defaultRefFormat`."""


def find() -> Path:
    """Return the program; the test that asks is skipped where there is none."""
    for name in (os.environ.get("ORMAH_TEST_GIT"), shutil.which("git")):
        if name and _version(name) >= FIRST:
            return Path(name).absolute()
    pytest.skip(f"no git of {FIRST[0]}.{FIRST[1]} or newer in ORMAH_TEST_GIT or PATH")


def _version(program: str) -> tuple[int, ...]:
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"(\d+)\.(\d+)", said)
    assert found, said
    return int(found[1]), int(found[2])
