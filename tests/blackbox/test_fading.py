"""A memory fades and comes back, as a person sees it: commands, files, git, a restart, an index that is gone."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from tests.blackbox.tours import head, path_of, walk_home
from tests.house import House, open_house
from tests.tables import rows

OLD: list[dict[str, Any]] = rows(__file__, "old")  # fmt: skip


@pytest.fixture
def daemon() -> Iterator[House]:
    """Every day counts, and a fact has two weeks."""
    with open_house(ORMAH_DECAY_IDLE_SHARE="1", ORMAH_DECAY_DAYS="14") as house:
        house.start()
        yield house


def fill(house: House) -> dict[str, str]:
    """Ids by title."""
    lines = "\n".join(json.dumps(line) for line in OLD)
    file = house.home / "old.jsonl"
    file.write_text(lines + "\n")
    assert house.json("import", str(file))["added"] == len(OLD)
    kept = [json.loads(line) for line in house.ctl("export").stdout.splitlines()]
    house.age(22)
    return {one["title"]: one["id"] for one in kept if one["title"] in {line["title"] for line in OLD}}


def run(house: House, job: str = "decay_manager", *more: str) -> dict[str, Any]:
    (ran,) = house.json("jobs", "run", job, *more)
    assert isinstance(ran, dict)
    return ran


def tier(house: House, node_id: str) -> str:
    """From the file: looking at the memory would be a use."""
    said = re.search(r"^tier: (\w+)$", house.notes()[path_of(house, node_id)].decode(), re.MULTILINE)
    return said[1] if said else "working"


def test_it_fades_answers_still_and_comes_back(daemon: House) -> None:
    ids = fill(daemon)
    at = head(daemon)
    dry = run(daemon, "decay_manager", "--dry-run")
    assert (dry["proposals"], dry["applied"], dry["commits"], head(daemon)) == (2, 0, [], at)
    ran = run(daemon)
    assert (ran["proposals"], ran["applied"], ran["skipped"]) == (2, 2, 0)
    assert daemon.git("rev-list", "--reverse", f"{at}..HEAD").split() == ran["commits"]
    assert {title: tier(daemon, node_id) for title, node_id in ids.items()} == {
        "Printer": "archival", "Kettle": "archival", "Tea": "working", "Dublin": "working",
    }  # fmt: skip
    assert run(daemon)["proposals"] == 0
    assert daemon.git("status", "--porcelain") == ""

    daemon.stop()
    shutil.rmtree(daemon.index_dir)
    daemon.start()
    first = daemon.json("recall", "where does the printer stand")["results"][0]
    assert (first["id"], first["tier"]) == (ids["Printer"], "archival")
    assert run(daemon)["proposals"] == 0, "a recall always finds something: it brings nothing back"

    assert daemon.ctl("show", ids["Printer"][:8]).returncode == 0
    assert run(daemon)["applied"] == 1
    assert (tier(daemon, ids["Printer"]), tier(daemon, ids["Kettle"])) == ("working", "archival")
    kinds = [(op["kind"], op["source"]) for op in daemon.json("history", ids["Printer"])]
    assert kinds == [("promote", "job:decay_manager"), ("decay", "job:decay_manager"), ("import", "person")]
    assert run(daemon)["proposals"] == 0
    walk_home(daemon)
