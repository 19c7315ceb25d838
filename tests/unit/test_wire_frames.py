"""Frames and bodies as values: no socket."""

from __future__ import annotations

import contextlib
import struct

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ormahd import api
from ormahd.errors import BY_CODE, BadRequest, TooLarge
from ormahd.rpc.codec import (
    JSON,
    MSGPACK,
    Frames,
    encode,
    error_reply,
    pack,
    read_call,
    read_id,
    read_reply,
    result_reply,
    signature,
)

FRAMES = st.lists(st.tuples(st.sampled_from([b"m", b"j", b"h"]), st.binary(max_size=50)), max_size=8)


@given(FRAMES, st.data())
def test_frames_come_out_as_they_went_in_however_they_are_cut(frames, data):
    stream = b"".join(pack(*frame) for frame in frames)
    reader, found, at = Frames(), [], 0
    while at < len(stream):
        step = data.draw(st.integers(1, 20))
        reader.feed(stream[at : at + step])
        at += step
        while (frame := reader.next()) is not None:
            found.append(frame)
    assert found == frames
    assert reader.partial == 0


def test_a_frame_may_have_exactly_the_limit():
    reader = Frames(10)
    reader.feed(pack(b"m", b"x" * 10))
    assert reader.next() == (b"m", b"x" * 10)
    reader.feed(b"m" + struct.pack(">I", 11))
    with pytest.raises(TooLarge) as caught:
        reader.next()
    assert caught.value.data == {"field": "length", "limit": 10}


@pytest.mark.parametrize("kind", [JSON, MSGPACK])
def test_a_call_is_read_into_the_struct_of_its_method(kind):
    call = api.Call(id=7, method="agent.recall", params={"query": "q", "space": None}, agent="a", cwd="/c")
    found = read_call(kind, encode(kind, call))
    assert found.params == api.RecallParams(query="q", space=None)
    assert (found.id, found.agent, found.cwd) == (7, "a", "/c")
    assert read_id(kind, encode(kind, call)) == 7


@pytest.mark.parametrize("kind", [JSON, MSGPACK])
def test_unset_and_null_stay_apart(kind):
    for params in (api.UpdateParams(node_id="abcd"), api.UpdateParams(node_id="abcd", title=None, space=None)):
        assert read_call(kind, encode(kind, api.Call(method="agent.update", params=params))).params == params


@pytest.mark.parametrize("kind", [JSON, MSGPACK])
def test_every_reply_is_read_as_it_was_written(kind):
    edge = api.Edge(id="i", short_id="s", edge="supports", weight=0.5)
    result = api.RememberResult(text="t", node_id="n", short_id="n", links=[edge])
    assert read_reply(kind, encode(kind, result_reply("x", result)), api.RememberResult).result == result
    for code, kind_of_error in BY_CODE.items():
        reply = read_reply(kind, encode(kind, error_reply(1, kind_of_error("m", hint="h", data={"a": [1]}))), object)
        assert reply.error == api.ErrorBody(code=code, message="m", hint="h", data={"a": [1]})
    step = api.Progress(done=1, total=2, stage="s")
    assert read_reply(kind, encode(kind, api.Reply(id=1, progress=step)), object).progress == step


def test_a_reply_of_a_newer_daemon_with_more_fields_is_read():
    body = msgspec.json.encode({"id": 1, "later": True, "result": {"text": "t", "results": [], "later": [1]}})
    assert read_reply(JSON, body, api.RecallResult).result == api.RecallResult(text="t", results=[])


def test_an_error_reply_says_that_its_id_is_null():
    assert b'"id":null' in encode(JSON, error_reply(None, BadRequest("m")))


@pytest.mark.parametrize("method", api.METHODS)
def test_every_method_has_a_signature_for_hints(method):
    assert signature(method).startswith(method)


@given(st.sampled_from([JSON, MSGPACK]), st.binary(max_size=300))
def test_any_bytes_are_a_call_or_a_bad_request(kind, body):
    with contextlib.suppress(BadRequest):
        assert isinstance(read_call(kind, body), api.Call)
    read_id(kind, body)
