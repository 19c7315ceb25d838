"""`ormahctl undo` against a real daemon: which ops, which parts of them, what it refuses, and what it says (DESIGN 12)."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ormahd.core.node import EdgeType, Tier
from ormahd.core.note import parse
from ormahd.rpc import wire
from ormahd.vault.change import Kind
from tests.blackbox.test_sync import level, two_houses
from tests.blackbox.tours import as_job, changed, edited, head, link, path_of, remember, walk_home
from tests.house import House, open_house, wait_until


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    with open_house(ORMAH_VAULT_BUSY_WAIT_SECONDS="0.2") as found:
        found.start()
        yield found


def update(house: House, node_id: str, **fields: object) -> str:
    return house.call("agent.update", node_id=node_id, **fields).op


def untouched(house: House) -> tuple[str, dict[str, bytes]]:
    return head(house), house.notes()


def refused(house: House, *args: str, status: int, says: str) -> dict[str, Any]:
    """The undo ends with this status, says so with a hint, and changes nothing; its error."""
    before = untouched(house)
    done = house.ctl("--json", "undo", *args)
    assert done.returncode == status, done.stderr
    assert done.stdout == ""
    error: dict[str, Any] = json.loads(done.stderr)["error"]
    assert re.search(says, f"{error['message']} {error['hint']}"), error
    assert error["hint"] or status == 4
    assert untouched(house) == before
    assert house.git("status", "--porcelain") == ""
    return error


# What it answers


def test_what_came_back_and_how_to_bring_it_back_again(house: House) -> None:
    node = remember(house, "The kettle is blue", title="Kettle")
    before = house.notes()
    op = update(house, node, title="Red kettle", tier="core")
    after = house.notes()
    (done,) = house.json("undo", op[:20])["undone"]
    assert (done["op"], done["nodes"], done["merged"]) == (op, [node], [])
    assert done["changes"] == [{"node_id": node, "path": path_of(house, node), "title": "Kettle", "did": "restored"}]
    assert house.notes() == before
    said = house.git("show", "-s", "--format=%an%n%B", done["commit"])
    assert said.startswith("Ada Person\nUndo: Update: Red kettle\n")
    assert f"Ormah-Undoes: {op}\n" in said
    assert "Ormah-Kind: undo\n" in said
    assert house.json("history", "show", op)["undone_by"] == done["undo_op"]

    told = house.ctl("undo", done["undo_op"]).stdout
    assert re.search(r"restored: \S+  Red kettle", told)
    assert house.notes() == after
    again = re.search(r"ormahctl undo ([0-9a-f]{8})", told)
    assert again is not None
    assert house.ctl("undo", again[1]).returncode == 0
    assert house.notes() == before
    subjects = [op["subject"] for op in house.json("history", node, "--kind", "undo")]
    assert subjects == ["Undo: Update: Red kettle", "Redo: Update: Red kettle", "Undo: Update: Red kettle"]
    walk_home(house)


def test_an_agents_undo_has_its_name(house: House) -> None:
    node = remember(house, "A cup is an agent's")
    op = update(house, node, tier="core")
    done = house.call("history.undo", ops=[op], agent="claude-code")
    assert house.git("show", "-s", "--format=%an", done.undone[0].commit).strip() == "agent:claude-code"


def test_the_same_request_is_one_undo(house: House) -> None:
    op = update(house, remember(house, "Asked twice by one client"), tier="core")
    first = house.call("history.undo", ops=[op], request_id="undo-once")
    assert house.call("history.undo", ops=[op], request_id="undo-once") == first


# Several


def test_several_ops_newest_first_each_with_a_commit_of_its_own(house: House) -> None:
    node = remember(house, "The pan has a lid", title="Pan")
    before = house.notes()
    ops = [update(house, node, title=f"Pan {number}", content=f"The pan has {number} lids") for number in range(3)]
    start = head(house)
    done = house.json("undo", *ops)
    assert [one["op"] for one in done["undone"]] == ops[::-1]
    assert house.git("rev-list", "--count", f"{start}..HEAD").strip() == "3"
    assert house.notes() == before
    assert {op["run"] for op in house.json("history", "--limit", "3")} == {done["run"]}
    again = house.ctl("undo", "--run", done["run"])
    assert again.stdout.count("undone ") == 3
    assert parse(house.notes()[path_of(house, node)], "x").title == "Pan 2"
    walk_home(house)


def test_of_several_the_one_that_conflicts_is_left_alone_and_named(house: House) -> None:
    one, two = remember(house, "First of two", title="One"), remember(house, "Second of two", title="Two")
    first, second = update(house, one, title="Uno"), update(house, two, title="Due")
    update(house, one, title="Eins")
    found = house.json("undo", first, second, status=4)
    assert [each["op"] for each in found["undone"]] == [second]
    (conflict,) = found["conflicts"]
    assert (conflict["op"], conflict["node_id"], conflict["field"]) == (first, one, "title")
    assert (conflict["base"], conflict["ours"], conflict["theirs"]) == ("Uno", "Eins", "One")
    titles = {parse(data, path).title for path, data in house.notes().items()}
    assert {"Eins", "Two"} <= titles
    third = update(house, two, title="Zwei")
    told = house.ctl("undo", first, third)
    assert told.returncode == 4
    assert "undone " in told.stdout
    assert f"1 op was left alone, because of later changes: {first}" in told.stderr
    walk_home(house)


def test_everything_since_a_mark_with_what_was_undone_meanwhile(house: House) -> None:
    node = remember(house, "Back and forth", title="Before")
    walk_home(house)
    before, mark = house.notes(), head(house)
    op = update(house, node, title="After")
    undo = house.json("undo", op)["undone"][0]["undo_op"]
    redo = house.json("undo", undo)["undone"][0]["undo_op"]
    house.json("undo", op)
    refused(house, op, undo, status=4, says="undone already")
    ops = [each["op"] for each in house.json("history", "--limit", "4")]
    assert set(ops) > {op, undo, redo}
    done = house.json("undo", *ops)
    assert [each["op"] for each in done["undone"]] == ops
    assert house.notes() == before
    assert house.git("diff", "--stat", mark, "HEAD") == ""
    walk_home(house)


def test_all_of_an_import(house: House) -> None:
    before = house.notes()
    lines = [json.dumps({"content": f"thing number {number} of many", "space": "imported"}) for number in range(40)]
    run = house.json("import", "-", input="\n".join(lines))["run"]
    assert len(house.notes()) == len(before) + 40
    done = house.json("undo", "--run", run[:20])
    assert sum(len(one["nodes"]) for one in done["undone"]) == 40
    assert house.notes() == before
    again = house.json("undo", "--run", run)
    assert (again["undone"], {one["why"] for one in again["skipped"]}) == ([], {"it is undone already"})
    walk_home(house)


def test_all_that_a_job_did_since(house: House) -> None:
    one, two = remember(house, "Faded thing one"), remember(house, "Faded thing two")
    walk_home(house)
    before = house.notes()
    for node in (one, two):
        as_job(house, Kind.DECAY, changed(house, node, set={"tier": Tier.ARCHIVAL}), job="fader")
    as_job(house, Kind.PROMOTE, changed(house, one, set={"confidence": 0.3}), job="other_job")
    kept = house.notes()[path_of(house, one)]
    done = house.json("undo", "--job", "fader", "--since", "yesterday")
    assert len(done["undone"]) == 2
    assert house.notes()[path_of(house, two)] == before[path_of(house, two)]
    assert house.notes()[path_of(house, one)] == kept.replace(b"tier: archival", b"tier: working")
    assert house.ctl("undo", "--job", "fader", "--since", "yesterday").returncode == 0
    assert house.json("undo", "--job", "fader", "--since", "2999-01-01")["undone"] == []
    walk_home(house)


# Parts


def test_one_note_of_an_op_and_then_the_rest(house: House) -> None:
    one, two = remember(house, "Link me, one"), remember(house, "Link me, two")
    walk_home(house)
    before = house.notes()
    commit = as_job(
        house, Kind.LINK,
        changed(house, one, link=[link(house, EdgeType.SUPPORTS, two)])
        | changed(house, two, link=[link(house, EdgeType.PART_OF, one)]),
    )  # fmt: skip
    after = house.notes()
    part = house.json("undo", commit, "--node", one[:8])["undone"][0]
    assert part["nodes"] == [one]
    assert house.notes() == after | {path_of(house, one): before[path_of(house, one)]}
    shown = house.json("history", "show", commit)
    assert shown["undone_by"] is None
    assert f"Ormah-Undoes-Part: {shown['op']} {one}\n" in house.git("show", "-s", "--format=%B", part["commit"])
    refused(house, commit, "--node", one, status=4, says="this part .* is undone already")

    assert house.json("undo", part["undo_op"])["undone"][0]["nodes"] == [one]
    assert house.notes() == after
    house.json("undo", commit, "--node", one)
    whole = house.json("undo", commit)["undone"][0]
    assert whole["nodes"] == [two]
    assert house.notes() == before
    assert house.json("history", "show", commit)["undone_by"] == whole["undo_op"]
    walk_home(house)


def test_a_run_of_links_is_undone_edge_by_edge(house: House) -> None:
    one, two, three = (remember(house, f"Edge end {name}") for name in ("one", "two", "three"))
    walk_home(house)
    before = house.notes()
    path = path_of(house, one)
    commit = as_job(house, Kind.LINK, changed(
        house, one, link=[link(house, EdgeType.SUPPORTS, two), link(house, EdgeType.PART_OF, two), link(house, EdgeType.SUPPORTS, three)]
    ))  # fmt: skip
    file = house.vault / path
    file.write_bytes(edited(file.read_bytes()))
    walk_home(house)

    def edges() -> set[str]:
        return {
            edge.key for edge in parse(house.notes()[path], path).links if not edge.body and "related" not in edge.key
        }

    house.json("undo", commit, "--node", one, "--edge", f"supports:{two[:8]}")
    assert edges() == {f"part_of:{two[:8]}", f"supports:{three[:8]}"}
    refused(house, commit, "--node", one, "--edge", f"supports:{two}", status=4, says="undone already")
    house.json("undo", commit, "--node", one, "--edge", two)
    assert edges() == {f"supports:{three[:8]}"}
    assert b"A later word of mine." in house.notes()[path]
    house.json("undo", commit)
    assert house.notes() == before | {path: edited(before[path])}
    walk_home(house)


def test_the_only_edge_of_an_op_goes_as_if_it_was_never_there(house: House) -> None:
    one, two = remember(house, "Alone, one"), remember(house, "Alone, two")
    before = house.notes()
    op = house.call("agent.connect", source_id=one, target_id=two, edge="supports", weight=0.9, reason="so").op
    house.json("undo", op, "--node", one, "--edge", two)
    assert house.notes() == before
    gone = house.call("agent.connect", source_id=one, target_id=two, edge="supports", weight=0.9, reason="so").op
    with_edge = house.notes()
    removed = house.call("agent.connect", source_id=one, target_id=two, edge="supports", remove=True).op
    house.json("undo", removed, "--node", one, "--edge", f"supports:{two}")
    assert house.notes() == with_edge
    assert gone


def test_parts_that_there_are_not(house: House) -> None:
    one, two = remember(house, "Part, one"), remember(house, "Part, two")
    op = update(house, one, tier="core")
    refused(house, op, "--node", two, status=3, says="did not touch a memory")
    refused(house, op, "--node", one, "--edge", two, status=3, says="changed no edge")
    refused(house, op, "--node", one, "--edge", f"likes:{two}", status=2, says="no type of edge")
    refused(house, op, "--node", "..", status=2, says="no memory id")
    refused(house, op, "--edge", two, status=2, says="--node")
    refused(house, op, op[:25] + "0", "--node", one, status=2, says="exactly one")


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
    house.json("undo", forced["undo_op"])
    assert house.json("show", done.node_id)["title"] == "Said anyway"
    walk_home(house)


def test_what_was_forgotten_since_is_not_brought_back_by_undoing_an_update(house: House) -> None:
    node = remember(house, "Forgotten after an update", title="Gone")
    op = update(house, node, title="Going")
    forgotten = house.call("agent.forget", node_id=node).op
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


def test_nothing_is_left_of_what_was_taken_back_by_hand(house: House) -> None:
    done = house.call("agent.remember", content="Remembered and then forgotten")
    house.call("agent.forget", node_id=done.node_id)
    refused(house, done.op, status=4, says="nothing of it is left to undo")


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


def test_an_adoption_in_its_place_would_only_be_repeated(house: House) -> None:
    """The file was in the history already, without an id, by a commit of the person's."""
    file = house.vault / "Mine.md"
    text = b"A note that a person committed.\n\nIn two parts.\n"
    house.stop()
    file.write_bytes(text)
    house.git("add", "Mine.md")
    house.git("commit", "-qm", "mine, by hand")
    house.start()
    wait_until(lambda: file.read_bytes() != text, "it is adopted")
    walk_home(house)
    error = refused(house, head(house), status=4, says="would only be adopted again")
    assert "vault.adopt" in error["hint"]


def test_what_was_dropped_in_goes_again(house: House) -> None:
    file = house.vault / "Dropped.md"
    file.write_text("Dropped in.\n")
    wait_until(lambda: b"id: " in file.read_bytes(), "it is adopted")
    walk_home(house)
    adopted, commit = file.read_bytes(), head(house)
    assert house.json("undo", commit)["undone"][0]["changes"][0]["did"] == "removed"
    assert not file.exists()
    house.json("undo", head(house))
    assert file.read_bytes() == adopted
    walk_home(house)


def test_lines_of_feedback_are_taken_out_of_what_grew_since(house: House) -> None:
    path = ".ormah/feedback/2026-11.jsonl"
    one, two = (json.dumps({"id": f"f{number}", "signal": 1}).encode() + b"\n" for number in (1, 2))
    first = as_job(house, Kind.FEEDBACK, {path: one})
    second = as_job(house, Kind.FEEDBACK, {path: one + two})
    file = house.vault / path
    house.json("undo", first)
    assert file.read_bytes() == two
    house.json("undo", second)
    assert file.read_bytes() == b""
    house.json("undo", head(house))
    assert file.read_bytes() == two
    third = as_job(house, Kind.STRENGTH, {".ormah/other.jsonl": one})
    house.json("undo", third)
    assert not (house.vault / ".ormah/other.jsonl").exists()
    walk_home(house)


def test_a_merge_of_two_histories_goes_back_to_the_first(house: House) -> None:
    """What sync does: the result is the base, its first parent is wanted."""
    node, other = remember(house, "Synced from elsewhere", title="Synced"), remember(house, "Changed here meanwhile")
    walk_home(house)
    branch = house.git("branch", "--show-current").strip()
    house.stop()
    house.git("switch", "-qc", "elsewhere")
    file = house.vault / path_of(house, node)
    file.write_bytes(edited(file.read_bytes()))
    house.git("commit", "-qam", "there")
    house.git("switch", "-q", branch)
    here = house.vault / path_of(house, other)
    here.write_bytes(here.read_bytes() + b"\nhere\n")
    house.git("commit", "-qam", "here")
    before = house.notes()
    trailers = "Ormah-Op: 01m7zzzzzzzzzzzzzzzzzzzzz0\nOrmah-Kind: sync\nOrmah-Source: system:self"
    house.git("merge", "-q", "--no-ff", "-m", f"Sync: one note\n\n{trailers}", "elsewhere")
    house.start()
    walk_home(house)
    (done,) = house.json("undo", "01m7zzzzzzzzzzzzzzzzzzzzz0")["undone"]
    assert done["nodes"] == [node]
    assert house.notes() == before
    walk_home(house)


def test_undo_merge_is_for_merges(house: House) -> None:
    keeper, loser = remember(house, "Kept of two", title="Kept"), remember(house, "Lost of two", title="Lost")
    walk_home(house)
    before = house.notes()
    commit = as_job(house, Kind.MERGE, changed(house, keeper, set={"title": "Both"}) | {path_of(house, loser): None},
                    job="duplicate_merger")  # fmt: skip
    update(house, keeper, tier="core")
    done = house.call("agent.undo_merge", merge_id=commit[:10])
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


# What it refuses


def test_ops_that_there_are_not(house: House) -> None:
    refused(house, "ffffffffffffffff", status=3, says="no op begins with")
    refused(house, "zzz", status=2, says="no op and no commit")
    refused(house, "../..", status=2, says="no op and no commit")
    refused(house, "HEAD", status=3, says="no op begins with")
    ops = [update(house, remember(house, f"Ambiguous {number}"), tier="core") for number in range(2)]
    same = next(at for at in range(26) if ops[0][at] != ops[1][at])
    error = refused(house, ops[0][:same], status=2, says="names .* ops")
    assert set(error["data"]["ids"]) >= set(ops)
    refused(house, ops[0], "ffffffffffff", status=3, says="no op begins with")
    refused(house, "--run", "nosuchrun", status=3, says="there is no run")
    refused(house, "--job", "nosuchjob", "--since", "yesterday", status=3, says="ever changed anything")
    refused(house, "--job", "nosuchjob", status=2, says="since")
    refused(house, "--since", "yesterday", status=2, says="run")
    refused(house, status=2, says="name ops")
    refused(house, ops[0], "--run", ops[1], status=2, says="name ops")


def test_commits_by_hand_are_gits(house: House) -> None:
    (house.vault / "by hand.md").write_text("---\nid: 0badc0de-0000-4000-8000-000000000001\n---\nby hand\n")
    house.git("add", "-A")
    house.git("commit", "-qm", "by hand")
    walk_home(house)
    error = refused(house, head(house), status=4, says="made by hand")
    assert f"revert {head(house)[:8]}" in error["hint"]


def test_what_is_undone_already_and_what_cannot_be(house: House) -> None:
    op = update(house, remember(house, "Undone once"), tier="core")
    by = house.json("undo", op)["undone"][0]["undo_op"]
    error = refused(house, op, status=4, says=f"is undone already, by {by}")
    assert error["data"]["undone_by"] == by
    reverted = update(house, remember(house, "Reverted by hand"), tier="core")
    house.git("revert", "--no-edit", "HEAD")
    walk_home(house)
    refused(house, reverted, status=4, says=f"is undone already, by {head(house)}")
    first = house.git("rev-list", "--max-parents=0", "HEAD").strip()
    refused(house, first, status=4, says="the vault's beginning")


def test_purges_and_what_sync_only_moved_forward(house: House) -> None:
    node = remember(house, "Kinds that have no way back")
    purge = as_job(house, Kind.PURGE, changed(house, node, set={"tier": Tier.CORE}))
    refused(house, purge, status=4, says="gone from the history")
    sync = as_job(house, Kind.SYNC, changed(house, node, set={"tier": Tier.WORKING}))
    refused(house, sync, status=4, says="brought nothing together")


def test_a_note_that_is_being_edited_is_not_touched() -> None:
    """Typing, not yet at rest: refused. At rest but not yet taken in: it is taken in first, as an edit."""
    with open_house(ORMAH_VAULT_QUIET_SECONDS="3600") as house:
        house.start()
        node = house.call("agent.remember", content="Being\n\nedited\n\nnow", title="Edited").node_id
        op = update(house, node, title="Updated")
        file = house.vault / path_of(house, node)
        typed = file.read_bytes() + b"\ntyped\n"
        file.write_bytes(typed)
        done = house.ctl("undo", op)
        assert done.returncode == 4
        assert "has changes that are not committed yet" in done.stderr
        assert "wait, or commit it" in done.stderr
        (conflict,) = json.loads(house.ctl("--json", "undo", op).stderr)["error"]["data"]["conflicts"]
        assert (conflict["field"], conflict["node_id"]) == ("uncommitted", node)
        file.unlink()
        assert "not committed yet" in house.ctl("undo", op).stderr
        file.write_bytes(typed)
        house.git("commit", "-qam", "typed by hand")
        assert house.json("undo", op)["undone"][0]["merged"] == [node]
        note = parse(file.read_bytes(), "x")
        assert (note.title, note.content.endswith("typed")) == ("Edited", True)


def test_an_edit_at_rest_is_taken_in_on_the_way(house: House) -> None:
    node = remember(house, "Edited just before", title="Just")
    op = update(house, node, title="Justly")
    file = house.vault / path_of(house, node)
    file.write_bytes(edited(file.read_bytes()))
    wait_until(lambda: house.ctl("undo", op).returncode == 0, "undone as soon as the file rests")
    note = parse(file.read_bytes(), "x")
    assert (note.title, note.content.endswith("A later word of mine.")) == ("Just", True)
    walk_home(house)


@pytest.mark.parametrize("what", ["index.lock", "MERGE_HEAD", "rebase-merge"])
def test_while_git_is_held_nothing_happens_and_nothing_follows(house: House, what: str) -> None:
    op = update(house, remember(house, f"While {what} is there"), tier="core")
    walk_home(house)
    blocker = house.vault / ".git" / what
    blocker.mkdir() if what == "rebase-merge" else blocker.write_text(head(house))
    before = house.notes(), head(house)
    try:
        done = house.ctl("--json", "undo", op)
        assert done.returncode == 75
        error = json.loads(done.stderr)["error"]
        assert (error["code"], error["data"]["stored"]) == ("vault_busy", False)
        assert not list((house.vault / ".ormah/intent").glob("*.json"))
    finally:
        blocker.rmdir() if what == "rebase-merge" else blocker.unlink()
    house.call("agent.remember", content=f"Something after {what}")  # what had waited would be written before this
    assert head(house) != before[1]
    assert house.git("log", "-1", "--format=%s", f"{before[1]}..HEAD").startswith("Remember: ")
    assert {path: house.notes()[path] for path in before[0]} == before[0]
    assert house.json("undo", op)["undone"][0]["op"] == op


def test_conflicts_are_shown_with_their_three_versions(house: House) -> None:
    node = remember(house, "The door is open", title="Door")
    op = update(house, node, title="Red door", content="The door is shut\n\nand locked")
    update(house, node, title="Green door", content="The door is ajar\n\nand locked")
    done = house.ctl("undo", op)
    assert done.returncode == 4
    for line in (
        "the op left    Red door", "today          Green door", "before the op  Door",
        "- The door is shut", "+ The door is ajar", "+ The door is open", "nothing was changed", f"ormahctl edit {node[:8]}",
    ):  # fmt: skip
        assert line in done.stderr
    walk_home(house)


def test_after_a_restart_it_is_all_the_same(house: House) -> None:
    node = remember(house, "Before the restart", title="Before")
    op = update(house, node, title="After")
    house.restart()
    assert house.json("undo", op)["undone"][0]["nodes"] == [node]
    house.git("fsck", "--strict", "--no-dangling")
    walk_home(house)
    assert Path(house.vault, path_of(house, node)).read_bytes().count(b"title: Before") == 1


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


def test_inside_a_repository_of_the_persons_own_nothing_else_is_touched() -> None:
    with open_house() as house:
        house.vault.mkdir()
        (house.vault / "code.py").write_text("1\n")
        for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "mine"]):
            house.git(*words)
        house.start()
        node = house.call("agent.remember", content="Among code", title="Among").node_id
        before = house.notes()
        op = update(house, node, title="Amidst")
        (house.vault / "code.py").write_text("2\n")
        house.git("add", "code.py")
        (house.vault / "code.py").write_text("3\n")
        house.json("undo", op)
        assert house.notes() == before
        assert house.git("status", "--porcelain") == "MM code.py\n"
        assert (house.vault / "code.py").read_text() == "3\n"
        mine = house.git("log", "--format=%H", "--grep=^mine$").strip()
        assert house.ctl("undo", mine).returncode == 4


def test_a_broken_note_that_has_the_id_is_not_doubled(house: House) -> None:
    node = remember(house, "Broken after it was forgotten", title="Broken")
    text = (house.vault / path_of(house, node)).read_text()
    forgotten = house.call("agent.forget", node_id=node).op
    broken = house.vault / "kept by hand.md"
    broken.write_text(text.replace("tier: working", "tier: [half"))
    walk_home(house)
    refused(house, forgotten, status=4, says="has its id taken by kept by hand.md")
    broken.unlink()
    walk_home(house)
    house.json("undo", forgotten)
    assert house.json("show", node)["title"] == "Broken"
    walk_home(house)


@pytest.mark.soak  # the suite has ten minutes
def test_what_sync_brought_together_can_be_taken_back_and_undos_travel() -> None:
    with two_houses(ORMAH_LINKING_SIMILARITY="1.0") as (one, two, bare):
        node = one.call("agent.remember", content="Shared\n\nby both\n\nmachines", title="Shared").node_id
        one.json("sync", "setup", str(bare))
        two.json("sync", "setup", str(bare))
        level(one, two)
        # both change it, in different places; a merge on one of them
        one.call("agent.update", node_id=node, title="Ours")
        op = two.call("agent.update", node_id=node, tier="core").op
        two.json("sync")
        before = one.notes()
        one.json("sync")
        (sync,) = one.json("history", "--kind", "sync", "--limit", "1")
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
        assert two.json("history", "show", op)["undone_by"] == done["undo_op"]
        assert two.ctl("undo", op).returncode == 4
        # both take the same op back before they sync: it is undone, and that is no conflict
        again = two.call("agent.update", node_id=node, tags=["both"]).op
        level(one, two)
        one.json("undo", again)
        two.json("undo", again)
        level(one, two)
        assert one.json("show", node)["tags"] == []
        walk_home(one)
