"""What a person chose for a folder holds until they name that folder: `--all`, a folder around it and a pattern leave it alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.house import House, open_house, write_notes

NOTES = {
    "Journal/2026-05-01.md": "It rained on the larches.\n",
    "Journal/Public/talk.md": "A talk about larches.\n",
    "Diary/Secret/may.md": "Sunshine on the larches.\n",
    "Diary/june.md": "June, and larches.\n",
    "plan.md": "A plan with larches.\n",
}


@pytest.fixture
def house() -> Iterator[House]:
    """A folder that was there before, with choices for three folders."""
    with open_house() as found:
        write_notes(found.vault, NOTES)
        found.start()
        found.json("vault", "adopt", "--folder", "Journal", "--space", "me", "--index")
        found.json("vault", "adopt", "--folder", "Diary/Secret", "--index")
        found.json("vault", "adopt", "--folder", "Journal/Public", "--yes")
        assert written(found) == {"Journal/Public/talk.md"}
        yield found


def written(house: House) -> set[str]:
    """The notes into which something was written."""
    return {path for path, text in NOTES.items() if (house.vault / path).read_text() != text}


def kept(done: Any) -> list[tuple[str, str]]:
    return [(one["path"], one["adopt"]) for one in done["kept"]]


def test_all_leaves_a_folder_that_is_only_indexed(house: House) -> None:
    plan = house.json("vault", "adopt", "--all", "--dry-run")
    assert kept(plan) == [("Diary/Secret", "index"), ("Journal", "index")]
    assert [one["path"] for one in plan["adopt"]] == ["Diary/june.md", "plan.md"]
    done = house.ctl("vault", "adopt", "--all", "--yes")
    assert "kept: Journal/ is only indexed" in done.stderr
    assert "ormahctl vault adopt --folder Journal" in done.stderr
    expected = {"Journal/Public/talk.md", "Diary/june.md", "plan.md"}
    assert written(house) == expected
    (house.vault / "Journal/later.md").write_text("Later, with larches.\n")
    house.json("jobs", "run", "index_updater")
    house.restart()
    house.json("jobs", "run", "index_updater")
    assert written(house) == expected
    assert (house.vault / "Journal/later.md").read_text() == "Later, with larches.\n"
    found = {one["path"]: one["space"] for one in house.json("recall", "larches", "-n", "20")["results"]}
    assert (found["Journal/2026-05-01.md"], found["Journal/later.md"], found["plan.md"]) == ("me", "me", None)
    assert kept(house.json("vault", "adopt", "--folder", "Journal", "--yes")) == []
    assert "Journal/2026-05-01.md" in written(house), "it was named"


def test_a_folder_around_it_and_a_pattern_leave_it_too(house: House) -> None:
    done = house.json("vault", "adopt", "--folder", "Diary", "--space", "days", "--yes")
    assert (kept(done), written(house)) == ([("Diary/Secret", "index")], {"Journal/Public/talk.md", "Diary/june.md"})
    assert house.json("show", house.json("recall", "sunshine", "-n", "1")["results"][0]["id"])["space"] == "days"
    assert kept(house.json("vault", "adopt", "--pattern", "*.md", "--yes")) == [
        ("Diary/Secret", "index"),
        ("Journal", "index"),
    ]
    assert written(house) == {"Journal/Public/talk.md", "Diary/june.md", "plan.md"}
    assert kept(house.json("vault", "adopt", "--pattern", "Journal/2026-*", "--yes")) == []
    assert "Journal/2026-05-01.md" in written(house), "the pattern names the folder"
    house.json("vault", "adopt", "Diary/Secret/may.md")
    assert written(house) == {*NOTES}, "one note is named"


def test_all_index_leaves_a_folder_that_is_adopted(house: House) -> None:
    done = house.ctl("vault", "adopt", "--all", "--index")
    assert "kept: Journal/Public/ is adopted" in done.stderr
    assert "ormahctl vault adopt --folder Journal/Public --index" in done.stderr
    assert written(house) == {"Journal/Public/talk.md"}
    assert house.json("verify")["differences"] == []
