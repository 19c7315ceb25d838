"""The linker and the clusterer through a real daemon: an import becomes a graph, and whoever asks sees it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from ormahd.note.read import parse
from tests.blackbox.tours import edited, head, path_of, walk_home
from tests.house import House, open_house

BOAT = "the blue boat in the old harbour has {} sails and one mast"


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    with open_house(ORMAH_JOBS_ENABLED="false") as found:
        found.start()
        yield found


def store(house: House, *memories: dict[str, Any]) -> dict[str, str]:
    done = house.json("import", "-", input="\n".join(json.dumps(memory) for memory in memories))
    assert done["added"] == len(memories), done
    found = {parse(data, path).title: parse(data, path).id for path, data in house.notes().items()}
    return {memory["title"]: str(found[memory["title"]]) for memory in memories}


def run(house: House, job: str, *more: str) -> dict[str, Any]:
    (ran,) = [one for one in house.json("jobs", "run", job, *more) if one["job"] == job]
    assert ran.get("error") is None, ran
    return dict(ran)


def connections(house: House, node_id: str) -> list[tuple[str, str]]:
    """(type, other end) of every edge that touches the memory."""
    found = house.json("show", node_id)["connections"]
    return [(edge["edge"], edge["id"]) for way in ("out", "in") for edge in found[way]]


def test_an_import_is_linked_and_taken_back(house: House) -> None:
    ids = store(
        house, *({"title": f"Boat {name}", "content": BOAT.format(name), "space": "sea"} for name in ("two", "three"))
    )
    before, start = house.notes(), head(house)
    assert run(house, "auto_linker", "--dry-run")["proposals"] == 1
    assert (head(house), house.notes()) == (start, before)
    ran = run(house, "auto_linker")
    (commit,) = ran["commits"]
    assert (ran["proposals"], ran["applied"], ran["skipped"]) == (1, 1, 0)
    one, two = ids.values()
    assert connections(house, one) == [("related_to", two)]
    assert connections(house, two) == [("related_to", one)]
    (op,) = house.json("history", "--job", "auto_linker")
    assert (op["subject"], op["kind"], op["source"]) == ("Link 1 pair of memories", "link", "job:auto_linker")
    assert run(house, "auto_linker")["proposals"] == 0
    changed = [node for node in (one, two) if house.notes()[path_of(house, node)] != before[path_of(house, node)]]
    assert len(changed) == 1
    file = house.vault / path_of(house, changed[0])
    file.write_bytes(edited(file.read_bytes()))
    walk_home(house)
    house.git("revert", "--no-edit", commit)
    walk_home(house)
    assert house.notes() == before | {path_of(house, changed[0]): edited(before[path_of(house, changed[0])])}
    assert connections(house, one) == []


def test_who_nobody_placed_is_placed_and_global_on_purpose_is_not(house: House) -> None:
    ids = store(house, {"title": "Anchor", "content": "Iron anchors hold", "space": "ships"},
                {"title": "Rope", "content": "Hemp ropes rot", "space": "ships"})  # fmt: skip
    links = [arg for node in ids.values() for arg in ("--link", f"supports:{node}")]
    nowhere = house.json("remember", "Knots slip when wet", "--title", "Knots", *links)["id"]
    everywhere = house.json("remember", "Always check twice", "--title", "Twice", "--global", *links)["id"]
    once = house.json("remember", "Never in a hurry", "--title", "Hurry", "--space", "ships", *links)["id"]
    house.json("update", once, "--global")
    sent = house.call("agent.remember", content="Sent with null", title="Null", space=None,
                      links=list(ids.values())).node_id  # fmt: skip
    (absent,) = store(house, {"title": "Absent", "content": "Imported without a space", "space": None}).values()
    assert b"global: true" not in house.notes()[path_of(house, absent)], "nobody said so"
    kept = {node: house.notes()[path_of(house, node)] for node in (everywhere, once, sent)}
    assert all(b"\nglobal: true\n" in data for data in kept.values())
    assert b"global: true" not in house.notes()[path_of(house, nowhere)]
    (commit,) = run(house, "auto_cluster")["commits"]
    assert house.json("show", nowhere)["space"] == "ships"
    assert {node: house.notes()[path_of(house, node)] for node in kept} == kept
    assert run(house, "auto_cluster")["proposals"] == 0

    lines = [json.loads(line) for line in house.ctl("export").stdout.splitlines()]
    marked = {line["id"] for line in lines if line.get("global")}
    assert marked == set(kept)
    with open_house() as other:
        other.start()
        text = "\n".join(json.dumps(line) for line in lines if line["id"] in {everywhere, nowhere})
        other.json("import", "-", input=text)
        assert b"\nglobal: true\n" in other.notes()[path_of(other, everywhere)]
        assert b"\nspace: ships\n" in other.notes()[path_of(other, nowhere)]

    house.json("undo", commit)
    assert house.json("show", nowhere)["space"] is None
    house.json("update", everywhere, "--space", "ships")
    assert b"global: true" not in house.notes()[path_of(house, everywhere)]
    walk_home(house)


def test_a_run_right_after_the_start_does_not_find_nobody_near() -> None:
    with open_house(ORMAH_JOBS_ENABLED="false") as house:
        house.start()
        store(house, *({"title": name, "content": BOAT.format(name)} for name in ("two", "three")))
        house.stop()
        house.start(phase="")
        assert run(house, "auto_linker")["applied"] == 1
