"""Maintenance as people meet it: a real daemon, its commands, its files, git typed by hand."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from ormahd.api import RunTaskResult
from ormahd.state.runs import Runs
from ormahd.state.state import State
from tests.blackbox.tours import head, walk_home
from tests.house import House, open_house, wait_until
from tests.tables import rows
from tests.vault.git_house import kinds_since

ORDER = rows(__file__, "order")  # fmt: skip
OLD = "We deploy the payment service on Tuesday mornings after the backup has run"
NEW = "On Tuesday mornings after the backup has run we deploy the payment service"


@pytest.fixture
def house() -> Iterator[House]:
    with open_house(ORMAH_JOBS_ENABLED="false") as found:
        found.start()
        yield found


def remember(house: House, content: str, **more: Any) -> str:
    return str(house.call("agent.remember", content=content, **more).node_id)


def alike(house: House, space: str = "pay") -> tuple[str, str]:
    """Two memories that are much alike, and not the same."""
    return tuple(remember(house, text, title="Deploying payments", space=space) for text in (OLD, NEW))  # type: ignore[return-value]


def same(house: House, count: int, start: int = 0) -> None:
    """Pairs of memories that say the same."""
    lines = [
        {"content": text.format(number), "title": f"Port {number}", "space": "net"}
        for number in range(start, start + count)
        for text in ("Service number {} listens on its own port.", "service number {} listens on its own port")
    ]
    done = house.json("import", "-", input="\n".join(map(json.dumps, lines)))
    assert done["added"] == 2 * count, done


def run(house: House, name: str = "all", *more: str) -> dict[str, dict[str, Any]]:
    done = {one["job"]: one for one in house.json("jobs", "run", name, *more)}
    assert all(one["error"] is None for one in done.values()), done
    return done


def proposals(house: House, status: str = "pending", kind: str | None = None) -> list[dict[str, Any]]:
    found = house.call("agent.proposals", status=status, type=kind).proposals
    return [msgspec.to_builtins(row) for row in found]


def made_since(house: House, commit: str) -> list[str]:
    """The kinds of the commits since, newest first, but for those that begin a file of lines."""
    return [kind for kind in kinds_since(house.vault, commit) if kind != "init"]


def of_type(house: House, kind: str = "merge") -> dict[str, Any]:
    (found,) = proposals(house, kind=kind)
    return found


# Jobs


def test_the_jobs_in_their_order_and_what_a_run_says(house: House) -> None:
    assert [row["name"] for row in house.json("jobs")] == ORDER
    same(house, 2)
    alike(house)
    before, start = house.notes(), head(house)
    would = run(house, "all", "--dry-run")
    assert list(would) == ORDER
    assert (would["duplicate_merger"]["proposals"], would["duplicate_merger"]["asked"]) == (3, 1)
    assert (head(house), house.notes(), proposals(house)) == (start, before, []), "a dry run changes nothing"
    done = run(house)
    merged = done["duplicate_merger"]
    assert (merged["applied"], merged["asked"], merged["skipped"], len(merged["commits"])) == (2, 1, 0, 2)
    said = house.git("show", "-s", "--format=%an%n%B", merged["commits"][0])
    assert said.startswith("job:duplicate_merger\nMerge: ")
    assert "Ormah-Source: job:duplicate_merger\n" in said
    assert house.json("history", "--source", "job:duplicate_merger")[0]["commit"] == merged["commits"][1]
    walk_home(house)

    run(house)
    again = run(house)
    assert {name: one["proposals"] for name, one in again.items()} == dict.fromkeys(ORDER, 0), again
    rows = {row["name"]: row for row in house.json("jobs")}
    assert all(row["last_run"] and row["last_error"] is None and row["run_count"] == 3 for row in rows.values())
    table = house.ctl("jobs").stdout
    assert all(name in table for name in ORDER)


def test_a_pause_outlives_the_daemon_and_is_told(house: House) -> None:
    assert house.json("jobs", "pause", "auto_linker")["paused"] == ["auto_linker"]
    house.restart()
    assert [row["name"] for row in house.json("jobs") if row["paused"]] == ["auto_linker"]
    assert "paused    auto_linker" in house.ctl("status").stdout
    assert "the job auto_linker is paused since" in house.ctl("doctor").stdout
    assert house.json("jobs", "run", "auto_linker")[0]["error"] is None, "who names it means it"
    assert house.ctl("jobs", "resume", "auto_linker").stdout == "resumed: auto_linker\n"
    assert house.json("jobs", "resume", "all")["paused"] == []
    assert house.ctl("jobs", "pause", "all").stdout == f"paused: {', '.join(ORDER)}\n"
    assert "paused    all jobs" in house.ctl("status").stdout
    assert house.ctl("jobs", "resume", "all").stdout == "no job is paused\n"


def failed(house: House, job: str, error: str) -> None:
    """As if the job had run just now, and failed; the daemon is down."""
    state = State(house.state, clock=lambda: datetime.now(UTC))
    try:
        runs = Runs(state)
        runs.begin("before", job)
        runs.end(RunTaskResult(job, 0, 0, 0, [], run="before"), error=error, milliseconds=1.0)
    finally:
        state.close()


def test_a_job_that_failed_is_told_until_it_runs_well(house: House) -> None:
    house.stop()
    failed(house, "auto_linker", "a fault of its own: ZeroDivisionError()")
    assert "warning: the job auto_linker failed: a fault of its own" in house.ctl("doctor").stdout, (
        "also while it is down"
    )
    house.start()
    row = next(row for row in house.json("jobs") if row["name"] == "auto_linker")
    assert (row["last_error"], row["error_count"]) == ("a fault of its own: ZeroDivisionError()", 1)
    assert house.json("status")["jobs"]["auto_linker"]["last_error"] == row["last_error"]
    assert "auto_linker failed: a fault of its own" in house.ctl("status").stdout
    doctor = house.ctl("doctor")
    assert doctor.returncode == 1
    assert "warning: the job auto_linker failed: a fault of its own" in doctor.stdout
    assert "ormahctl jobs run auto_linker" in doctor.stdout
    run(house, "auto_linker")
    assert house.ctl("doctor").stdout == "all is well\n"


# In the middle of a run


def test_stopped_in_the_middle_of_a_run_it_ends_in_time_and_loses_nothing(house: House) -> None:
    same(house, 30)
    start = head(house)
    asked = threading.Thread(target=lambda: house.ctl("jobs", "run", "duplicate_merger", "--force"), daemon=True)
    asked.start()
    wait_until(lambda: head(house) != start, "the first merge is there")
    assert house.stop() == 0
    assert "still at work" not in house.said()
    asked.join(120)
    house.start()
    left = len(house.notes()) - 31
    assert 0 < left < 30, "it ended in the middle"
    row = next(row for row in house.json("jobs") if row["name"] == "duplicate_merger")
    assert row["last_error"] is None
    walk_home(house)
    assert run(house, "duplicate_merger", "--force")["duplicate_merger"]["applied"] == left
    assert len(house.notes()) == 31
    walk_home(house)


def test_writes_and_whispers_go_on_beside_a_run(house: House) -> None:
    same(house, 15)
    ended = threading.Event()

    def work() -> None:
        house.ctl("jobs", "run", "all", "--force")
        ended.set()

    threading.Thread(target=work, daemon=True).start()
    mine = []
    while not ended.is_set():
        mine.append(remember(house, f"Written beside a run, number {len(mine)}", type="event"))
        assert house.call("agent.whisper", prompt="which port does the service listen on", session_id="s") is not None
    for number, node in enumerate(mine):
        assert house.json("show", node)["content"] == f"Written beside a run, number {number}"
    walk_home(house)


# Proposals


def test_a_proposal_is_listed_with_its_evidence_approved_and_undone(house: House) -> None:
    old, new = alike(house)
    run(house, "duplicate_merger")
    found = of_type(house)
    assert sorted(found["source_nodes"]) == sorted([old, new])
    assert (found["status"], found["resolved"], found["type"]) == ("pending", None, "merge")
    assert found["preview"]
    assert found["evidence"]
    assert "1 proposal for you: ormahctl review" in house.ctl("status").stdout
    listed = house.ctl("review").stdout
    assert found["short_id"] in listed
    assert found["proposed_action"] in listed

    before, start = house.notes(), head(house)
    told = house.ctl("review", "approve", found["short_id"])
    assert told.returncode == 0, told.stderr
    assert "undo: ormahctl undo" in told.stdout
    assert made_since(house, start) == ["merge"]
    assert len(house.notes()) == len(before) - 1
    (merged,) = house.call("agent.merges").merges
    assert {merged.kept, merged.removed} == {old, new}
    twice = house.ctl("--json", "review", "reject", found["id"])
    assert twice.returncode == 4
    assert "was approved on" in json.loads(twice.stderr)["error"]["message"]
    (row,) = proposals(house, "approved")
    assert (row["resolved_by"], row["op"]) == ("person", house.json("history", "--limit", "1")[0]["op"])
    walk_home(house)

    assert house.ctl("undo", head(house)).returncode == 0
    assert house.notes() == before
    assert of_type(house)["id"] == found["id"], "undone, it is open again"
    walk_home(house)


def test_an_agent_decides_in_its_own_name_and_once_for_a_request(house: House) -> None:
    alike(house)
    run(house, "duplicate_merger")
    found = house.call("agent.proposals").proposals[0]
    asked = {"proposal_id": found.short_id, "action": "approved", "request_id": "once"}
    done = house.call("agent.resolve_proposal", agent="claude-code", **asked)
    assert (done.status, done.proposal_id) == ("approved", found.id)
    assert house.call("agent.resolve_proposal", agent="claude-code", **asked) == done
    assert house.git("show", "-s", "--format=%an").strip() == "agent:claude-code"


def test_hung_up_in_the_middle_the_run_goes_on(house: House) -> None:
    """The command is interrupted; what it asked for is done all the same, and another one waits for its turn."""
    same(house, 10)
    start = head(house)
    done = threading.Thread(target=lambda: house.ctl("jobs", "run", "duplicate_merger", timeout=120), daemon=True)
    done.start()
    wait_until(lambda: head(house) != start, "it is at work")
    run(house, "importance_scorer")
    assert len(house.notes()) == 11
    house.signal(signal.SIGHUP)  # a log that is opened anew is no reason to stop
    walk_home(house)
