"""The first scan of a vault that has notes already: an index that is made, or made anew."""

from __future__ import annotations

import itertools

import pytest

from ormahd.watch import reconciler
from ormahd.watch.reconciler import ScanAborted
from tests.vault.observed import House, uuid


def test_a_scan_ends_where_the_daemon_does_and_the_next_start_takes_the_rest(house: House, monkeypatch) -> None:
    monkeypatch.setattr(reconciler, "BATCH", 50)
    for number in range(300):
        house.write(f"Note {number}.md", f"---\nid: {uuid(number + 1)}\n---\ntext of {number}\n")
    house.git("add", "-A")
    house.git("commit", "-qm", "by hand")
    with pytest.raises(ScanAborted):
        house.scan(progress=lambda done, _of: done == 200 and house.reconciler.stopping.set())
    assert 100 <= len(house.index.rows) < 300
    assert house.index.head != house.git("rev-parse", "HEAD"), "it claims to have everything of that commit"
    house.reconciler = house.new_reconciler()
    house.settle()
    notes = house.root.glob("[!.]*/**/*.md"), house.root.glob("*.md")
    assert set(house.index.rows) == {file.relative_to(house.root).as_posix() for file in itertools.chain(*notes)}
