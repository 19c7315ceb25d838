"""Many clients at once, and an import that is killed: nothing is lost, nothing is there twice."""

from __future__ import annotations

import threading
from collections import Counter

import pytest

from tests.house import House


def contents(house: House) -> Counter[str]:
    found: Counter[str] = Counter()
    after = None
    while True:
        page = house.call("admin.export", after=after, limit=2000)
        found.update(item["content"] for item in page.items)
        after = page.next
        if after is None:
            return found


@pytest.mark.parametrize("notes", [40, pytest.param(100, marks=pytest.mark.soak)])
def test_eight_clients_write_at_once(daemon: House, notes: int) -> None:
    failed: list[Exception] = []

    def write(client: int) -> None:
        try:
            with daemon.connect() as connection:
                for number in range(notes):
                    done = connection.call(
                        "agent.remember", {"content": f"client {client} wrote note {number}"}, timeout=120
                    )
                    assert done.commit
        except Exception as exc:  # noqa: BLE001 - told to the test, which fails with it
            failed.append(exc)

    threads = [threading.Thread(target=write, args=(client,)) for client in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    expected = {f"client {client} wrote note {number}" for client in range(8) for number in range(notes)}
    assert expected <= set(contents(daemon))
    assert max(contents(daemon).values()) == 1
    subjects = daemon.git("log", "--format=%s").splitlines()
    assert len([one for one in subjects if one.startswith("Remember: client")]) == 8 * notes, "one op, one commit"
    assert len([path for path in daemon.git("ls-files").splitlines() if "/fact/" in path]) == 8 * notes
    assert daemon.git("status", "--porcelain") == ""


def test_the_same_memory_from_many_at_once_is_one(shared: House) -> None:
    ids = []

    def write() -> None:
        ids.append(shared.call("agent.remember", content="the one and only").node_id)

    threads = [threading.Thread(target=write) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ids) == 12
    assert len(set(ids)) == 1
    assert contents(shared)["the one and only"] == 1


def test_a_request_id_gives_the_first_answer_again(shared: House) -> None:
    asked = {"content": "said once, sent twice", "request_id": "r-1"}
    first = shared.call("agent.remember", **asked)
    shared.call("agent.forget", node_id=first.node_id)
    assert shared.call("agent.remember", **asked) == first
    assert "said once, sent twice" not in contents(shared)
