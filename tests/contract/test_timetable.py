"""When jobs run by themselves: so many hours after the last time, also when that was before a restart.

Time travels by what stands in the record of runs; nobody waits for hours.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from ormahd.api import RunTaskResult
from ormahd.jobs.runner import Runner
from ormahd.jobs.timetable import Timetable
from ormahd.state.runs import STOPPED, Runs
from tests.contract.jobs_house import House, Small, open_house, tagging
from tests.house import wait_until

LAST = datetime(9999, 12, 31, 23, tzinfo=UTC)
HOURS = {"index_updater": 1, "auto_linker": 24, "decay_manager": 24}


@pytest.fixture
def house() -> Iterator[House]:
    with open_house() as found:
        found.now = datetime.now(UTC)
        yield found


def jobs(ran: list[str]) -> list[Small]:
    return [tagging(name, name, then=lambda _, name=name: ran.append(name)) for name in HOURS]  # type: ignore[misc]


def make(house: House, ran: list[str]) -> tuple[Runner, Timetable]:
    runner = Runner(house.ormah, jobs(ran))
    return runner, Timetable(runner, house.ormah.settings.jobs, catch_up_s=0.0)


def last_ran(house: House, name: str, ago: timedelta, error: str | None = None) -> None:
    """As if the job had run then."""
    now, house.now = house.now, datetime.now(UTC) - ago
    runs = Runs(house.ormah.state)
    ran = RunTaskResult(name, 0, 0, 0, [], run=f"run-{ago.total_seconds()}")
    runs.begin(f"run-{ago.total_seconds()}", name)
    runs.end(ran, error=error, milliseconds=1.0)
    house.now = now


def test_a_fresh_vault_has_nothing_to_catch_up(house: House) -> None:
    ran: list[str] = []
    house.several(1)
    runner, timetable = make(house, ran)
    timetable.start()
    for name, hours in HOURS.items():
        next_run = timetable.next_run(name)
        assert next_run is not None
        assert abs(next_run - house.now - timedelta(hours=hours)) < timedelta(minutes=1)
    assert timetable.stop(120)
    assert ran == []
    assert [task.past.run_count for task in runner.tasks()] == [0, 0, 0]


@pytest.mark.parametrize(
    "ahead", [timedelta(hours=25), timedelta(days=40), timedelta(days=2_000), LAST - datetime.now(UTC)]
)
def test_a_run_that_was_planned_while_the_clock_was_ahead_is_planned_anew(house: House, ahead: timedelta) -> None:
    ran: list[str] = []
    house.several(1)
    for name in HOURS:
        last_ran(house, name, -ahead)
    _, timetable = make(house, ran)
    timetable.start()
    for name, hours in HOURS.items():
        wait_until(
            lambda name=name, hours=hours: (
                timetable.next_run(name) - datetime.now(UTC) < timedelta(hours=hours, minutes=1)
            ),  # type: ignore[operator,misc]
            "the run is planned anew",
        )
    assert timetable.stop(120)


def test_what_was_missed_runs_once_in_its_order(house: House) -> None:
    ran: list[str] = []
    house.several(1)
    last_ran(house, "index_updater", timedelta(days=9))
    last_ran(house, "auto_linker", timedelta(hours=23))
    last_ran(house, "decay_manager", timedelta(days=2))
    runner, timetable = make(house, ran)
    timetable.start()
    wait_until(
        lambda: [task.past.run_count for task in runner.tasks()] == [2, 1, 2], "the two that were missed have run"
    )
    assert ran == ["index_updater", "decay_manager"]
    next_run = timetable.next_run("auto_linker")
    assert next_run is not None
    assert abs(next_run - datetime.now(UTC) - timedelta(hours=1)) < timedelta(minutes=1), "the rest of its day"
    assert timetable.stop(120)

    house.again()
    runner, timetable = make(house, ran)
    timetable.start()
    next_run = timetable.next_run("decay_manager")
    assert next_run is not None
    assert next_run > datetime.now(UTC) + timedelta(hours=20), "it ran just now"
    assert timetable.stop(120)
    assert len(ran) == 2


def test_a_run_that_was_stopped_is_caught_up_and_one_that_failed_is_not(house: House) -> None:
    for name in HOURS:
        last_ran(house, name, timedelta(days=3))
    last_ran(house, "auto_linker", timedelta(minutes=1), STOPPED)
    last_ran(house, "decay_manager", timedelta(minutes=1), "the model is not there")
    last_ran(house, "index_updater", timedelta(minutes=1))
    ran: list[str] = []
    house.several(1)
    runner, timetable = make(house, ran)
    timetable.start()
    wait_until(lambda: runner.tasks()[1].past.last_success is not None and ran, "the one that was stopped has run")
    assert timetable.stop(120)
    assert ran == ["auto_linker"]


def test_not_while_paused_and_then_once(house: House) -> None:
    ran: list[str] = []
    house.several(1)
    for name in HOURS:
        last_ran(house, name, timedelta(days=3))
    runner, timetable = make(house, ran)
    runner.pause(["auto_linker"])
    timetable.start()
    wait_until(lambda: len(ran) == 2, "the others have run")
    assert ran == ["index_updater", "decay_manager"]
    assert timetable.stop(120)
    house.again()
    runner, timetable = make(house, ran)
    runner.resume(["auto_linker"])
    timetable.start()
    wait_until(lambda: len(ran) == 3, "it runs when it is resumed")
    assert ran[2] == "auto_linker"
    assert timetable.stop(120)


@pytest.mark.parametrize(
    ("flags", "due"), [({"jobs.enabled": False}, []), ({"jobs.nightly_hours": 0}, ["index_updater"])]
)
def test_never_by_themselves(house: House, flags: dict[str, object], due: list[str]) -> None:
    house.again(**flags)
    house.several(1)
    ran: list[str] = []
    for name in HOURS:
        last_ran(house, name, timedelta(days=3))
    runner, timetable = make(house, ran)
    timetable.start()
    assert [name for name in HOURS if timetable.next_run(name) is not None] == due
    assert timetable.stop(120)
    assert ran == due[: len(ran)]
    assert len(runner.named("all")) == 3
