"""Questions about an earlier state wait for each other, and nobody waits for them."""

from __future__ import annotations

import threading

import pytest

from ormahd import api
from ormahd.process import priority
from ormahd.rpc.pools import BACK, LOOKING_BACK, SCAN, Pools, lane_of
from ormahd.rpc.wire import connect
from tests.contract.serving import Answers, serving, until


def test_a_question_about_then_has_a_lane_of_its_own() -> None:
    assert lane_of(api.Call(method="agent.recall", params=api.RecallParams(query="x"))) == "agent.recall"
    then = api.RecallParams(query="x", as_of="yesterday")
    assert lane_of(api.Call(method="agent.recall", params=then)) == LOOKING_BACK
    node = api.NodeParams(node_id="1a2b", as_of="HEAD~1")
    assert lane_of(api.Call(method="agent.get", params=node)) == LOOKING_BACK
    assert lane_of(api.Call(method="hello", params=api.HelloParams())) == "hello"
    assert lane_of(api.Call(method="admin.health", params={})) == "admin.health"


def test_a_scan_does_not_wait_for_maintenance() -> None:
    run = "admin.run_task"
    assert lane_of(api.Call(method=run, params=api.RunTaskParams(name="index_updater"))) == SCAN
    assert lane_of(api.Call(method=run, params=api.RunTaskParams(name="auto_linker"))) == run


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
            thread.join(120)
    assert len(done) == 20


def test_as_many_search_as_there_are_cores_and_nobody_else_waits_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(priority, "cores", lambda: 2)
    pools = Pools(8)
    lock, go = threading.Lock(), threading.Event()
    running: list[int] = [0, 0]  # now, and at most
    ended = threading.Semaphore(0)

    def search() -> None:
        with lock:
            running[0] += 1
            running[1] = max(running)
        assert go.wait(120)
        with lock:
            running[0] -= 1
        ended.release()

    for _ in range(6):
        pools.put("agent.recall", search)
    pools.put("hello", ended.release)
    assert ended.acquire(timeout=120)  # while all searches wait
    until(lambda: running[0] == 2)
    go.set()
    for _ in range(6):
        assert ended.acquire(timeout=120)
    assert running == [0, 2]
    assert pools.close(30)
