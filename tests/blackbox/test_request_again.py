"""A request that is repeated after a kill between its commit and its reply gets the answer that it would have had."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable
from typing import Any

import msgspec

from tests.house import House

Wish = tuple[str, dict[str, Any]]


def _wishes(house: House) -> list[Callable[[], Wish]]:
    """Requests, each drawn when the ones before it have been answered."""
    ids = [
        house.call("agent.remember", content=f"The {name} ferry leaves from pier {at}.", title=f"{name} ferry").node_id
        for at, name in enumerate(("Aster", "Birch", "Cedar", "Daisy", "Elder", "Fern", "Gorse", "Hazel"))
    ]
    last: Callable[[int], str] = lambda at: house.json("history")[at]["commit"]  # noqa: E731
    return [
        lambda: ("agent.forget", {"node_id": ids[0]}),
        lambda: ("history.undo", {"ops": [last(0)]}),
        lambda: ("history.undo", {"ops": [last(0)]}),
        lambda: ("agent.forget", {"node_id": ids[1][:12]}),
        lambda: ("agent.update", {"node_id": ids[2], "content": "The Cedar ferry leaves from pier 9."}),
        lambda: ("history.undo", {"ops": [last(0)]}),
        lambda: ("agent.update", {"node_id": ids[2], "title": "Another title"}),
        lambda: ("agent.outdated", {"node_id": ids[3], "reason": "it sank"}),
        lambda: ("history.undo", {"ops": [last(0), last(1)]}),
        lambda: ("agent.connect", {"source_id": ids[4], "target_id": ids[5], "edge": "supports"}),
        lambda: ("history.undo", {"ops": [last(0)]}),
        lambda: ("agent.remember", {"content": "A ferry that is told of once."}),
        lambda: ("history.undo", {"ops": [last(0)], "force": True}),
        lambda: ("agent.forget", {"node_id": ids[6]}),
    ]  # fmt: skip


def test_a_request_repeated_after_a_kill_gets_one_answer(house: House) -> None:
    house.start()
    for number, draw in enumerate(_wishes(house)):
        method, params = draw()
        first = house.call(method, **params, request_id=f"request-{number}")
        commits = len(house.json("history", "--limit", "200"))
        house.kill()
        # what a daemon leaves that is killed between the commit and the reply
        with contextlib.closing(sqlite3.connect(house.state / "state.sqlite3")) as db, db:
            assert db.execute("UPDATE answer SET reply = NULL WHERE request_id = ?", (f"request-{number}",)).rowcount
        house.start()
        again = house.call(method, **params, request_id=f"request-{number}")
        if method in {"agent.forget", "history.undo"}:
            assert msgspec.to_builtins(again) == msgspec.to_builtins(first), (method, params)
        assert getattr(again, "node_id", None) == getattr(first, "node_id", None)
        assert house.call(method, **params, request_id=f"request-{number}") == again
        assert len(house.json("history", "--limit", "200")) == commits
