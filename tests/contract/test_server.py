"""The server as its clients see it: calls, replies, errors, progress, many at once, stopping."""

from __future__ import annotations

import logging
import threading

import pytest

from ormahd import api
from ormahd.errors import BadRequest, Internal, NotFound, TooLarge, Unavailable
from ormahd.logs import LINE
from ormahd.process import priority
from ormahd.rpc import sockets
from ormahd.rpc.connection import Channel
from ormahd.rpc.wire import connect
from tests.contract.serving import Answers, Raw, lively, serving, until
from tests.tables import rows


def test_a_reply_comes_in_the_kind_it_was_asked_in():
    with serving() as server, Raw(server.path) as raw:
        raw.json({"id": "a", "method": "hello"})
        assert raw.read()[0] == b"j"
        raw.msgpack({"id": "b", "method": "hello"})
        assert raw.read()[0] == b"m"


@pytest.mark.parametrize("params", [{}, {"params": {}}, {"params": None}])
def test_params_may_be_left_out(params):
    with serving() as server, Raw(server.path) as raw:
        for send in (raw.json, raw.msgpack):
            send({"id": 1, "method": "hello", **params})
            assert raw.reply()["result"]["protocol"] == api.PROTOCOL


def test_errors_keep_code_message_hint_and_data():
    with serving() as server, connect(server.path) as connection:
        with pytest.raises(NotFound, match="no memory 1234") as caught:
            connection.call("agent.recall", {"query": "missing 1234"})
        assert caught.value.hint == "look again"
        assert caught.value.data == {"id": "1234"}


@pytest.mark.parametrize("query", ["fault secret words", "exit"])
def test_a_fault_in_a_handler_is_an_incident_and_the_daemon_lives(query, caplog):
    caplog.set_level(logging.INFO)
    with serving() as server, connect(server.path) as connection:
        with pytest.raises(Internal, match="incident") as caught:
            connection.call("agent.recall", {"query": query})
        incident = caught.value.data["incident"]
        assert connection.call("hello").phase == "ready"
        until(lambda: "Traceback" in caplog.text or f"{incident}\n" in caplog.text)
    said = "\n".join(LINE.format(record) for record in caplog.records)
    assert incident in said
    assert "serving.py" in said, "the log has the traceback"
    assert "secret words" not in said, "but not the words that an exception may quote"


def test_the_log_has_a_line_for_each_request_and_no_texts(caplog):
    caplog.set_level(logging.INFO)
    with serving() as server, connect(server.path) as connection:
        connection.call("agent.remember", {"content": "the launch code is banana"}, agent="claude-code")
        with pytest.raises(NotFound):
            connection.call("agent.recall", {"query": "missing banana"}, agent="evil\nINFO agent", cwd="/banana")
        with pytest.raises(BadRequest):
            connection.call("agent.recall", {"query": "q", "limit": "banana", "banana": 1})
    lines = [record.getMessage() for record in caplog.records if record.name == "ormahd.rpc"]
    assert lines[0].startswith("claude-code agent.remember ")
    assert lines[0].endswith(" ms ok")
    assert lines[1].startswith("evil?INFO agent agent.recall ")
    assert lines[1].endswith(" ms not_found")
    assert "banana" not in caplog.text


def test_progress_comes_before_the_reply():
    steps = []
    with serving() as server, connect(server.path) as connection:
        reply = connection.call("agent.recall", {"query": "steps 5"}, on_progress=steps.append)
    assert [step.done for step in steps] == [0, 1, 2, 3, 4]
    assert steps[0].stage == "counting"
    assert reply.text == "steps 5"


def test_replies_are_matched_by_id_and_may_overtake_each_other():
    answers = Answers()
    answers.gate("slow")
    with serving(answers) as server, Raw(server.path) as raw:
        raw.json({"id": "first", "method": "agent.recall", "params": {"query": "wait slow"}})
        raw.json({"id": "second", "method": "hello"})
        assert raw.reply()["id"] == "second"
        answers.gate("slow").set()
        assert raw.reply()["id"] == "first"


def test_one_connection_cannot_take_all_workers(monkeypatch):
    monkeypatch.setattr(priority, "cores", lambda: 8)  # else the searches wait for a core before
    answers = Answers()
    answers.gate("slow")
    with serving(answers, threads=8) as server, Raw(server.path) as greedy:
        for number in range(50):
            greedy.msgpack({"id": number, "method": "agent.recall", "params": {"query": "wait slow"}})
        until(lambda: len(answers.begun) == 4)
        assert lively(server.path)
        assert len(answers.begun) == 4, "the others wait in the greedy one's own socket"
        answers.gate("slow").set()
        assert len({greedy.reply()["id"] for _ in range(50)}) == 50


@pytest.mark.parametrize(
    ("method", "params", "gate"), rows(__file__, "slow_methods_never_take_the_place_of_quick_ones")
)
def test_slow_methods_never_take_the_place_of_quick_ones(method, params, gate):
    answers = Answers()
    answers.gate(gate)
    with serving(answers, threads=2) as server:
        slow = [Raw(server.path) for _ in range(16)]
        for raw in slow:
            raw.msgpack({"id": 1, "method": method, "params": params})
        until(lambda: answers.begun)
        with connect(server.path) as connection:
            assert connection.call("agent.recall", {"query": "quick"}, timeout=120).text == "quick"
        answers.gate(gate).set()
        for raw in slow:
            assert raw.reply()["id"] == 1
            raw.close()


def test_many_idle_connections_are_cheap_and_the_one_that_rested_longest_makes_room():
    with serving(clients=128) as server:
        threads = set(threading.enumerate())
        first = Raw(server.path)
        until(lambda: server.clients == 1)
        idle = [Raw(server.path) for _ in range(126)]
        until(lambda: server.clients == 127)
        assert set(threading.enumerate()) <= threads
        with connect(server.path) as last:
            assert last.call("hello").phase == "ready"
            with connect(server.path) as one_more:
                assert one_more.call("hello").phase == "ready"
            assert first.ended()
            assert last.call("hello").phase == "ready"
        for raw in idle:
            raw.close()
        until(lambda: server.clients == 0)
        assert lively(server.path)
        assert server.counts["refused"] == 0


def test_one_more_than_allowed_is_refused_where_all_are_at_work():
    answers = Answers()
    gate = answers.gate("busy")
    with serving(answers, clients=2) as server:
        busy = [Raw(server.path) for _ in range(2)]
        for raw in busy:
            raw.json({"id": 1, "method": "agent.recall", "params": {"query": "wait busy"}})
        until(lambda: len(answers.begun) == 2)
        with connect(server.path) as refused, pytest.raises(Unavailable, match="2 connections") as caught:
            refused.call("hello")
        assert caught.value.data["reason"] == "crowded"
        gate.set()
        for raw in busy:
            assert raw.reply()["id"] == 1
            raw.close()
        assert server.counts["refused"] == 1


def test_a_peer_that_sends_and_closes_its_side_still_gets_the_reply():
    answers = Answers()
    answers.gate("slow")
    with serving(answers) as server, Raw(server.path) as raw:
        raw.json({"id": 1, "method": "agent.recall", "params": {"query": "wait slow"}})
        raw.sock.shutdown(1)
        until(lambda: answers.begun)
        answers.gate("slow").set()
        assert raw.reply()["result"]["text"] == "wait slow"
        assert raw.ended()


def test_a_peer_that_leaves_before_its_reply_leaves_nothing_behind():
    answers = Answers()
    answers.gate("slow")
    with serving(answers) as server:
        with Raw(server.path) as raw:
            raw.json({"id": 1, "method": "agent.recall", "params": {"query": "wait slow"}})
            until(lambda: answers.begun)
        answers.gate("slow").set()
        until(lambda: server.clients == 0)
        assert lively(server.path)


def test_a_large_reply_arrives_whole():
    with serving() as server, connect(server.path) as connection:
        assert len(connection.call("agent.recall", {"query": "size 8000000"}).text) == 8_000_000


def test_a_reply_beyond_the_limit_is_an_error():
    with serving(frame_bytes=65_536) as server, connect(server.path) as connection:
        with pytest.raises(TooLarge, match="65536"):
            connection.call("agent.recall", {"query": "size 70000"})
        assert connection.call("hello").phase == "ready"


def test_a_hook_is_answered_with_bytes_and_its_faults_with_none():
    def hook(body: bytes, channel: Channel) -> bytes:
        assert not channel.disconnected()
        return b"said: " + body if body else str(1 / 0).encode()

    with serving(hook=hook) as server, connect(server.path) as connection:
        assert connection.hook(b"x\0y", 120) == b"said: x\0y"
        assert connection.hook(b"", 120) == b""
        assert server.counts["faults"] == 1


def test_stopping_drains_what_runs_and_refuses_what_comes():
    answers = Answers()
    answers.gate("slow")
    with serving(answers) as server, Raw(server.path) as raw:
        raw.json({"id": 1, "method": "agent.recall", "params": {"query": "wait slow"}})
        until(lambda: answers.begun)
        stopped: list[bool] = []
        stopper = threading.Thread(target=lambda: stopped.append(server.stop(120)))
        stopper.start()
        until(lambda: not server.path.exists())
        raw.json({"id": 2, "method": "hello"})
        refused = raw.reply()
        assert refused["id"] == 2
        assert refused["error"]["code"] == "unavailable"
        answers.gate("slow").set()
        assert raw.reply()["result"]["text"] == "wait slow"
        stopper.join()
        assert stopped == [True]
        assert raw.ended()
        with pytest.raises(Unavailable) as caught:
            connect(server.path)
        assert caught.value.data["reason"] == "absent"


def test_stopping_does_not_wait_for_ever():
    answers = Answers()
    answers.gate("never")
    with serving(answers) as server, Raw(server.path) as raw:
        raw.json({"id": 1, "method": "agent.recall", "params": {"query": "wait never"}})
        until(lambda: answers.begun)
        assert server.stop(0.05) is False
        assert raw.ended()
        answers.gate("never").set()


def test_a_loop_that_breaks_says_so_and_leaves_nobody_waiting(tmp_path, monkeypatch):
    from ormahd.rpc.server import Server

    monkeypatch.setattr(sockets, "GUARD_SECONDS", 0.2)  # it looks about so often
    broken = threading.Event()
    server = Server(tmp_path / "s" / "o.sock", on_broken=broken.set)
    server.start(Answers())
    with Raw(server.path) as raw:
        raw.json({"id": 1, "method": "hello"})
        assert raw.reply()["id"] == 1
        assert server.alive(20)

        def fault(_now: float) -> None:
            raise RuntimeError

        monkeypatch.setattr(server, "_sweep", fault)
        until(broken.is_set)
        assert raw.ended()
    until(lambda: not server.alive(20))
    assert not server.path.exists()
    assert server.stop(1)
