"""The table from the seeds to code names settings and tests that are there (`ormahd/whisper/SEEDS.md`)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ormahd.settings import Settings

ROOT = Path(__file__).parents[2]
TABLE = (ROOT / "ormahd" / "whisper" / "SEEDS.md").read_text("utf-8")


def rows() -> list[list[str]]:
    lines = [line for line in TABLE.splitlines() if line.startswith("| ") and "`test_" in line]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_every_row_names_a_test_that_is_there() -> None:
    found = set()
    for file in (ROOT / "tests").rglob("test_*.py"):
        found |= set(re.findall(r"^def (test_\w+)", file.read_text("utf-8"), re.MULTILINE))
    named = {name for row in rows() for name in re.findall(r"`(test_\w+)`", row[3])}
    assert len(rows()) > 40
    assert named <= found, named - found


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`((?:whisper|affinity)\.[a-z_]+)`", TABLE))))
def test_every_setting_is_there(name: str) -> None:
    group, _, key = name.partition(".")
    assert key in type(getattr(Settings(), group)).model_fields


@pytest.mark.parametrize("name", sorted({word for row in rows() for word in re.findall(r"`([a-z_.]+)`", row[1])}))
def test_every_stage_is_there(name: str) -> None:
    """`choose.apply_gate` is a function in `whisper/choose.py`; a bare name a module."""
    parts = name.split(".")
    package = ROOT / "ormahd"
    for base in (package / "whisper", package):
        for length in range(len(parts), 0, -1):
            file = base.joinpath(*parts[:length]).with_suffix(".py")
            if file.exists():
                text = file.read_text("utf-8")
                assert all(re.search(rf"\bdef {part}\b", text) for part in parts[length:]), name
                return
    pytest.fail(f"{name} is no stage")
