"""A person's Obsidian vault of 300 files: found and whispered without a byte written, adopted note by note and folder by folder."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from tests.blackbox.conftest import House, open_house, wait_until
from tests.obsidian_vault import ObsidianVault, build


class Person(NamedTuple):
    house: House
    theirs: ObsidianVault

    def first(self, path: str) -> dict[str, object]:
        """What recall finds first for the word of a note."""
        found = self.house.json("recall", self.theirs.words[path], "-n", "1")["results"][0]
        assert isinstance(found, dict)
        return found

    def untouched(self) -> bool:
        return not self.theirs.changed()


@pytest.fixture(scope="module")
def person() -> Iterator[Person]:
    with open_house() as house:
        theirs = build(house.vault, repository=True)
        house.start()
        yield Person(house, theirs)


def test_notes_are_found_shown_and_whispered_and_nothing_is_written(person: Person) -> None:
    house, theirs = person
    wrong = [path for group in theirs.groups if group in {"daily", "zettel", "meeting", "book", "windows", "inbox"}
             for path in theirs.groups[group][:3] if person.first(path)["path"] != path]  # fmt: skip
    assert wrong == []
    assert house.call("admin.stats").total_nodes == len(theirs.notes) + 2  # the self node, and a board
    found = person.first("Books/Stoner.md")
    assert found["title"] == "Stoner"
    shown = house.json("show", str(found["id"]))
    assert (shown["type"], shown["path"]) == ("fact", "Books/Stoner.md")
    daily = theirs.groups["daily"][0]
    assert str(person.first(daily)["created"]).startswith(daily.rpartition("/")[2][:10])
    assert "Stoner" in house.ctl("whisper", f"What does Stoner say: {theirs.words['Books/Stoner.md']}").stdout
    assert person.untouched()


def test_what_would_write_into_one_is_refused_and_names_the_way(person: Person) -> None:
    house = person.house
    node_id = str(person.first("Books/Walden.md")["id"])
    ours = house.json("remember", "Walden is a pond near Concord.", "--global")["id"]
    for words in (["update", node_id, "--title", "x"], ["forget", node_id], ["outdated", node_id, "--reason", "x"],
                  ["connect", node_id, "supports", ours]):  # fmt: skip
        done = house.ctl(*words)
        assert (done.returncode, "ormahctl vault adopt Books/Walden.md" in done.stderr) == (5, True), done.stderr
    assert house.ctl("connect", ours, "supports", node_id).returncode == 0
    assert any(edge["id"] == node_id for edge in house.json("show", ours)["connections"]["out"])
    assert person.untouched()


def test_jobs_leave_them_alone_and_use_counts(person: Person) -> None:
    house = person.house
    node_id = str(person.first("Books/Momo.md")["id"])
    house.json("show", node_id)
    head = house.git("rev-parse", "HEAD").strip()
    assert house.ctl("jobs", "run", "all").returncode == 0
    assert person.untouched()
    changed = house.git("log", "--format=", "--name-only", f"{head}..HEAD").split("\n")
    assert [path for path in changed if path and not path.startswith((".ormah/", "ormah/"))] == []
    assert node_id in (house.vault / ".ormah/strength.jsonl").read_text()


def test_the_index_is_disposable(person: Person) -> None:
    house, theirs = person
    asked = [path for group in ("zettel", "book", "meeting") for path in theirs.groups[group][:4]]
    before = {path: person.first(path)["id"] for path in asked}
    momo = person.first("Books/Momo.md")["id"]
    (house.vault / "Books/Momo.md").rename(house.vault / "Books/Momo by Ende.md")
    wait_until(lambda: person.first("Books/Momo.md")["path"] == "Books/Momo by Ende.md", "the rename is seen")
    assert person.first("Books/Momo.md")["id"] == momo
    index = house.index_dir
    house.stop()
    shutil.rmtree(index)
    house.start()
    assert {path: person.first(path)["id"] for path in asked} == before
    assert house.ctl("verify").returncode == 0
    (house.vault / "Books/Momo by Ende.md").rename(house.vault / "Books/Momo.md")
    wait_until(lambda: person.first("Books/Momo.md")["path"] == "Books/Momo.md", "it is back")
    assert person.untouched()


def test_a_dry_run_says_what_would_be_adopted_changed_and_left_out(person: Person) -> None:
    house, theirs = person
    plan = house.json("vault", "adopt", "--all", "--dry-run")
    planned = {one["path"]: one["lines"] for one in plan["adopt"]}
    assert [path for path in theirs.notes if path not in planned] == ["Reference/Staged.md"]  # waits for their commit
    assert [
        line.partition(":")[0] for line in planned["Zettelkasten/" + theirs.groups["zettel"][0].partition("/")[2]]
    ] == ["ormah_id"]
    assert planned[theirs.groups["reference"][0]][0] == "---"
    left = {one["path"]: one["why"] for one in plan["left_out"]}
    assert "drawing" in left["Drawings/Floor plan.excalidraw.md"]
    assert "board" in left["Boards/Sprint.md"]
    assert "template" in left["Extras/Person layout.md"]
    assert person.untouched()
    done = house.ctl("vault", "adopt", "--all")
    assert (done.returncode, "--yes" in done.stderr) == (2, True)
    assert person.untouched()


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        ([], 2, "nothing to adopt"), (["nowhere.md"], 3, "no file"), (["x" * 300], 3, "no file"), (["../x.md"], 2, "no file or folder"), (["--folder", "Nowhere"], 3, "no folder"),
        (["--all", "--space", "x"], 2, "--space goes with --folder"), (["Books/Momo.md", "--index"], 2, "--folder"),
        (["Templates/Daily.md"], 0, "it is a template"), (["Map.canvas"], 0, "no markdown file"), ([".trash/Thrown away.md"], 0, "dot folder"),
    ],
)  # fmt: skip
def test_what_cannot_be_adopted_is_said(person: Person, words: list[str], status: int, said: str) -> None:
    done = person.house.ctl("vault", "adopt", *words)
    assert (done.returncode, said in done.stdout + done.stderr) == (status, True), done.stdout + done.stderr
    assert person.untouched()


def test_doctor_counts_findings_of_one_kind(person: Person) -> None:
    house = person.house
    summary, verbose = house.ctl("doctor").stdout, house.ctl("doctor", "--verbose").stdout
    assert "files: tier must be one of core, working, archival" in summary
    assert summary.count("Books/") == 3
    assert verbose.count("tier must be one of") == 6
    findings = house.json("doctor", status=house.ctl("doctor").returncode)["findings"]
    assert sum("tier must be" in one["what"] for one in findings) == 6


def test_one_note_and_a_folder_with_its_space(person: Person) -> None:
    """The last one: it writes."""
    house, theirs = person
    before = person.first("Books/Stoner.md")["id"]
    done = house.json("vault", "adopt", "Books/Stoner.md")
    assert (len(done["adopt"]), done["left_out"], done["waiting"]) == (1, [], [])
    assert theirs.changed() == ["Books/Stoner.md"]
    assert person.first("Books/Stoner.md")["id"] == before
    house.json("update", str(before), "--type", "decision", "--title", "Stoner, a novel")
    text = (house.vault / "Books/Stoner.md").read_bytes()
    assert [line for line in theirs.files["Books/Stoner.md"].splitlines() if line not in text.splitlines()] == []
    house.json("vault", "adopt", "--folder", "Projects/Kestrel", "--space", "kestrel", "--yes")
    kestrel = [path for path in theirs.groups["project"] if path.startswith("Projects/Kestrel/")]
    assert set(theirs.changed()) == {"Books/Stoner.md", *kestrel}
    assert house.git("log", "-1", "--format=%s").strip() == "Adopt 15 notes in Projects/Kestrel/"
    assert house.git("log", "-1", "--format=%(trailers:key=Ormah-Kind,valueonly)").strip() == "adopt"
    assert {person.first(path)["space"] for path in kestrel[:3]} == {"kestrel"}
    (house.vault / "Projects/Kestrel/New.md").write_text("A note about zwiebelfisch.\n")
    wait_until(
        lambda: "zwiebelfisch" in house.ctl("recall", "zwiebelfisch").stdout, "a new note of the folder is found"
    )
    (new,) = house.json("recall", "zwiebelfisch", "-n", "1")["results"]
    wait_until(lambda: b"id: " in (house.vault / "Projects/Kestrel/New.md").read_bytes(), "and follows the others")
    assert (new["path"], new["space"]) == ("Projects/Kestrel/New.md", "kestrel")
    house.json("vault", "adopt", "--folder", "Meetings", "--space", "meet", "--index")
    assert person.first(theirs.groups["meeting"][0])["space"] == "meet"
    assert house.json("vault", "adopt", "--folder", "Projects/Kestrel", "--yes")["already"] == 16
    assert house.ctl("verify").returncode == 0
    house.restart()
    assert person.first(theirs.groups["meeting"][0])["space"] == "meet"
    assert person.first(kestrel[0])["space"] == "kestrel"
    page = theirs.groups["reference"][0]
    op = house.json("vault", "adopt", page)["op"]
    before = person.first(page)["id"]
    house.json("undo", op)
    assert page not in theirs.changed()
    assert person.first(page)["id"] == before  # found as before, and nothing is written into it
    house.ctl("jobs", "run", "index_updater")
    assert person.first(page)["id"] == before
    assert house.ctl("verify").returncode == 0
