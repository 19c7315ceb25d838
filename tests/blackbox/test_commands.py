"""Commands against a real daemon: one memory from its first word to its last, and looking back on it."""

from __future__ import annotations

import json
import re
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.tables import rows

if TYPE_CHECKING:
    from pathlib import Path

    from tests.blackbox.conftest import House


def test_the_life_of_a_memory_by_commands(shared: House, tmp_path: Path) -> None:
    made = shared.json(
        "remember", "The kettle is blue and holds two litres", "--type", "fact", "--title", "The kettle", "--tag", "kitchen",
        "--space", "home", "--tier", "core", "--confidence", "0.8",
    )  # fmt: skip
    assert made["short_id"] == made["id"][:8]
    assert (shared.vault / made["path"]).is_file()
    assert "Ormah-Source: person" in shared.git("show", "-s", made["commit"])

    found = shared.json("recall", "blue kettle", "--space", "home")
    assert found["results"][0]["id"] == made["id"]
    assert found["results"][0]["origin"] == "person"
    assert "1. The kettle" in shared.ctl("recall", "blue kettle").stdout

    node = shared.json("show", made["short_id"])
    assert (node["type"], node["tier"], node["space"], node["tags"]) == ("fact", "core", "home", ["kitchen"])
    assert (node["confidence"], node["path"], node["source"]) == (0.8, made["path"], "person")
    assert set(node["connections"]) == {"out", "in"}

    changed = shared.json("update", made["short_id"], "--content", "-", "--tag", "red", "--untag", "kitchen", "--clear", "title",
                          "--global", input="The kettle is red now")  # fmt: skip
    assert (changed["content"], changed["tags"], changed["title"], changed["space"]) == (
        "The kettle is red now",
        ["red"],
        None,
        None,
    )
    assert changed["commit"] != made["commit"]

    other = shared.json("remember", "Tea needs boiling water", "--link", f"supports:{made['short_id']}")
    assert [edge["edge"] for edge in other["links"]][:1] == ["supports"]
    linked = shared.json(
        "connect", made["short_id"], "depends_on", other["short_id"], "--weight", "0.7", "--reason", "obviously"
    )
    edge = next(edge for edge in linked["connections"]["out"] if edge["edge"] == "depends_on")
    assert (edge["id"], edge["weight"], edge["reason"]) == (other["id"], 0.7, "obviously")
    again = shared.json("connect", made["short_id"], "depends_on", other["short_id"], "--weight", "0.9")
    edge = next(edge for edge in again["connections"]["out"] if edge["edge"] == "depends_on")
    assert (edge["weight"], edge["reason"]) == (0.9, "obviously"), "an edge keeps its reason"
    shared.json("connect", made["short_id"], "depends_on", other["short_id"], "--remove")

    assert shared.json("outdated", other["short_id"], "--reason", "cold brew")["outdated_reason"] == "cold brew"
    assert other["id"] not in [hit["id"] for hit in shared.json("recall", "boiling water for tea")["results"]]
    assert shared.json("outdated", other["short_id"], "--revoke")["valid_until"] is None

    assert shared.json("forget", other["short_id"])["id"] == other["id"]
    assert shared.ctl("show", other["short_id"]).returncode == 3

    kinds = [op["kind"] for op in shared.json("history", made["short_id"])]
    assert kinds[-1] == "remember"
    assert {"update", "link"} <= set(kinds)
    newest = shared.json("history", "--limit", "1")
    assert [op["kind"] for op in newest] == ["forget"]
    assert {"op", "commit", "time", "kind", "source", "subject", "nodes", "undone_by"} <= set(newest[0])
    assert re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d  [0-9a-f]{8}  forget +person +\S", shared.ctl("history").stdout)


def test_a_secret_is_taken_out_before_it_is_stored(shared: House) -> None:
    done = shared.ctl("remember", "the key is AKIAIOSFODNN7QWERTYU, keep it", "--verbose")
    assert done.returncode == 0, done.stderr
    assert "secret: taken out" in done.stderr
    path = done.stdout.splitlines()[1].strip()
    assert "AKIAIOSFODNN7QWERTYU" not in (shared.vault / path).read_text()


def test_two_projects_of_one_name_have_two_spaces(shared: House) -> None:
    one, other = shared.home / "acme" / "pot", shared.home / "globex" / "pot"
    for folder in (one, other):
        folder.mkdir(parents=True)
        subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
        address = f"git@git.example.org:{folder.parent.name}/pot.git"
        subprocess.run(["git", "remote", "add", "origin", address], cwd=folder, check=True)
    assert shared.json("remember", "the lid is blue", cwd=one)["space"] == "pot"
    assert shared.json("remember", "the lid is green", cwd=other)["space"] == "pot (globex)"
    found = shared.json("spaces", cwd=other)
    assert (found["here"], found["project"]) == ("pot (globex)", "git.example.org/globex/pot")
    known = {space["space"]: (space["memories"], space["projects"]) for space in found["spaces"]}
    assert known["pot"] == (1, ["git.example.org/acme/pot"])
    assert known["pot (globex)"] == (1, ["git.example.org/globex/pot"])
    said = shared.ctl("spaces", "--here", "pan", cwd=other)
    assert said.stdout == "the project here (git.example.org/globex/pot) belongs to the space pan\n"
    # an agent's commands belong to the project that its program names, or in which its session began
    assert shared.json("remember", "the lid is red", cwd=one, env={"CLAUDE_PROJECT_DIR": str(other)})["space"] == "pan"
    begun = json.dumps({"session_id": "pan-1", "cwd": str(other), "prompt": "which lid is it?"}).encode()
    shared.ctl("hook", "UserPromptSubmit", input=begun, cwd=other)
    assert (
        shared.json("recall", "lid", cwd=one, env={"CLAUDE_CODE_SESSION_ID": "pan-1"})["results"][0]["space"] == "pan"
    )
    shown = shared.ctl("spaces", cwd=shared.home).stdout
    assert "git.example.org/acme/pot" in shown
    assert shown.endswith("here is no project: what is remembered here is global\n")
    assert shared.ctl("spaces", "--here", "x", cwd=shared.home).returncode == 2
    assert shared.ctl("spaces", "--here", "global", cwd=one).returncode == 2


def test_the_space_comes_from_the_option_the_variable_or_the_place(shared: House) -> None:
    project = shared.home / "teapot"
    project.mkdir(exist_ok=True)
    assert shared.json("remember", "made where I am", cwd=project)["space"] == "teapot"
    assert shared.json("remember", "made by variable", cwd=project, env={"ORMAH_SPACE": "kettle"})["space"] == "kettle"
    assert (
        shared.json("remember", "made by option", "--space", "cup", cwd=project, env={"ORMAH_SPACE": "kettle"})["space"]
        == "cup"
    )
    assert shared.json("remember", "made for all", "--global", cwd=project)["space"] is None
    for number, name in enumerate(("global", "Global", " GLOBAL ")):
        made = shared.json("remember", f"of no project {number}", "--space", name, cwd=project)
        assert made["space"] is None
        assert shared.json("update", made["id"], "--space", "cup")["space"] == "cup"
        assert shared.json("update", made["id"], "--space", name)["space"] is None
    found = shared.json("recall", "made by", "--space", "global", cwd=project)["results"]
    assert {hit["space"] for hit in found} == {None}
    about = shared.json("remember", "The user drinks tea.", "--about-self", cwd=project)
    assert about["space"] is None
    assert "global: true" in (shared.vault / about["path"]).read_text()
    named = shared.json("remember", "The user brews here.", "--about-self", "--space", "cup", cwd=project)
    assert named["space"] == "cup"


def test_the_same_memory_is_not_stored_twice(shared: House) -> None:
    first = shared.json("remember", "said once", "--global")
    again = shared.json("remember", "said once", "--global")
    assert (again["id"], again["existing"]) == (first["id"], True)
    assert "known already" in shared.ctl("remember", "said once", "--global").stdout


@pytest.mark.parametrize(("args", "status"), rows(__file__, "errors_name_the_thing_and_the_mend"))
def test_errors_name_the_thing_and_the_mend(shared: House, args: list[str], status: int) -> None:
    done = shared.ctl(*args)
    assert done.returncode == status, done.stderr
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr


def test_hostile_texts_reach_the_terminal_harmless(shared: House) -> None:
    made = shared.json(
        "remember", "-", "--title", "evil \x1b[2J kettle\x07", input="evil \x1b]0;owned\x07 \u202e text\x9b1m"
    )
    for args in (["recall", "evil kettle"], ["show", made["short_id"]], ["history"]):
        done = shared.ctl(*args)
        assert done.returncode == 0, done.stderr
        assert not set(done.stdout) & set("\x1b\x07\u202e\x9b")


def test_an_edit_is_taken_in_as_the_persons_own(shared: House) -> None:
    made = shared.json("remember", "The kettle is blue")
    script = shared.home / "edit.sh"
    script.write_text('#!/bin/sh\nsed -i.bak s/blue/vermilion/ "$1" && rm "$1.bak"\n')
    script.chmod(0o755)
    edited = shared.json("edit", made["short_id"], env={"EDITOR": str(script)})
    assert edited["content"] == "The kettle is vermilion"
    assert edited["changed"] is True
    assert "Ada Person" in shared.git("show", "-s", "--format=%an", edited["commit"])
    assert shared.json("recall", "vermilion")["results"][0]["id"] == made["id"]


def test_an_edit_that_breaks_the_note_says_so(shared: House) -> None:
    made = shared.json("remember", "The kettle is blue")
    script = shared.home / "edit.sh"
    script.write_text("#!/bin/sh\nprintf -- '---\\nid: [\\n' > \"$1\"\n")
    script.chmod(0o755)
    done = shared.ctl("edit", made["short_id"], env={"EDITOR": str(script)})
    assert done.returncode == 5, done.stderr
    assert "cannot be read as a note" in done.stderr


def test_stats_verify_rebuild_and_doctor(daemon: House) -> None:
    daemon.json("remember", "The kettle is blue", "--type", "fact")
    stats = daemon.json("status", "--verbose")["stats"]
    assert stats["by_type"]["fact"] == 1
    assert daemon.json("verify") == {"ok": True, "differences": []}
    assert daemon.json("rebuild")["nodes_indexed"] == stats["total_nodes"]
    assert daemon.json("verify")["ok"] is True
    assert daemon.json("doctor") == {"findings": []}


def test_a_memory_says_what_it_replaces(shared: House) -> None:
    old = shared.json("remember", "Node 18 is required to build the shop.", "--space", "depot")
    shown = shared.ctl("remember", "Node 22 is required to build the shop.", "--space", "depot", "--verbose").stdout
    assert f"close to {old['short_id']}" in shown
    command = shown.strip().splitlines()[-1].partition("ormahctl ")[2].split()
    assert command[:2] == ["outdated", old["short_id"]]
    assert shared.json(*command)["valid_until"] is not None
    third = shared.json(
        "remember", "Node 24 is required to build the shop.", "--space", "depot", "--replaces", command[-1]
    )
    assert [one[:8] for one in third["replaced"]] == [command[-1]]
    assert third["near"] == []
    assert [one["id"] for one in shared.json("recall", "node to build the shop", "--space", "depot")["results"]] == [
        third["id"]
    ]
    wrong = shared.ctl("outdated", old["short_id"], "--by", third["short_id"], "--revoke")
    assert wrong.returncode == 2
    assert "--by and --revoke exclude each other" in wrong.stderr


@pytest.mark.parametrize("query", ["?!…", "...", "-> =", "\u0301"])
def test_a_query_of_marks_alone_finds_nothing_and_says_why(shared: House, query: str) -> None:
    shared.json("remember", "The ferry sails at noon.")
    for words in (["recall"], ["recall", "--sessions"], ["recall", "--as-of", "now"]):
        done = shared.ctl(*words, "--", query)
        assert (done.returncode, done.stdout) == (2, ""), done.stdout
        assert "a query without a letter or digit finds nothing; say what to look for" in done.stderr


def test_a_picture_may_be_looked_for(shared: House) -> None:
    assert shared.ctl("recall", "⛴").returncode in {0, 1}
