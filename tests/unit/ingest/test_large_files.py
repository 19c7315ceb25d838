"""Memory does not grow with a transcript: turns are read one by one, also of compressed files and of single objects."""

from __future__ import annotations

import io
import json
import time
import tracemalloc
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from backports.zstd import ZstdCompressor

from ormahd.ingest.readers.formats import READERS, format_of
from ormahd.ingest.readers.turns import Reading
from ormahd.ingest.sources import documents
from tests.unit.ingest.reading import turns

COUNT = 200
HEAD = {"sessionId": "7c1e", "projectHash": "shop", "startTime": "2026-08-03T07:00:00.000Z"}
LONG = "a prompt of forty thousand characters " * 1100


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


def claude() -> Iterator[Any]:
    for at in range(COUNT):
        yield {"type": "user", "uuid": f"u{at}", "parentUuid": f"u{at - 1}" if at else None, "sessionId": "s", "timestamp": 1.8e9 + at,
               "message": {"role": "user", "content": f"{at} {LONG}"}}  # fmt: skip


def codex() -> Iterator[Any]:
    yield {"type": "session_meta", "payload": {"id": "s"}}
    for at in range(COUNT):
        yield {"type": "event_msg", "payload": {"type": "task_started", "turn_id": f"t{at}"}}
        yield {"type": "event_msg", "payload": {"type": "user_message", "message": f"{at} {LONG}"}}


def gemini() -> Iterator[Any]:
    yield HEAD
    for at in range(COUNT):
        yield {"id": f"q{at}", "type": "user", "content": f"{at} {LONG}"}


def peak(file: Path) -> tuple[int, int]:
    """Return (number of turns of a file, bytes that reading it takes)."""
    with documents(file) as found:
        (one,) = found
        name = format_of(one.stream)
        assert name is not None
        tracemalloc.start()
        try:
            return sum(1 for _ in READERS[name](one.stream, Reading())), tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()


@pytest.mark.parametrize("lines", [claude, codex, gemini], ids=lambda lines: lines.__name__)
def test_a_small_compressed_file_of_many_prompts(tmp_path: Path, lines: Any) -> None:
    file = tmp_path / "t.jsonl.zst"
    packed = packs(lines())
    file.write_bytes(packed)
    assert len(packed) < 200_000
    count, size = peak(file)
    assert count == COUNT
    assert size < 7_000_000, "of 8 MB of prompts"


def packs(lines: Iterable[Any]) -> bytes:
    packer = ZstdCompressor()
    return b"".join(packer.compress(json.dumps(line).encode() + b"\n") for line in lines) + packer.flush()


@pytest.mark.parametrize("indent", [None, 2])
def test_a_chat_that_is_a_single_object(tmp_path: Path, indent: int | None) -> None:
    file = tmp_path / "session.json"
    with file.open("w") as out:
        json.dump({**HEAD, "messages": messages(40, 1_000_000)}, out, indent=indent)
    count, size = peak(file)
    assert count == 80
    assert size < 24_000_000, "of 40 MB"


def test_what_stands_before_the_break_has_the_keys_of_the_whole() -> None:
    data = json.dumps({**HEAD, "messages": messages(3, 10)}, indent=1).encode()
    reading = Reading()
    part = turns(data[: data.index(b"answer 2")], reading=reading)
    assert [turn.text for turn in part] == ["question 0", "answer 0", "question 1", "answer 1", "question 2"]
    assert [turn.key for turn in part] == [turn.key for turn in turns(data)][:5]
    assert reading.damaged == 1


HOSTILE = {
    "gemini-rewinds": (
        "gemini", lambda n: [{"id": f"i{at}", "type": "user", "content": "same"} for at in range(n)] + [{"$rewindTo": f"i{n - 1 - at}"} for at in range(n)],
    ),
    "gemini-lists": (
        "gemini", lambda n: [{"id": f"i{at}", "type": "user", "content": "same"} for at in range(n)]
        + [{"$set": {"messages": [{"id": f"k{at}", "type": "user", "content": "same"}]}} for at in range(n)],
    ),
    "claude-queued": (
        "claude-code", lambda n: [*({"type": "user", "uuid": f"u{at}", "parentUuid": (at and f"u{at - 1}") or None, "promptSource": "queued",
                                     "message": {"content": f"q {at}"}} for at in range(n)),
                                  *({"type": "assistant", "uuid": f"a{at}", "parentUuid": "u0", "message": {"content": f"t {at}"}} for at in range(n))],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_transcript_takes_linear_time(name: str) -> None:
    """Eight times the lines take far less than 64 times as long."""
    of, rows = HOSTILE[name]
    taken = []
    for count in (1_000, 8_000):
        data = b"".join(json.dumps(row).encode() + b"\n" for row in rows(count))
        begun = time.process_time()
        assert sum(1 for _ in READERS[of](io.BytesIO(data), Reading())) >= count
        taken.append(time.process_time() - begun)
    assert taken[1] < 24 * taken[0] + 0.1
