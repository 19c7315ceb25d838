"""A line that is too long to be read is counted, and does not cost the other lines."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from ormahd.ingest.readers import lines as lines_module
from ormahd.ingest.readers.formats import READERS
from ormahd.ingest.readers.turns import Reading


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines_module, "LONGEST", 20_000)
    monkeypatch.setattr(lines_module, "CHUNK", 4_096)


def line_of(number: int, text: str) -> bytes:
    message: dict[str, Any] = {"role": "user", "content": text}
    return json.dumps({"type": "user", "uuid": f"u{number}", "sessionId": "s", "message": message}).encode() + b"\n"


def test_the_other_lines_are_read_and_the_long_ones_counted() -> None:
    data = (
        line_of(0, "Use cents.") + line_of(1, "x" * 30_000) + line_of(2, "y" * 30_000) + line_of(3, "Round half even.")
    )
    reading = Reading()
    stream = io.BytesIO(data)
    found = list(READERS["claude-code"](stream, reading))
    assert [one.text for one in found] == ["Use cents.", "Round half even."]
    assert reading.damaged == 2
