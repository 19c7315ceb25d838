"""A person's edit that destroyed a note's frontmatter: `undo` takes it back, and every hint names something that is there."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.blackbox import undoing
from tests.blackbox.tours import path_of, remember
from tests.blackbox.undoing import update
from tests.house import House, save, wait_until

house = undoing.house


def broken(house: House, node: str, head: str) -> tuple[Path, str]:
    """Replace the note's frontmatter by `head`. Return the file and the op that committed the edit."""
    file = house.vault / path_of(house, node)
    save(file, head + file.read_text().split("---\n", 2)[2])
    subject = f"Edit: {file.stem}"
    wait_until(lambda: house.git("log", "-1", "--format=%s").strip() == subject, "the edit is committed")
    wait_until(lambda: house.ctl("show", node).returncode == 3, "there is no such memory any more")
    return file, house.json("history", "-n", "1")[0]["op"]


@pytest.mark.parametrize("head", ["---\nid: [oops\ntype fact\n---\n", "---\n", "---\n\0: {\n---\n"])
def test_the_edit_is_taken_back_and_done_again(house: House, head: str) -> None:
    node = remember(house, "Kestrels nest in the tower.", title="Kestrels")
    before = house.notes()
    file, op = broken(house, node, head)
    spoilt = file.read_bytes()
    (done,) = house.json("undo", op)["undone"]
    assert [(one["node_id"], one["did"]) for one in done["changes"]] == [(node, "restored")]
    assert house.notes() == before
    assert house.json("show", node)["title"] == "Kestrels"
    assert house.json("verify")["differences"] == []
    house.json("undo", done["commit"])
    assert file.read_bytes() == spoilt
    assert house.json("verify")["differences"] == []
    house.json("undo", house.json("history", "-n", "1")[0]["op"])
    assert house.notes() == before


def test_an_older_op_names_the_edit_that_comes_first(house: House) -> None:
    node = remember(house, "Merlins nest on the ground.", title="Merlins")
    older = update(house, node, title="Merlin")
    before = house.notes()
    broken(house, node, "---\n")
    refused = house.ctl("undo", older)
    assert refused.returncode == 4
    assert "is no readable note since" in refused.stderr
    hint = re.search(r"ormahctl (history [0-9a-f]{8})$", refused.stderr.strip())
    assert hint is not None, refused.stderr
    newest = house.json(*hint[1].split())[0]
    house.json("undo", newest["op"])
    assert house.notes() == before
    house.json("undo", older)
    assert house.json("show", node)["title"] == "Merlins"


def bare(house: House, node: str) -> str:
    """Replace the whole file by a text, and return the op that committed the edit, with frontmatter written again."""
    file = house.vault / path_of(house, node)
    save(file, "plain text\n")
    subject = f"Edit: {file.stem}"
    wait_until(lambda: house.git("log", "-1", "--format=%s").strip() == subject, "the edit is committed")
    assert f"id: {node}" in file.read_text()
    return str(house.json("history", "-n", "1")[0]["op"])


def test_a_memory_that_lost_its_frontmatter_stays_a_memory(house: House) -> None:
    node = remember(house, "Hobbies hunt at dusk.", title="Hobbies")
    before = house.notes()
    (done,) = house.json("undo", bare(house, node))["undone"]
    assert [one["did"] for one in done["changes"]] == ["restored"]
    assert house.notes() == before
    file = house.vault / path_of(house, node)
    save(file, file.read_text().replace("dusk", "dawn"))
    wait_until(lambda: house.git("log", "-1", "--format=%s").strip() == "Edit: Hobbies", "its next edit is committed")
    assert update(house, node, tier="core")
    assert house.json("verify")["differences"] == []


def test_what_came_after_the_loss_is_kept(house: House) -> None:
    node = remember(house, "Buzzards circle over the field.", title="Buzzards")
    content = house.json("show", node)["content"]
    op = bare(house, node)
    update(house, node, add_tags=["later"])
    house.json("undo", op)
    shown = house.json("show", node)
    assert (shown["content"], shown["title"], shown["tags"]) == (content, "Buzzards", ["later"])


def test_an_emptied_note_is_named_with_the_way_back(house: House) -> None:
    node = remember(house, "Ospreys fish in the lake.", title="Ospreys")
    path = path_of(house, node)
    before = house.notes()
    save(house.vault / path, "")

    def named() -> list[dict[str, str]]:
        found = json.loads(house.ctl("--json", "doctor").stdout)["findings"]
        return [one for one in found if one["path"] == path]

    (found,) = wait_until(named, "doctor names the empty file")
    assert "it is empty" in found["what"]
    house.git(*found["mend"].rpartition("git ")[2].split())
    assert house.notes() == before
    wait_until(lambda: house.ctl("show", node).returncode == 0, "the memory is there again")
    wait_until(lambda: not named(), "doctor is content")
