"""What clients should not send, and how slow they should not be: they hurt themselves only."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import resource
import struct
import threading
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ormahd.rpc.wire import connect
from tests.contract.serving import Raw, lively, serving, until
from tests.examples import examples
from tests.tables import rows


@pytest.fixture(scope="module")
def server():
    with serving(slow_seconds=30.0, frame_bytes=1_000_000) as running:
        yield running


def refusal(path, data: bytes) -> dict:
    """The error for these bytes; the connection is closed after it."""
    with Raw(path) as raw:
        raw.sock.sendall(data)
        reply = raw.reply()
        assert raw.ended()
        return reply


def test_a_header_of_a_gigabyte_is_refused_before_any_of_it_is_read(server):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for kind, decode in ((b"j", json.loads), (b"m", msgspec.msgpack.decode)):
        with Raw(server.path) as raw:
            raw.sock.sendall(kind + struct.pack(">I", 1 << 30))
            got, body = raw.read()
            reply = decode(body)
            assert got == kind
            assert reply["id"] is None
            assert reply["error"]["code"] == "too_large"
            assert "1073741824" in reply["error"]["message"]
            assert reply["error"]["hint"]
            assert raw.ended()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000, "KiB"
    assert lively(server.path)


def test_our_own_client_learns_why_its_call_was_too_large(server):
    from ormahd.errors import TooLarge

    with connect(server.path) as connection, pytest.raises(TooLarge, match="at most 1000000"):
        connection.call("agent.remember", {"content": "x" * 5_000_000}, timeout=120)


@pytest.mark.parametrize("data", [b"GET / HTTP/1.1\r\n\r\n", b"\x00", b"\xff" * 100, b"{}", b"J\x00\x00\x00\x02{}"])
def test_a_garbage_kind_is_named(server, data):
    reply = refusal(server.path, data)
    assert reply["id"] is None
    assert reply["error"]["code"] == "bad_request"
    assert "kind" in reply["error"]["message"]
    assert "PROTOCOL.md" in reply["error"]["hint"]


def frame(body: bytes, kind: bytes = b"j") -> bytes:
    return kind + struct.pack(">I", len(body)) + body


@pytest.mark.parametrize(
    ("kind", "body", "word"),
    [
        *rows(__file__, "unanswerable"),
        ("j", "[" * 900_000, "nested too deeply|expected a map"),
        ("j", '{"params":' + "[" * 900_000, "nested too deeply"),
        ("m", "\x82\xa2id\x01\xa6params" + "\x91" * 900_000, "nested too deeply"),
    ],
)
def test_a_body_that_cannot_be_answered_by_id_ends_the_connection(server, kind, body, word):
    reply = refusal(server.path, frame(body.encode("latin-1"), kind.encode()))
    assert reply["id"] is None or "\x82\xa2id" in body
    assert reply["error"]["code"] == "bad_request"
    assert re.search(word, reply["error"]["message"]), reply
    assert reply["error"]["hint"]


@pytest.mark.parametrize(("call", "field", "word"), rows(Path(__file__).with_suffix(".toml"), "wrong_calls"))
def test_a_wrong_call_with_an_id_is_answered_by_it_and_the_connection_lives(server, call, field, word):
    with Raw(server.path) as raw:
        for send in (raw.json, raw.msgpack):
            send({"id": "mine", **call})
            reply = raw.reply()
            assert reply["id"] == "mine"
            assert reply["error"]["code"] == "bad_request"
            assert word in reply["error"]["message"]
            assert reply["error"]["data"]["field"] == field
            assert reply["error"]["hint"]
        raw.json({"id": 1, "method": "hello"})
        assert raw.reply()["result"]["phase"] == "ready"


def test_huge_numbers_and_no_numbers_are_refused(server):
    with Raw(server.path) as raw:
        for text in (b"1e999", b"-1e999", b"9" * 5000):
            raw.frame(b"j", b'{"id":1,"method":"agent.remember","params":{"content":"c","confidence":' + text + b"}}")
            assert raw.reply()["error"]["code"] == "bad_request"


def test_bytes_that_are_no_utf8_are_refused(server):
    for data in (
        frame(b'{"id":1,"method":"agent.recall","params":{"query":"\xff\xfe"}}'),
        frame(b'{"id":1,"method":"agent.recall","params":{"query":"\\ud800"}}'),
        frame(b"\x83\xa2id\x01\xa6method\xacagent.recall\xa6params\x81\xa5query\xa2\xff\xfe", b"m"),
        frame(b"\x82\xa6method\xa2\xff\xfe\xa2id\x01", b"m"),
    ):
        with Raw(server.path) as raw:
            raw.sock.sendall(data)
            assert raw.reply()["error"]["code"] == "bad_request"


def test_a_frame_that_ends_too_early_is_named(server):
    for data in (b"j", b"j\x00\x00", b"j\x00\x00\x00\x10{}"):
        with Raw(server.path) as raw:
            raw.sock.sendall(data)
            raw.sock.shutdown(1)
            reply = raw.reply()
            assert reply["id"] is None
            assert "before it was whole" in reply["error"]["message"]
            assert raw.ended()


def test_a_client_that_takes_too_long_over_a_frame_is_dropped_and_one_that_rests_is_not():
    with serving(slow_seconds=0.2) as server, Raw(server.path) as resting, Raw(server.path) as slow:
        slow.sock.sendall(b"j\x00\x00")
        assert slow.ended()
        assert server.counts["dropped"] == 1
        resting.json({"id": 1, "method": "hello"})
        assert resting.reply()["id"] == 1


def test_clients_that_never_read_hurt_only_themselves():
    with serving(slow_seconds=0.5, threads=2, frame_bytes=2_000_000) as server:
        deaf = [Raw(server.path) for _ in range(8)]
        for raw in deaf:
            raw.sock.setblocking(False)
            for number in range(100_000):  # until our own side is full: the server reads no further
                body = json.dumps(
                    {"id": number, "method": "agent.recall", "params": {"query": "size 1000000"}}
                ).encode()
                try:
                    raw.sock.send(frame(body))
                except (BlockingIOError, BrokenPipeError, ConnectionResetError):
                    break
        with connect(server.path) as connection:
            assert connection.call("agent.recall", {"query": "quick"}, timeout=120).text == "quick"
        until(lambda: server.counts["dropped"] == 8)
        until(lambda: server.clients == 0)
        assert lively(server.path)
        for raw in deaf:
            raw.close()


def test_descriptors_that_run_out_stop_nothing_for_good():
    with serving() as server, connect(server.path) as known:
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        waiting = [Raw(server.path) for _ in range(4)]
        until(lambda: server.clients == 5)
        resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 8, hard[1]))
        try:
            spare = []
            with contextlib.suppress(OSError):
                while True:
                    spare.append(os.open("/dev/null", os.O_RDONLY))
            os.close(spare.pop())
            late = Raw(server.path)  # takes the last one: the server has none to accept it with
            assert known.call("hello").phase == "ready"
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, hard)
            for fd in spare:
                os.close(fd)
        late.json({"id": 1, "method": "hello"})
        assert late.reply()["id"] == 1
        for raw in (*waiting, late):
            raw.close()


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text() | st.binary(),
    lambda children: st.lists(children, max_size=4) | st.dictionaries(st.text(), children, max_size=4),
    max_leaves=12,
)
METHOD = st.sampled_from(["hello", "agent.recall", "agent.remember", "admin.stats"]) | st.text()


@settings(max_examples=examples(150), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.binary(max_size=200))
def test_fuzz_bytes(server, data):
    with Raw(server.path) as raw:
        raw.sock.sendall(data)
        raw.sock.shutdown(1)
        while True:
            try:
                _, body = raw.read()
            except EOFError:
                break
            assert body == b"" or b"error" in body or b"result" in body


@settings(max_examples=examples(150), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.fixed_dictionaries({}, optional={"id": ANYTHING, "method": METHOD, "params": ANYTHING, "agent": ANYTHING}))
def test_fuzz_calls(server, call):
    with Raw(server.path) as raw:
        raw.msgpack(call)
        reply = raw.reply()
        assert ("result" in reply) != ("error" in reply)
        if "error" in reply:
            assert reply["error"]["code"] in {"bad_request", "not_found"}, reply
            assert reply["error"]["message"]


def test_many_hostile_clients_at_once_and_a_good_one_among_them():
    with serving(slow_seconds=5.0, clients=200) as server:
        over = threading.Event()

        def hostile(seed: int) -> None:
            chance = random.Random(seed)
            while not over.is_set():
                try:
                    with Raw(server.path) as raw:
                        raw.sock.sendall(chance.randbytes(chance.randint(1, 5000)))
                        if chance.random() < 0.5:
                            raw.sock.recv(10)
                except OSError:
                    continue

        threads = [threading.Thread(target=hostile, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        with connect(server.path) as connection:
            for number in range(200):
                assert connection.call("agent.recall", {"query": str(number)}, timeout=120).text == str(number)
        over.set()
        for thread in threads:
            thread.join()
        until(lambda: server.clients == 0)
        assert server.counts["faults"] == 0
