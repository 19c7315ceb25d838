"""Questions about an earlier state wait for each other, and nobody waits for them."""

from __future__ import annotations

import threading

from ormahd.rpc.pools import BACK
from ormahd.rpc.wire import connect
from tests.contract.serving import Answers, serving, until


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
