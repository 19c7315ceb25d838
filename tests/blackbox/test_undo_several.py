"""`ormahctl undo` of several ops, of runs, of what a job did, and of parts of an op: one note, one edge."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

from ormahd.model.change import Kind
from ormahd.model.node import Tier
from ormahd.note.read import parse
from tests.blackbox import undoing
from tests.blackbox.tours import as_job, changed, head, path_of, remember, walk_home
from tests.blackbox.undoing import update
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
    assert "1 change was left alone, because of later ones" in told.stderr
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
