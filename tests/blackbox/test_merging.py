"""Duplicates through the daemon: `ormahctl jobs run`, the commit, git typed by a person, `undo` (real process)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ormahd.note.read import parse
from tests.blackbox.tours import edit_by_hand, edited, head, path_of, remember, walk_home
from tests.house import House, open_house

NAME = "duplicate_merger"


@pytest.fixture
def house() -> Iterator[House]:
    with open_house(ORMAH_JOBS_ENABLED="false") as found:
        found.start()
        yield found


@pytest.mark.parametrize("by", ["undo", "undo_merge", "revert"])
def test_merged_by_a_command_and_taken_back_after_edits(house: House, by: str) -> None:
    keep = remember(house, f"The pans of {by} hang beside the stove, above the sink.", title="Pans", tags=["iron"])
    gone = remember(house, f"The pans of {by} hang beside the stove above the sink", title="Pans", tags=["steel"])
    around = remember(house, f"The shelf of {by} is empty", title="Shelf", type="project")
    house.call("agent.connect", source_id=around, target_id=gone, edge="supports", weight=0.8, reason="hooks")
    walk_home(house)
    before = house.notes()
    paths = {node: path_of(house, node) for node in (keep, gone, around)}
    start = head(house)

    (dry,) = house.json("jobs", "run", NAME, "--dry-run")
    assert (dry["proposals"], dry["applied"], head(house), house.notes()) == (1, 0, start, before)
    (ran,) = house.json("jobs", "run", NAME)
    assert (ran["applied"], ran["commits"]) == (1, [head(house)])
    (again,) = house.json("jobs", "run", NAME)
    assert (again["proposals"], again["commits"]) == (0, [])
    walk_home(house)
    kept, removed = (keep, gone) if paths[keep] in house.notes() else (gone, keep)
    assert paths[removed] not in house.notes()
    shown = house.json("show", kept)
    assert sorted(shown["tags"]) == ["iron", "steel"]
    edges = [(one["id"], one["edge"], one["weight"], one["reason"]) for one in shown["connections"]["in"]]
    assert (around, "supports", 0.8, "hooks") in edges
    assert len({one[:2] for one in edges}) == len(edges)
    (op, *_) = [op for op in house.json("history") if op["kind"] == "merge"]
    assert op["subject"] == "Merge: two memories of “Pans” became one"
    assert op["nodes"][:2] == [kept, removed]
    (row, *_) = house.call("agent.merges").merges
    assert (row.id, row.kept, row.removed, row.source) == (op["op"], kept, removed, f"job:{NAME}")

    edit_by_hand(house, [paths[kept], paths[around]])
    if by == "undo":
        house.json("undo", op["op"])
    elif by == "undo_merge":
        house.call("agent.undo_merge", merge_id=row.id)
    else:
        house.git("revert", "--no-edit", op["commit"])
    walk_home(house)
    after = dict(before) | {paths[node]: edited(before[paths[node]]) for node in (kept, around)}
    assert house.notes() == after
    assert parse(house.notes()[paths[removed]], "x.md").id == removed
    (ran,) = house.json("jobs", "run", NAME)
    assert ran["commits"] == [], "what was taken back is not done again"
    assert house.call("agent.merges").merges[0].undone_by is not None
