"""`ormahctl undo` of one op against a real daemon: what comes back, by force or not, and what came after it (DESIGN 12)."""

from __future__ import annotations

import re
import threading

import pytest

from ormahd.model.change import Kind
from ormahd.rpc import wire
from tests.blackbox import undoing
from tests.blackbox.tours import as_job, changed, head, path_of, remember, walk_home
from tests.blackbox.two_houses import level, two_houses
from tests.blackbox.undoing import refused, untouched, update
from tests.house import House, wait_until

house = undoing.house


# What it answers


def test_what_came_back_and_how_to_bring_it_back_again(house: House) -> None:
    node = remember(house, "The kettle is blue", title="Kettle")
    before = house.notes()
    op = update(house, node, title="Red kettle", tier="core")
    after = house.notes()
    (done,) = house.json("undo", op[:8])["undone"]
    assert (done["op"], done["nodes"], done["merged"]) == (op, [node], [])
    assert done["changes"] == [{"node_id": node, "path": path_of(house, node), "title": "Kettle", "did": "restored"}]
    assert house.notes() == before
    said = house.git("show", "-s", "--format=%an%n%B", done["commit"])
    assert said.startswith("Ada Person\nUndo: Update: Red kettle\n")
    undone = house.json("history", "show", op)
    assert f"Ormah-Undoes: {undone['op']}\n" in said
    assert "Ormah-Kind: undo\n" in said
    assert undone["undone_by"] == done["commit"]

    told = house.ctl("undo", done["commit"][:8]).stdout
    assert re.search(r"restored: \S+  Red kettle", told)
    assert house.notes() == after
    again = re.search(r"ormahctl undo ([0-9a-f]{8})", told)
    assert again is not None
    assert house.ctl("undo", again[1]).returncode == 0
    assert house.notes() == before
    subjects = [op["subject"] for op in house.json("history", node) if op["kind"] == "undo"]
    assert subjects == ["Undo: Update: Red kettle", "Redo: Update: Red kettle", "Undo: Update: Red kettle"]
    walk_home(house)


# Force, removal, and ours after theirs


def test_a_memory_that_was_edited_since_is_removed_only_by_force(house: House) -> None:
    done = house.call("agent.remember", content="To be edited, then unsaid", title="Unsaid")
    update(house, done.node_id, title="Said anyway")
    error = refused(house, done.op, status=4, says="edited since, and undoing would remove it")
    assert "--force" in error["hint"]
    (conflict,) = error["data"]["conflicts"]
    assert (conflict["field"], conflict["theirs"], conflict["node_id"]) == ("note", None, done.node_id)
    forced = house.json("undo", done.op, "--force")["undone"][0]
    assert [change["did"] for change in forced["changes"]] == ["removed"]
    assert house.ctl("show", done.node_id).returncode == 3
    house.json("undo", forced["commit"])
    assert house.json("show", done.node_id)["title"] == "Said anyway"
    walk_home(house)


def test_what_was_forgotten_since_is_not_brought_back_by_undoing_an_update(house: House) -> None:
    node = remember(house, "Forgotten after an update", title="Gone")
    op = update(house, node, title="Going")
    forgotten = house.call("agent.forget", node_id=node).commit
    refused(house, op, status=4, says="was removed since")
    refused(house, op, "--force", status=4, says="was removed since")
    found = house.json("undo", op, forgotten)
    assert [one["op"] for one in found["undone"]] == [forgotten, op]
    assert house.json("show", node)["title"] == "Gone"
    walk_home(house)


def test_a_look_alike_never_receives_anothers_change(house: House) -> None:
    """The op's note is forgotten, and one that says the same is remembered where it stood: no op of the first applies."""
    text = "Looks exactly the same\n\nin all its lines\n\nto the last word"
    first = house.call("agent.remember", content=text, title="Twin", space="mirror")
    changed_op = update(house, first.node_id, content=text + "\n\nand one more", tags=["seen"])
    forgotten = house.call("agent.forget", node_id=first.node_id)
    twin = house.call("agent.remember", content=text + "\n\nand one more", title="Twin", space="mirror", tags=["seen"])
    assert twin.node_id != first.node_id
    before = untouched(house)
    refused(house, changed_op, status=4, says="was removed since")
    refused(house, first.op, status=4, says="nothing of it is left")
    assert untouched(house) == before
    # and where the twin took over the very place of the first
    file = house.vault / twin.path
    file.rename(house.vault / first.path)
    wait_until(lambda: house.call("agent.get", node_id=twin.node_id).path == first.path, "the twin is found there")
    walk_home(house)
    before = untouched(house)
    for op in (changed_op, forgotten.op):
        refused(house, op, status=4, says="was removed since|place taken by another file")
    assert untouched(house) == before
    (house.vault / first.path).rename(file)
    walk_home(house)
    house.json("undo", forgotten.op)
    house.json("undo", changed_op)
    assert b"and one more" in house.notes()[twin.path]
    assert b"and one more" not in house.notes()[first.path]
    walk_home(house)


def test_a_move_is_taken_back_only_from_where_it_led(house: House) -> None:
    node = remember(house, "A note on the move", title="Mover")
    walk_home(house)
    old = path_of(house, node)
    (house.vault / old).rename(house.vault / "Moved once.md")
    walk_home(house)
    moved = head(house)
    (house.vault / "Moved once.md").rename(house.vault / "Moved twice.md")
    walk_home(house)
    refused(house, moved, status=4, says="nothing of it is left")
    house.json("undo", head(house))
    house.json("undo", moved)
    assert path_of(house, node) == old
    walk_home(house)


def test_undo_merge_is_for_merges(house: House) -> None:
    keeper, loser = remember(house, "Kept of two", title="Kept"), remember(house, "Lost of two", title="Lost")
    walk_home(house)
    before = house.notes()
    commit = as_job(house, Kind.MERGE, changed(house, keeper, set={"title": "Both"}) | {path_of(house, loser): None},
                    job="duplicate_merger")  # fmt: skip
    (row,) = house.call("agent.merges").merges
    assert (row.id, row.commit, row.source) == (commit, commit, "job:duplicate_merger")
    assert "cosine .93" in row.reason
    assert (row.kept, row.kept_title, row.removed, row.removed_title) == (keeper, "Both", loser, "Lost")
    assert row.snapshot["content"].startswith("Lost of two")
    assert (row.undone_at, row.undone_by) == (None, None)
    update(house, keeper, tier="core")
    done = house.call("agent.undo_merge", merge_id=commit[:10])
    (row,) = house.call("agent.merges").merges
    assert (row.undone_by, row.undone_at) == (done.commit, house.call("history.show", op=done.commit).time)
    assert set(done.nodes) == {keeper, loser}
    assert "brought back: Lost" in done.text
    assert house.json("show", keeper)["title"] == "Kept"
    assert house.json("show", keeper)["tier"] == "core"
    assert house.notes()[path_of(house, loser)] == before[path_of(house, loser)]
    with pytest.raises(wire.Conflict, match="undone already"):
        house.call("agent.undo_merge", merge_id=commit)
    with pytest.raises(wire.NotFound):
        house.call("agent.undo_merge", merge_id=head(house))
    walk_home(house)


# Beside restarts, others, and other things in the repository


def test_many_at_once_undo_one_op_once(house: House) -> None:
    node = remember(house, "Fought over", title="Before the fight")
    op = update(house, node, title="In the fight")
    answers: list[str] = []

    def ask() -> None:
        try:
            answers.append(house.call("history.undo", ops=[op]).undone[0].op)
        except wire.Conflict as exc:
            answers.append(exc.code)

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == sorted([op, *["conflict"] * 5])
    assert house.json("show", node)["title"] == "Before the fight"
    walk_home(house)


@pytest.mark.soak  # the suite has ten minutes
def test_what_sync_brought_together_can_be_taken_back_and_undos_travel() -> None:
    with two_houses(ORMAH_LINKING_SIMILARITY="1.0") as (one, two, bare):
        node = one.call("agent.remember", content="Shared\n\nby both\n\nmachines", title="Shared").node_id
        one.json("sync", "setup", str(bare))
        two.json("sync", "setup", str(bare), "--yes")
        level(one, two)
        # both change it, in different places; a merge on one of them
        one.call("agent.update", node_id=node, title="Ours")
        op = two.call("agent.update", node_id=node, tier="core").op
        two.json("sync")
        before = one.notes()
        one.json("sync")
        sync = next(op for op in one.json("history") if op["kind"] == "sync")
        assert one.json("show", node)["tier"] == "core"
        one.json("undo", sync["op"])
        assert one.notes() == before
        walk_home(one)
        one.json("undo", one.json("history", "--limit", "1")[0]["op"])
        assert one.json("show", node)["tier"] == "core"
        # the other machine's op is undone here, and both know it
        done = one.json("undo", op)["undone"][0]
        assert one.json("show", node)["tier"] == "working"
        level(one, two)
        assert two.json("history", "show", op)["undone_by"] == done["commit"]
        assert two.ctl("undo", op).returncode == 4
        # both take the same op back before they sync: it is undone, and that is no conflict
        again = two.call("agent.update", node_id=node, tags=["both"]).op
        level(one, two)
        one.json("undo", again)
        two.json("undo", again)
        level(one, two)
        assert one.json("show", node)["tags"] == []
        walk_home(one)
