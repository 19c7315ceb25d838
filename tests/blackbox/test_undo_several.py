"""`ormahctl undo` of several ops, of runs, of what a job did, and of parts of an op: one note, one edge."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

from ormahd.model.change import Kind
from ormahd.model.node import EdgeType, Tier
from ormahd.note.read import parse
from tests.blackbox import undoing
from tests.blackbox.tours import as_job, changed, edited, head, link, path_of, remember, walk_home
from tests.blackbox.undoing import refused, update
from tests.house import House

house = undoing.house


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
    # In the same second the two changes would have one `updated`, and the undo takes that of the first back.
    later = datetime.now(UTC).replace(microsecond=0) + timedelta(minutes=1)
    as_job(house, Kind.PROMOTE, changed(house, one, set={"confidence": 0.3, "updated": later}), job="other_job")
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
