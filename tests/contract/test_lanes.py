"""Questions about an earlier state wait for each other, and nobody waits for them."""

from __future__ import annotations

import threading

from ormahd.rpc import schema
from ormahd.rpc.lanes import BACK, LOOKING_BACK, SCAN, lane_of
from ormahd.rpc.wire import connect
from tests.contract.serving import Answers, serving, until


def test_a_question_about_then_has_a_lane_of_its_own() -> None:
    assert lane_of(schema.Call(method="agent.recall", params=schema.RecallParams(query="x"))) == "agent.recall"
    then = schema.RecallParams(query="x", as_of="yesterday")
    assert lane_of(schema.Call(method="agent.recall", params=then)) == LOOKING_BACK
    node = schema.NodeParams(node_id="1a2b", as_of="HEAD~1")
    assert lane_of(schema.Call(method="agent.get", params=node)) == LOOKING_BACK
    assert lane_of(schema.Call(method="hello", params=schema.HelloParams())) == "hello"
    assert lane_of(schema.Call(method="admin.health", params={})) == "admin.health"


def test_a_scan_does_not_wait_for_maintenance() -> None:
    run = "admin.run_task"
    assert lane_of(schema.Call(method=run, params=schema.RunTaskParams(name="index_updater"))) == SCAN
    assert lane_of(schema.Call(method=run, params=schema.RunTaskParams(name="auto_linker"))) == run


def test_however_many_look_back_today_is_answered() -> None:
    answers = Answers()
    gate = answers.gate("states")
    done: list[str] = []

    def look_back(path: object) -> None:
        with connect(path) as connection:  # type: ignore[arg-type]
            done.append(connection.call("agent.recall", {"query": "wait states", "as_of": "yesterday"}).text)

    with serving(answers) as server:
        threads = [threading.Thread(target=look_back, args=(server.path,)) for _ in range(20)]
        for thread in threads:
            thread.start()
        until(lambda: len(answers.begun) == BACK)
        with connect(server.path) as connection:
            assert connection.call("agent.recall", {"query": "today"}).text == "today"
            assert connection.call("agent.remember", {"content": "a thing"}).text == "a thing"
            assert connection.call("admin.rebuild").status == "ok"
        assert (len(answers.begun) - 2, done) == (BACK, [])
        gate.set()
        for thread in threads:
            thread.join(20)
    assert len(done) == 20
