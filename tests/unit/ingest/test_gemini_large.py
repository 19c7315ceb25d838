"""A chat of Gemini that is one large object is read message by message, and a part of it where it breaks off."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from ormahd.ingest.readers import gemini
from ormahd.ingest.readers.formats import format_of
from ormahd.ingest.readers.turns import Reading
from tests.unit.ingest.reading import turns

HEAD = {"sessionId": "7c1e", "projectHash": "shop", "startTime": "2026-08-03T07:00:00.000Z"}


def messages(count: int, result: int) -> list[dict[str, Any]]:
    """Return `count` questions and answers, each answer with a tool's result of so many characters."""
    tool = [{"id": "t", "name": "read", "args": {}, "result": "x" * result}]
    return [
        one
        for at in range(count)
        for one in (
            {"id": f"q{at}", "type": "user", "content": f"question {at}"},
            {"id": f"a{at}", "type": "gemini", "content": f"answer {at}", "toolCalls": tool, "tokens": {"total": 9}},
        )
    ]


@pytest.mark.parametrize("indent", [None, 2])
def test_memory_does_not_grow_with_the_file(tmp_path: Path, indent: int | None) -> None:
    file = tmp_path / "session.json"
    with file.open("w") as out:
        json.dump({**HEAD, "messages": messages(40, 1_000_000)}, out, indent=indent)
    with file.open("rb") as stream:
        assert format_of(stream) == gemini.NAME
        tracemalloc.start()
        try:
            found = list(gemini.read(stream, Reading()))
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert [turn.text for turn in found] == [text for at in range(40) for text in (f"question {at}", f"answer {at}")]
    assert {turn.session for turn in found} == {"7c1e"}
    assert peak < 24_000_000, "of 40 MB"


def test_what_stands_before_the_break_has_the_keys_of_the_whole() -> None:
    data = json.dumps({**HEAD, "messages": messages(3, 10)}, indent=1).encode()
    reading = Reading()
    part = turns(data[: data.index(b"answer 2")], reading=reading)
    assert [turn.text for turn in part] == ["question 0", "answer 0", "question 1", "answer 1", "question 2"]
    assert [turn.key for turn in part] == [turn.key for turn in turns(data)][:5]
    assert reading.damaged == 1
