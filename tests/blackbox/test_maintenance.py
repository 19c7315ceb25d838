"""Two-phase maintenance through a real daemon: the wire, the commands, git, the whisper's line, a death in between."""

from __future__ import annotations

import contextlib
import itertools
import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ormahd.api import MaintenanceCounts, MaintenanceResult
from ormahd.errors import BadRequest, Conflict, NotFound
from ormahd.rpc import wire
from tests.house import House, open_house, wait_until
from tests.tables import rows

TEXTS = dict(rows(__file__, "texts"))


def fill(house: House) -> dict[str, str]:
    """The memories of `TEXTS`: name to id."""
    return {
        name: house.call("agent.remember", content=text, title=name, type="fact", space="shop").node_id
        for name, text in TEXTS.items()
    }


def handed_out(house: House, **more: Any) -> MaintenanceResult:
    found: MaintenanceResult = house.call("agent.maintenance", agent="claude-code", **more)
    assert found.status == "issued"
    return found


def pair(handed: MaintenanceResult, ids: dict[str, str], one: str, other: str) -> tuple[str, str]:
    """The ids of a pair that was handed out to merge."""
    pairs = [{one.node_a.id, one.node_b.id} for one in handed.merge_candidates or ()]
    assert {ids[one], ids[other]} in pairs
    return ids[one], ids[other]


def counts(done: MaintenanceResult) -> MaintenanceCounts:
    assert isinstance(done.summary, MaintenanceCounts)
    return done.summary


def test_two_phases_over_the_wire(daemon: House) -> None:
    ids = fill(daemon)
    handed = handed_out(daemon)
    assert isinstance(handed.summary, str)
    keep, remove = pair(handed, ids, "receipts", "receipts too")
    results = {
        "receipt": handed.receipt,
        "merges": [
            {"keep_id": keep, "remove_id": remove, "title": "Receipts", "content": TEXTS["receipts too"], "reason": "the same"},
            {"keep_id": ids["oven"], "remove_id": ids["oven too"][:-1] + ("0" if ids["oven too"][-1] != "0" else "1")},
        ],
    }  # fmt: skip
    done: MaintenanceResult = daemon.call("agent.maintenance", agent="claude-code", results=results, request_id="once")
    assert (done.status, counts(done).merges, counts(done).skipped) == ("applied", 1, 1)
    assert done.refused
    (refused,) = done.refused
    assert refused.item == "merges[1]"
    assert "not issued" in refused.why

    message = daemon.git("log", "-1", "--format=%an%n%B")
    assert message.startswith("agent:claude-code\n")
    assert "Ormah-Kind: merge" in message
    assert f"Ormah-Run: {done.run}" in message
    assert "Judged by agent:claude-code." in message
    assert "the same" in message
    assert daemon.call("agent.get", node_id=keep).title == "Receipts"

    assert daemon.call("agent.maintenance", agent="claude-code", results=results, request_id="once") == done
    with pytest.raises(Conflict, match="was used"):
        daemon.call("agent.maintenance", agent="claude-code", results=results)
    again = handed_out(daemon)
    assert again.receipt != handed.receipt
    assert [{one.node_a.id, one.node_b.id} for one in again.merge_candidates or ()] == [{ids["oven"], ids["oven too"]}]


def test_what_is_no_question_and_no_answer(daemon: House) -> None:
    wrongs: list[dict[str, Any]] = [
        {"merges": []}, {"results": {}}, {"results": {"merges": []}}, {"receipt": ""}, {"results": {"receipt": 7}},
        {"receipt": "a", "results": {"receipt": "b"}}, {"receipt": "a", "merges": [], "results": {"edges": []}},
        {"results": {"receipt": "a", "mergers": []}}, {"receipts": "a"}, {"results": []},
    ]  # fmt: skip
    for wrong in wrongs:
        with pytest.raises(BadRequest):
            daemon.call("agent.maintenance", **wrong)
    with pytest.raises(NotFound):
        daemon.call("agent.maintenance", receipt="11111111-2222-4333-8444-555555555555")


def test_a_receipt_outlives_the_daemon(daemon: House) -> None:
    fill(daemon)
    handed = handed_out(daemon)
    daemon.restart()
    assert handed_out(daemon) == handed
    done: MaintenanceResult = daemon.call("agent.maintenance", receipt=handed.receipt)
    assert done.refused == []
    assert handed_out(daemon).summary == "There is nothing to judge."


def test_the_command(daemon: House) -> None:
    ids = fill(daemon)
    handed = daemon.json("maintenance")
    assert ids["oven"] in daemon.ctl("maintenance").stdout
    results = {
        "receipt": handed["receipt"],
        "merges": [{"keep_id": ids["oven"], "remove_id": ids["oven too"]}, {"keep_id": "x"}],
    }
    file = daemon.home / "results.json"
    file.write_text(json.dumps({"results": results}))
    done = daemon.ctl("maintenance", "apply", str(file))
    assert done.returncode == 0, done.stderr
    applied = json.loads(done.stdout)
    assert (applied["summary"]["merges"], applied["summary"]["skipped"]) == (1, 1)
    assert [(one["item"], one["why"]) for one in applied["refused"]] == [("merges[1]", "remove_id: is missing")]
    assert "Ormah-Source: person" in daemon.git("log", "-1", "--format=%B")
    assert daemon.ctl("undo", "--run", applied["run"]).returncode == 0
    assert daemon.ctl("show", ids["oven too"]).returncode == 0

    assert daemon.ctl("maintenance", "apply", "-", input=json.dumps(results)).returncode == 4
    assert daemon.ctl("maintenance", "apply", "-", input='{"receipt": "11111111"}').returncode == 3
    for words, given in rows(__file__, "the_command"):
        wrong = daemon.ctl("maintenance", *words, input=given)
        assert wrong.returncode == 2, wrong.stderr
        assert "Traceback" not in wrong.stderr


def test_maintenance_due_is_said_once_a_session(house: House) -> None:
    start = datetime(2026, 11, 21, 20, 0, tzinfo=UTC)

    def at(hours: float) -> None:
        house.settings["ORMAH_DAEMON_FIXED_TIME"] = (start + timedelta(hours=hours)).isoformat()
        house.restart() if house.process is not None else house.start()

    def due(session: str) -> bool:
        said = house.call(
            "agent.whisper", prompt="how wide is the paper of the till?", space="shop", session_id=session
        ).text
        return "maintenance_due" in said.splitlines()

    def told(sessions: Iterator[str]) -> str:
        """The first session that is told: on a busy machine the daemon has not found the questions when it is ready."""
        found: str = wait_until(lambda: next(filter(due, itertools.islice(sessions, 1)), None), "a session is told")
        return found

    house.settings["ORMAH_WHISPER_MAINTENANCE"] = "true"
    sessions = map(str, itertools.count())
    at(0)
    fill(house)
    at(1)
    assert not due("a"), "the first day is a grace"
    at(25)
    assert not due(told(sessions)), "once a session"
    assert due("c")
    handed = handed_out(house)
    assert not due("d"), "somebody is at it"
    house.call("agent.maintenance", receipt=handed.receipt)
    assert not due("e")
    at(50)
    assert not due("f"), "there is nothing to judge"
    house.call(
        "agent.remember", content=TEXTS["oven"] + " It is of stone.", title="oven three", type="fact", space="shop"
    )
    at(51)
    told(sessions)
    house.settings["ORMAH_WHISPER_MAINTENANCE"] = "false"
    at(52)
    assert not due("h")


@pytest.mark.parametrize("after", [0.02, *(pytest.param(at, marks=pytest.mark.soak) for at in (0.0, 0.05, 0.1))])
def test_killed_in_the_middle_the_same_results_go_on(after: float) -> None:
    with open_house() as house:
        house.start()
        ids = fill(house)
        handed = handed_out(house)
        names = ["receipts", "harbour", "oven"]
        merges = [{"keep_id": ids[name], "remove_id": ids[f"{name} too"]} for name in names]
        timer = threading.Timer(after, house.kill)
        timer.start()
        with contextlib.suppress(wire.OrmahError, OSError):  # it may have been quicker than the kill
            house.call("agent.maintenance", receipt=handed.receipt, merges=merges)
        timer.join()
        house.start()
        try:
            done: MaintenanceResult | None = house.call("agent.maintenance", receipt=handed.receipt, merges=merges)
        except Conflict:
            done = None  # it had ended before the kill
        left = {name for name in TEXTS if house.ctl("show", ids[name]).returncode == 0}
        assert left == set(names)
        if done is not None:
            gone = [one for one in done.refused or () if "not in the vault" in one.why]
            assert counts(done).merges + len(gone) == 3
        assert house.json("verify")["ok"]
