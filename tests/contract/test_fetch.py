"""Notes that an index lacks are found by reading the vault, also where every look at the clock comes late."""

from __future__ import annotations

import itertools
import time

import pytest

from ormahd.actions.outdated import forget
from ormahd.errors import NoRoom, NotFound
from ormahd.fetch import Fetcher
from tests.jobs_house import AGENT, open_jobs_house


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


def test_a_memory_without_room_for_its_row_is_not_told_as_unknown() -> None:
    with open_jobs_house() as house:
        ormah = house.ormah
        wanted = house.remember("The keeper of the lamp. " + "lamp " * 20_000)
        ormah.index.begin_anew("a test wants it empty")
        fetcher = Fetcher(ormah.vault, ormah.reconciler, ormah.index, lambda: True, lambda: None)
        ormah.index.fetch_id, ormah.index.fetch_words = fetcher.by_id, fetcher.by_words
        ormah.index.database.found_full = lambda _why: None  # as where the index is too large for memory
        full = ormah.index.database._now.writer
        pages = full.execute("PRAGMA page_count").fetchone()[0]
        full.execute(f"PRAGMA max_page_count = {pages}")
        for ask in (ormah.index.resolve, ormah.index.note):
            with pytest.raises(NoRoom, match=r"the vault has a memory with the id .* the index cannot be written"):
                ask(wanted)
        assert ormah.index.search_text("keeper", 5) == []
        with pytest.raises(NotFound):
            ormah.index.resolve("0" * 8 if not wanted.startswith("0" * 8) else "1" * 8)
        full.execute("PRAGMA max_page_count = 1000000")
        assert ormah.index.note(wanted).id == wanted


def test_what_changes_while_a_question_fetches_it_is_not_undone_in_the_index() -> None:
    with open_jobs_house() as house:
        ormah = house.ormah
        changed, gone = house.remember("The lamp stands in the hall."), house.remember("The chair stands in the hall.")
        paths = [house.row(changed).path, house.row(gone).path]
        fetcher = Fetcher(ormah.vault, ormah.reconciler, ormah.index, lambda: True, lambda: None)

        def wanted(node_id: str) -> bool:
            """Asked once a note is read: that note is changed, or removed, before the index is given it."""
            if node_id == changed:
                house.update(changed, content="The lamp stands in the cellar.")
            else:
                forget(ormah, gone, AGENT)
            return True

        fetcher._take_in(paths, wanted)
        assert house.row(changed).content == "The lamp stands in the cellar."
        with pytest.raises(NotFound):
            ormah.index.resolve_known(gone)
        assert ormah.verify() == []
