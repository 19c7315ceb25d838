"""More than three files that a person made never go unasked; and `--dry-run` says what would be done."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.blackbox.tours import head, walk_home
from tests.house import House, open_house, wait_until


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    with open_house(ORMAH_VAULT_ADOPT="all") as found:
        found.start()
        yield found


def removed_and_brought_back(house: House, folder: str, count: int) -> tuple[str, dict[str, bytes]]:
    """The op that brought back files of the person's that the person had deleted, and their bytes: undoing it removes them."""
    (house.vault / folder).mkdir()
    files = [house.vault / folder / f"{folder} {number}.md" for number in range(count)]
    for file in files:
        file.write_text(f"{file.stem}, written by a person\n")
    wait_until(lambda: all(b"id: " in file.read_bytes() for file in files), "they are adopted")
    walk_home(house)
    held = {file.name: file.read_bytes() for file in files}
    (house.vault / folder).rename(house.home / folder)  # all at once, so that it is one op
    wait_until(lambda: house.git("ls-files", folder) == "", "the deletion is taken in")
    walk_home(house)
    done = house.json("undo", head(house))
    assert here(house, folder) == held
    return done["undone"][0]["undo_op"], held


def here(house: House, folder: str) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in (house.vault / folder).glob("*.md")}


def test_without_a_terminal_it_is_refused_with_number_names_and_the_way(house: House) -> None:
    op, held = removed_and_brought_back(house, "Refused", 5)
    before = head(house)
    done = house.ctl("undo", op)
    assert done.returncode == 2
    assert "5 files that you made" in done.stderr
    assert "Refused 0.md" in done.stderr
    assert "--yes" in done.stderr
    error = json.loads(house.ctl("--json", "undo", op).stderr)["error"]
    assert error["code"] == "unconfirmed"
    assert error["data"]["count"] == 5
    assert (head(house), here(house, "Refused")) == (before, held)
    would = house.json("undo", op, "--dry-run")
    assert would["dry_run"]
    assert {change["did"] for change in would["undone"][0]["changes"]} == {"removed"}
    assert would["undone"][0]["undo_op"] == ""
    said = house.ctl("undo", op, "--dry-run")
    assert (said.returncode, "would undo" in said.stdout, "removed:" in said.stdout) == (0, True, True)
    assert (head(house), here(house, "Refused")) == (before, held)
    house.json("undo", op, "--yes")
    assert here(house, "Refused") == {}


@pytest.mark.parametrize(("answer", "status"), [("n", 1), ("y", 0)])
def test_on_a_terminal_it_asks(house: House, answer: str, status: int) -> None:
    op, held = removed_and_brought_back(house, f"Asked {answer}", 4)
    leader, follower = pty.openpty()
    command = [sys.executable, "-m", "ormahctl", "undo", op]
    asking = subprocess.Popen(command, stdin=follower, stdout=follower, stderr=follower, env=house.env, cwd=house.home)
    os.close(follower)
    said = b""
    while b"[y/N]" not in said:
        said += os.read(leader, 4096)
    os.write(leader, answer.encode() + b"\n")
    assert asking.wait(120) == status
    os.close(leader)
    assert b"4 files that you made" in said
    assert here(house, f"Asked {answer}") == ({} if answer == "y" else held)


def test_up_to_three_files_and_files_of_ours_go_unasked(house: House) -> None:
    op, _ = removed_and_brought_back(house, "Few", 3)
    house.json("undo", op)
    assert here(house, "Few") == {}
    lines = "".join(
        json.dumps({"content": f"imported number {number}, a fact on its own"}) + "\n" for number in range(6)
    )
    (house.home / "import.jsonl").write_text(lines)
    run = house.json("import", str(house.home / "import.jsonl"))["run"]
    walk_home(house)
    would = house.json("undo", "--run", run, "--dry-run")
    assert sum(change["did"] == "removed" for one in would["undone"] for change in one["changes"]) == 6
    house.json("undo", "--run", run)
    assert not [data for data in house.notes().values() if b"imported number" in data]


def test_a_dry_run_of_several_ops_sees_each_after_the_newer_ones(house: House) -> None:
    node = house.call("agent.remember", content="first words of it").node_id
    for words in ("second words of it", "third words of it"):
        house.call("agent.update", node_id=node, content=words)
    ops = [op["op"] for op in house.json("history", node, "--no-diff")][:2]
    before = head(house)
    would = house.json("undo", *ops, "--dry-run")
    assert (len(would["undone"]), would["conflicts"]) == (2, [])
    assert head(house) == before
    house.call("agent.update", node_id=node, content="something else entirely")
    conflict = house.ctl("--json", "undo", ops[0], "--dry-run")
    assert conflict.returncode == 4
    assert json.loads(conflict.stdout)["conflicts"][0]["field"] == "content"


def test_a_dry_run_of_an_adoption_says_that_the_files_stay(house: House) -> None:
    file = house.vault / "Stays.md"
    file.write_text("It stays.\n")
    wait_until(lambda: b"id: " in file.read_bytes(), "it is adopted")
    walk_home(house)
    said = house.ctl("undo", head(house), "--dry-run")
    assert "left in the folder without Ormah's lines" in said.stdout
    assert b"id: " in file.read_bytes()


def test_a_job_never_removes_a_file_that_a_person_made(house: House) -> None:
    words = "The kestrel service keeps its queue in Postgres, and nothing else may write there."
    house.call("agent.remember", content=words, type="fact", space=None)
    alone = house.vault / "Kestrel.md"
    alone.write_text(words + "\n")
    twins = [house.vault / f"Twin {number}.md" for number in (1, 2)]
    for twin in twins:
        twin.write_text("The heron runs on port 8443 behind the proxy, with its own certificate.\n")
    wait_until(lambda: all(b"id: " in file.read_bytes() for file in (alone, *twins)), "they are adopted")
    walk_home(house)
    house.json("jobs", "run", "duplicate_merger")
    assert alone.exists(), "of the two the person's is kept"
    assert sum(b"kestrel service" in data for data in house.notes().values()) == 1
    assert all(twin.exists() for twin in twins), "of two of the person's none goes by itself"
