"""A file of JSON lines becomes batches; what is no text is named by its line, and nothing else is judged."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ormahctl.commands import transfer
from ormahctl.commands.transfer import batches
from ormahd.api import ImportFailure


def cut(data: bytes) -> tuple[list[tuple[int, str]], list[ImportFailure]]:
    failed: list[ImportFailure] = []
    found = [
        (number, text)
        for batch in batches(io.BytesIO(data), failed)
        for number, text in zip(batch.numbers, batch.lines, strict=True)
    ]
    return found, failed


def test_bom_crlf_blank_lines_and_a_missing_last_newline() -> None:
    found, failed = cut(b'\xef\xbb\xbf{"a": 1}\r\n\r\n   \n{"b": 2}')
    assert found == [(1, '{"a": 1}'), (4, '{"b": 2}')]
    assert failed == []


def test_what_is_not_json_is_left_to_the_daemon() -> None:
    assert cut(b"not json\n[1]\n")[0] == [(1, "not json"), (2, "[1]")]


def test_a_line_that_is_no_utf8_is_named_and_the_others_go_on() -> None:
    found, failed = cut(b'{"a": 1}\n{"b": "\xff"}\n{"c": 3}\n')
    assert [number for number, _ in found] == [1, 3]
    assert failed == [ImportFailure(line=2, error="not valid UTF-8 (byte 8 of the line)")]


def test_a_line_too_long_for_a_frame_is_skipped_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "LINE_BYTES", 100)
    monkeypatch.setattr(transfer, "CHUNK", 30)
    found, failed = cut(b"a\n" + b"x" * 1000 + b"\n" + b"y" * 99 + b"\nb\n" + b"z" * 500)
    assert [number for number, _ in found] == [1, 3, 4]
    assert [failure.line for failure in failed] == [2, 5]


def test_batches_are_bounded_in_lines_and_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "BATCH_BYTES", 1000)
    failed: list[ImportFailure] = []
    data = b"".join(b"x" * size + b"\n" for size in [5] * 70 + [400] * 4 + [3000] + [1] * 600)
    made = list(batches(io.BytesIO(data), failed))
    assert all(len(batch.lines) <= transfer.BATCH_LINES for batch in made)
    assert all(batch.size <= 1000 or len(batch.lines) == 1 for batch in made)
    assert [number for batch in made for number in batch.numbers] == list(range(1, 676))
    assert made[-1].bytes_read == len(data)


@given(st.lists(st.binary(max_size=30).filter(lambda line: b"\n" not in line), max_size=40))
def test_every_line_is_either_sent_or_named_or_blank(raw: list[bytes]) -> None:
    found, failed = cut(b"\n".join(raw))
    known = {number for number, _ in found} | {failure.line for failure in failed}
    blank = {
        number
        for number, line in enumerate(raw, 1)
        if not line.removeprefix(b"\xef\xbb\xbf" if number == 1 else b"").strip(b" \t\r\n")
    }
    assert known == set(range(1, len(raw) + 1)) - blank
