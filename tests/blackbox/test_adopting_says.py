"""`vault adopt` on a folder that was adopted already says what becomes of its notes, of later ones, and of their space."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.house import House, open_house, save, wait_until, write_notes

NOTES = {
    "Woods/alder.md": "Alders stand by the brook.\n",
    "Woods/birch.md": "Birches stand on the heath.\n",
    "Woods/cedar.md": "---\nspace: abroad\n---\nCedars stand in the Lebanon.\n",
    "Woods/Deep/elm.md": "Elms stand in the valley.\n",
}


@pytest.fixture
def house() -> Iterator[House]:
    """A folder of notes that was adopted, with a space for all of it and another one for a folder in it."""
    with open_house() as found:
        write_notes(found.vault, NOTES)
        found.start()
        done = found.json("vault", "adopt", "--folder", "Woods", "--space", "trees", "--yes")
        assert done["spaces"] == [{"before": None, "after": "trees", "notes": 3}], "cedar.md names its space itself"
        yield found


def said(house: House, *words: str) -> list[str]:
    done = house.ctl("vault", "adopt", "--folder", "Woods", *words)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def space(house: House, path: str) -> str | None:
    found = house.json("show", path)["space"]
    assert found is None or isinstance(found, str)
    return found


def test_index_leaves_memories_what_they_are_and_says_so(house: House) -> None:
    stay = "4 notes are memories already, and stay memories that Ormah looks after"
    assert said(house, "--index", "--dry-run") == [stay, "new notes in Woods/ would be only indexed from then on"]
    assert said(house, "--index") == [stay, "new notes in Woods/ are only indexed from now on"]
    birch, fir = house.vault / "Woods/birch.md", house.vault / "Woods/fir.md"
    fir.write_text("Firs stand on the mountain.\n")
    save(birch, birch.read_text() + "And in the moor.\n")
    wait_until(
        lambda: house.git("log", "-1", "--format=%s", "--", "Woods/birch.md").strip() == "Edit: birch",
        "the edit of a memory is committed as before",
    )
    wait_until(lambda: house.call("agent.recall", query="firs mountain").results, "the new note is found")
    house.json("jobs", "run", "index_updater")
    assert fir.read_text() == "Firs stand on the mountain.\n"
    assert said(house, "--index", "--dry-run")[:3] == [
        "1 note would be found, and nothing is written into:",
        "  Woods/fir.md",
        stay,
    ]


def test_another_space_is_named_with_the_one_before(house: House) -> None:
    house.json("vault", "adopt", "--folder", "Woods/Deep", "--space", "deep")
    change = {"before": "trees", "after": "wood", "notes": 2}
    assert house.json("vault", "adopt", "--folder", "Woods", "--space", "wood", "--dry-run")["spaces"] == [change]
    assert "the space of 2 notes would change from trees to wood" in said(house, "--space", "wood", "--dry-run")
    assert space(house, "Woods/alder.md") == "trees", "it was only asked"
    lines = said(house, "--space", "wood")
    assert "new notes in Woods/ are adopted from now on, in the space wood" in lines
    assert "the space of 2 notes changed from trees to wood" in lines
    assert [space(house, path) for path in NOTES] == ["wood", "wood", "abroad", "deep"]
    assert house.json("vault", "adopt", "--folder", "Woods", "--space", "wood")["spaces"] == []
    (house.vault / "Woods/Deep/gorse.md").write_text("Gorse stands at the edge.\n")
    done = house.json("vault", "adopt", "--folder", "Woods/Deep", "--space", "wood", "--index")
    assert {(one["before"], one["after"]) for one in done["spaces"]} == {("deep", "wood")}
    assert space(house, "Woods/Deep/elm.md") == "wood"


BROKEN = "---\ntitle: [\n---\nThe frontmatter is damaged.\n"
AS_IT_IS = "nothing is written into it, and git keeps it as it is"


def tracked(house: House) -> list[str]:
    return [path for path in house.git("ls-files").splitlines() if path.endswith("broken.md")]


def test_a_damaged_note_is_committed_as_it_is_where_that_is_said(house: House) -> None:
    for path in ("broken.md", "Woods/broken.md"):
        save(house.vault / path, BROKEN)
    wait_until(lambda: tracked(house) == ["Woods/broken.md"], "in an adopted folder it is committed")
    house.json("jobs", "run", "index_updater")
    (alone,) = house.json("vault", "adopt", "broken.md")["left_out"]
    assert (alone["committed"], AS_IT_IS in alone["why"]) == (False, False)
    house.json("jobs", "run", "index_updater")
    assert tracked(house) == ["Woods/broken.md"]
    (would,) = (one for one in house.json("vault", "adopt", "--all", "--dry-run")["left_out"] if one["committed"])
    assert (would["path"], AS_IT_IS in would["why"]) == ("broken.md", True)
    assert tracked(house) == ["Woods/broken.md"]
    done = house.json("vault", "adopt", "--all", "--yes")
    assert [one for one in done["left_out"] if one["committed"]] == [would]
    assert tracked(house) == ["Woods/broken.md", "broken.md"]
    assert house.git("show", "HEAD:broken.md") == BROKEN == (house.vault / "broken.md").read_text()
    house.json("undo", "--run", done["run"])
    assert tracked(house) == ["Woods/broken.md"]
    assert (house.vault / "broken.md").read_text() == BROKEN
    house.json("jobs", "run", "index_updater")
    assert tracked(house) == ["Woods/broken.md"], "undone is undone"
    assert house.json("verify")["differences"] == []


def test_a_note_that_has_an_id_already_is_given_back_with_the_others(house: House) -> None:
    text = "---\nid: 11111111-2222-4333-8444-555555555555\n---\nHazels stand by the fence.\n"
    save(house.vault / "hazel.md", text)
    wait_until(lambda: house.call("agent.recall", query="hazels fence").results, "it is found")
    house.json("jobs", "run", "index_updater")
    done = house.json("vault", "adopt", "--all", "--yes")
    assert [one["path"] for one in done["adopt"]] == ["hazel.md"]
    assert "hazel.md" in house.git("ls-files")
    house.json("undo", "--run", done["run"])
    house.json("jobs", "run", "index_updater")
    assert "hazel.md" not in house.git("ls-files")
    assert (house.vault / "hazel.md").read_text() == text
    assert house.json("verify")["differences"] == []
