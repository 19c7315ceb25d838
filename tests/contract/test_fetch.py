"""Notes that an index lacks are found by reading the vault, also where every look at the clock comes late."""

from __future__ import annotations

import itertools
import time

import pytest

from ormahd.fetch import Fetcher
from tests.jobs_house import open_jobs_house


def test_a_small_vault_is_searched_whole_however_slow_the_machine_is(monkeypatch: pytest.MonkeyPatch) -> None:
    with open_jobs_house() as house:
        ormah = house.ormah
        wanted = [house.remember(f"The lamp of pier {number} is kept by keeper{number}.") for number in range(30)]
        ormah.index.begin_anew("a test wants it empty")
        hours = itertools.count(step=3600.0)
        monkeypatch.setattr(time, "monotonic", lambda: next(hours))
        Fetcher(ormah.vault, ormah.reconciler, ormah.index, lambda: True, lambda: None).by_words(["keeper29"])
        monkeypatch.undo()
        assert [node_id for node_id, _ in ormah.index.search_text("keeper29", 5)] == [wanted[29]]
