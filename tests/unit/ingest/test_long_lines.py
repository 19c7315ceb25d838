"""A line that is too long to be read: it is named by its number, and costs neither the format nor the other lines."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from ormahd.ingest.readers import lines as lines_module
from ormahd.ingest.readers.formats import READERS, format_of, too_long
from ormahd.ingest.readers.lines import number_of
from ormahd.ingest.readers.turns import Reading


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines_module, "LONGEST", 20_000)
    monkeypatch.setattr(lines_module, "CHUNK", 4_096)


def line_of(number: int, text: str) -> bytes:
    message: dict[str, Any] = {"role": "user", "content": text}
    return json.dumps({"type": "user", "uuid": f"u{number}", "sessionId": "s", "message": message}).encode() + b"\n"


def test_a_transcript_of_one_long_line_has_a_format() -> None:
    stream = io.BytesIO(line_of(0, "x" * 30_000))
    assert format_of(stream) == "claude-code"
    assert too_long(stream) == 1
    codex = {"timestamp": "2026-11-02T09:00:00Z", "type": "session_meta", "payload": {"id": "s", "x": "y" * 30_000}}
    assert format_of(io.BytesIO(json.dumps(codex).encode())) == "codex"
    other = {"name": "a package", "dependencies": {"type": "user"}, "text": "x" * 30_000}
    assert format_of(io.BytesIO(json.dumps(other).encode())) is None
    assert format_of(io.BytesIO(b'{"type": "user", "message": {"x": "' + b"y" * 30_000)) is None, "it breaks off"


def test_the_other_lines_are_read_and_the_long_one_is_named() -> None:
    data = (
        line_of(0, "Use cents.") + line_of(1, "x" * 30_000) + line_of(2, "y" * 30_000) + line_of(3, "Round half even.")
    )
    reading = Reading()
    stream = io.BytesIO(data)
    found = list(READERS["claude-code"](stream, reading))
    assert [one.text for one in found] == ["Use cents.", "Round half even."]
    assert reading.too_long == 2
    assert reading.too_long_at is not None
    assert number_of(stream, reading.too_long_at) == 2


def test_a_text_of_one_long_line_says_so() -> None:
    stream = io.BytesIO(b"a title\nUser: " + b"x" * 30_000)
    assert format_of(stream) is None
    assert too_long(stream) == 2
    assert stream.tell() == 0
    assert too_long(io.BytesIO(b"short\n")) is None
