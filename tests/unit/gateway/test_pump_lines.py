"""How the pump cuts bytes into messages, and what it reads of one."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ormahctl.shim import pump

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


@given(st.lists(st.binary(max_size=20)), st.integers(1, 7))
def test_lines_come_out_whole_however_they_come_in(texts: list[bytes], step: int) -> None:
    stream = b"\n".join(texts) + b"\n"
    lines = pump.Lines()
    found = [line for at in range(0, len(stream), step) for line in lines.add(stream[at : at + step])]
    assert found == [line + b"\n" for line in stream.split(b"\n") if line.strip()]


@given(st.dictionaries(st.text(), _JSON, max_size=4))
def test_a_message_is_read_as_json_reads_it(message: dict[str, Any]) -> None:
    assert pump.read(json.dumps(message).encode() + b"\n") == message


@pytest.mark.parametrize(
    "line", [b"", b"[1]", b"7", b"{", b'{"a":', b"\xff\xfe", b'"x"', b"[" * 100_000, b'{"a":' * 100_000, b"nul"]
)
def test_what_is_no_message_is_empty(line: bytes) -> None:
    assert pump.read(line) == {}
