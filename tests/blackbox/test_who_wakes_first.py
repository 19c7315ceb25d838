"""The daemon's threads take no core from a process that is at work, but those for which somebody waits."""

from __future__ import annotations

import contextlib
import os
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.house import House, wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the other systems' schedulers are not told")


def policies(house: House) -> Counter[int]:
    """How many threads of the daemon are scheduled in which way."""
    assert house.process is not None
    found: Counter[int] = Counter()
    for task in Path(f"/proc/{house.process.pid}/task").iterdir():
        with contextlib.suppress(ProcessLookupError):  # it ended meanwhile
            found[os.sched_getscheduler(int(task.name))] += 1
    return found


def wait_for(house: House, eager: int) -> None:
    """A thread that has only just begun has not said yet how it is scheduled."""
    wait_until(
        lambda: (
            (found := policies(house)).keys() == {os.SCHED_OTHER, os.SCHED_BATCH} and found[os.SCHED_OTHER] == eager
        ),
        lambda: f"{eager} threads are eager, all others patient: {policies(house)}",
    )


def test_only_who_takes_calls_in_and_who_whispers_is_eager(house: House) -> None:
    house.start()
    house.call("agent.remember", content="The ferry to Bergen leaves on Tuesdays at nine.")
    house.call("agent.recall", query="ferry to Bergen")
    wait_for(house, eager=1)  # the server's loop; the pools' threads are begun by it and are not
    house.call("agent.whisper", prompt="When does the ferry to Bergen leave?", session_id="s")
    wait_for(house, eager=2)
    house.ctl("recall", "ferry")
    wait_for(house, eager=2)
