"""The daemon's threads take no core from a process that is at work, but those for which somebody waits."""

from __future__ import annotations

import os
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.house import House

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the other systems' schedulers are not told")


def policies(house: House) -> Counter[int]:
    """How many threads of the daemon are scheduled in which way."""
    assert house.process is not None
    return Counter(os.sched_getscheduler(int(task.name)) for task in Path(f"/proc/{house.process.pid}/task").iterdir())


def test_only_who_takes_calls_in_and_who_whispers_is_eager(house: House) -> None:
    house.start()
    house.call("agent.remember", content="The ferry to Bergen leaves on Tuesdays at nine.")
    house.call("agent.recall", query="ferry to Bergen")
    before = policies(house)
    assert set(before) == {os.SCHED_OTHER, os.SCHED_BATCH}
    assert before[os.SCHED_OTHER] == 1  # the server's loop; the lanes' threads are begun by it and are not
    house.call("agent.whisper", prompt="When does the ferry to Bergen leave?", session_id="s")
    assert policies(house)[os.SCHED_OTHER] == 2
    house.ctl("recall", "ferry")
    assert policies(house)[os.SCHED_OTHER] == 2
